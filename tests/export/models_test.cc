// Models of torch.export and of Hugging Face folders as packages: the module's own results.
#include <gmock/gmock.h>

#include "tests/export/run.h"
#include "tests/load/exports.h"
#include "tpubridge/models/causal_lm.h"

namespace tpubridge {
namespace {

class PackagedExport : public testing::TestWithParam<std::string> {};

TEST_P(PackagedExport, GivesPythonsResults) {
  const Reference python(GetParam());
  auto model = load(export_path(GetParam()));
  model->to(tpu());
  std::vector<ExportInput> in;
  std::vector<std::string> names;
  for (const auto& [name, value] : python.with("in.")) in.push_back({name, value.toTensor()});
  ExportOptions options{.modules = {model}, .name = GetParam()};
  const auto program = export_program(
      in,
      [&](const Tensors& a) {
        LoadedModule::Named named;
        for (size_t i = 0; i < a.size(); ++i) named.emplace(in[i].name, a[i]);
        const Outputs out = model->call({}, named);
        Tensors results;
        options.outputs.clear();
        for (size_t i = 0; i < out.size(); ++i)
          if (out.values()[i].isTensor())
            results.push_back(out.values()[i].toTensor()), options.outputs.push_back(out.names()[i]);
        return results;
      },
      options);
  const auto got = run_exported(program, in);
  size_t seen = 0;
  for (const auto& [name, want] : python.with("out.")) {
    EXPECT_LT(distance(got.at(name), want.toTensor()), GetParam() == "autocast" ? 2e-2 : 1e-4) << name;
    ++seen;
  }
  EXPECT_GE(seen, 1U);
}

INSTANTIATE_TEST_SUITE_P(Export, PackagedExport,
                         testing::Values("mlp", "speech", "unet", "dynamic", "autocast", "bert", "vit"),
                         [](const auto& info) { return info.param; });

TEST(PackagedModel, ACacheOfKeysAndValuesIsRefused) {
  const Reference python("decoder");
  auto model = load(export_path("decoder"));
  model->to(tpu());
  std::vector<ExportInput> in;
  for (const auto& [name, value] : python.with("in.")) in.push_back({name, value.toTensor()});
  const std::string what = refusal([&] {
    (void)export_program(in,
                         [&](const Tensors& a) {
                           LoadedModule::Named named;
                           for (size_t i = 0; i < a.size(); ++i) named.emplace(in[i].name, a[i]);
                           const Outputs out = model->call({}, named);
                           Tensors results;
                           for (const auto& v : out.values())
                             if (v.isTensor()) results.push_back(v.toTensor());
                           return results;
                         },
                         {.modules = {model}});
  });
  EXPECT_THAT(what, testing::HasSubstr("it writes to"));
}

TEST(PackagedModel, ALanguageModelGivesItsLogits) {
  for (const char* name : {"gpt2", "llama", "gemma2"}) {
    const Path folder = Path(TEST_DATA) / "models" / name;
    const auto model = CausalLM::of_folder(folder, {.device = tpu()});
    const auto reference = read_tensors(folder / "reference.safetensors");
    const std::vector<ExportInput> in = {{"input_ids", torch_tensor(*reference.find("tokens")).clone()}};
    const auto program = export_program(in, [&](const Tensors& a) { return Tensors{model->forward(a[0])}; },
                                        {.modules = {model}});
    for (const auto& w : program.weights) EXPECT_THAT(w.name, testing::Not(testing::HasSubstr("captured.9")));
    const torch::NoGradGuard no_grad;
    expect_close(run_exported(program, in).at("out0"), torch_tensor(*reference.find("logits")), 10);
  }
}

}  // namespace
}  // namespace tpubridge
