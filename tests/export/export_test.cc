// Functions and modules as programs: values of the CPU, names, what is refused; everything stays as it was.
#include <gmock/gmock.h>

#include "tests/export/run.h"
#include "tpubridge/quant/quantize.h"

namespace tpubridge {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct ExportNet : torch::nn::Module {
  torch::nn::Linear first{register_module("first", torch::nn::Linear(4, 8))};
  torch::nn::BatchNorm1d norm{register_module("norm", torch::nn::BatchNorm1d(8))};
  torch::nn::Dropout drop{register_module("drop", torch::nn::Dropout(0.5))};
  torch::nn::Linear last{register_module("last", torch::nn::Linear(8, 3))};
  torch::Tensor forward(const torch::Tensor& x) {
    return last(drop(torch::gelu(norm(first(x))) * 0.7 / 3.1));
  }
};

std::shared_ptr<ExportNet> net(torch::Device device) {
  torch::manual_seed(3);
  auto out = std::make_shared<ExportNet>();
  out->eval();
  out->to(device);
  return out;
}

ExportedProgram exported(const std::shared_ptr<ExportNet>& model, const std::vector<ExportInput>& inputs,
                         ExportOptions options = {}) {
  options.modules = {model};
  return export_program(
      inputs, [&](const Tensors& in) { return Tensors{model->forward(in[0])}; }, options);
}

std::vector<std::string> weight_names(const ExportedProgram& p) {
  std::vector<std::string> out;
  for (const auto& w : p.weights) out.push_back(w.name);
  std::ranges::sort(out);
  return out;
}

TEST(Export, AModuleGivesTheValuesOfTheCpu) {
  const auto model = net(tpu()), reference = net(torch::kCPU);
  const std::vector<ExportInput> in = {{"x", torch::randn({5, 4})}};
  const auto before = metrics();
  auto program = exported(model, in, {.outputs = {"scores"}});
  EXPECT_EQ(metrics().compiles, before.compiles);
  EXPECT_THAT(weight_names(program),
              ElementsAre("first.bias", "first.weight", "last.bias", "last.weight", "norm.bias",
                          "norm.running_mean", "norm.running_var", "norm.weight"));
  EXPECT_THAT(program.text, AllOf(HasSubstr("loc(\"x\")"), HasSubstr("loc(\"first.weight\")"),
                                  HasSubstr("jax.result_info = \"scores\"")));
  const torch::NoGradGuard no_grad;
  const auto want = reference->forward(in[0].example);
  expect_close(run_exported(program, in).at("scores"), want);
  expect_close(model->forward(in[0].example.to(tpu())), want);  // it still works
  program = exported(model, in, {.weights_as_constants = true});
  EXPECT_TRUE(program.weights.empty());
  EXPECT_EQ(program.parameters.size(), 1U);
  expect_close(run_exported(program, in).at("out0"), want);
}

TEST(Export, EveryProgramOfAPackageSharesTheWeights) {
  const auto model = net(tpu()), reference = net(torch::kCPU);
  PackageWriter writer("net");
  for (const int64_t rows : {1, 4, 7}) writer.add(exported(model, {{"x", torch::zeros({rows, 4})}}));
  const TempFolder folder;
  const auto report = writer.save(folder.path() / "m.tbp");
  EXPECT_EQ(report.weights, 8);
  EXPECT_EQ(report.executables.size(), 3U);
  const torch::NoGradGuard no_grad;
  for (const int64_t rows : {7, 1, 4}) {
    const std::vector<ExportInput> in = {{"x", torch::randn({rows, 4})}};
    expect_close(run_packed(writer, in).at("out0"), reference->forward(in[0].example));
  }
  EXPECT_THAT(refusal([&] {
                (void)run_packed(writer, {{"x", torch::zeros({2, 4})}});
              }),
              HasSubstr("f32[7,4]"));
  EXPECT_THAT(refusal([&] {
                writer.add(exported(model, {{"x", torch::zeros({4, 4})}}));
              }),
              HasSubstr("same shapes"));
  EXPECT_THAT(refusal([&] {
                writer.add(exported(model, {{"z", torch::zeros({3, 4})}}));
              }),
              HasSubstr("same inputs"));
}

// What is handed through, unused, given twice, a view, of other types, from the host.
TEST(Export, ResultsThatAreNotComputed) {
  const at::Tensor weight = torch::randn({3}, tpu()), host = torch::randn({2, 3});
  const std::vector<ExportInput> in = {{"x", torch::randn({3, 2}).t()},
                                       {"unused", torch::ones({2}, torch::kLong)},
                                       {"flags", torch::tensor({true, false})},
                                       {"half", torch::randn({4}).to(torch::kBFloat16)}};
  const auto f = [&](const Tensors& a) {
    const auto sum = a[0] + host.to(a[0].device());
    return Tensors{a[0],         weight, a[0].t(), sum, sum, sum.slice(1, 1, 3), a[2].logical_not(),
                   a[3].flip(0), a[2]};
  };
  const auto program = export_program(in, f);
  const auto got = run_exported(program, in);
  Tensors cpu;
  for (const auto& i : in) cpu.push_back(i.example);
  const auto want = f(cpu);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE(torch::equal(got.at("out" + std::to_string(i)), want[i].cpu())) << i;
}

TEST(Export, StateIsRefusedAndLeftAsItWas) {
  const auto model = net(tpu());
  const std::vector<ExportInput> in = {{"x", torch::randn({5, 4})}};
  const auto mean = model->norm->running_mean.cpu().clone();
  const auto fails = [&](const ExportFunction& f) {
    return refusal([&] { (void)export_program(in, f, {.modules = {model}, .name = "net"}); });
  };
  model->train();
  EXPECT_THAT(fails([&](const Tensors& a) { return Tensors{model->drop(a[0])}; }),
              AllOf(HasSubstr("UnsupportedError"), HasSubstr("draws random numbers")));
  EXPECT_THAT(fails([&](const Tensors& a) { return Tensors{model->norm(model->first(a[0]))}; }),
              AllOf(HasSubstr("it writes to"), HasSubstr("norm.")));
  model->eval();
  EXPECT_TRUE(torch::equal(model->norm->running_mean.cpu(), mean));
  at::Tensor cache = torch::zeros({5, 4}, tpu());
  EXPECT_THAT(fails([&](const Tensors& a) { return cache.add_(a[0]), Tensors{cache * 2}; }),
              HasSubstr("a tensor that it captures"));
  EXPECT_EQ(cache.abs().sum().item<float>(), 0);
  EXPECT_THAT(fails([&](const Tensors& a) { return a[0].mul_(2), Tensors{a[0] + 1}; }),
              HasSubstr("writes to its argument 0"));
  EXPECT_THAT(fails([&](const Tensors& a) { return Tensors{a[0] * a[0].sum().item<float>()}; }),
              HasSubstr("UnsupportedError"));
  EXPECT_THAT(fails([&](const Tensors& a) {
                const at::AutoGradMode on(true);
                model->forward(a[0]).sum().backward();
                return Tensors{a[0] + 1};
              }),
              HasSubstr("gradients"));
  EXPECT_FALSE(model->first->weight.grad().defined());
  EXPECT_THAT(fails([&](const Tensors&) { return Tensors{}; }), HasSubstr("computes nothing"));
  EXPECT_THAT(fails([&](const Tensors&) { return Tensors{at::Tensor()}; }), HasSubstr("undefined"));
  EXPECT_THROW(fails([&](const Tensors&) -> Tensors { throw std::runtime_error("own"); }),
               std::runtime_error);
  const torch::NoGradGuard no_grad;
  expect_close(run_exported(exported(model, in), in).at("out0"),
               net(torch::kCPU)->forward(in[0].example));  // all of that left no trace
}

TEST(Export, NamesThatAreWrong) {
  const auto same = [](const Tensors& a) { return Tensors{a[0] + 1}; };
  const at::Tensor x = torch::ones({2});
  EXPECT_THAT(refusal([&] { (void)export_program({{"x", x}, {"x", x}}, same); }), HasSubstr("two inputs"));
  EXPECT_THAT(refusal([&] { (void)export_program({{"", x}}, same); }), HasSubstr("no name"));
  EXPECT_THAT(refusal([&] { (void)export_program({{"x", {}}}, same); }), HasSubstr("undefined"));
  EXPECT_THAT(refusal([&] {
                (void)export_program({{"x", x}}, same, {.outputs = {"a", "b"}});
              }),
              HasSubstr("2 names"));
}

// The example's values count for nothing.
TEST(Export, ValuesOfTheExampleAreNotKept) {
  const auto f = [](const Tensors& a) {
    return Tensors{torch::where(a[0] > 0, a[0] * 2, a[0] - 1), a[0].argmax(1)};
  };
  const auto program = export_program({{"x", torch::zeros({3, 4})}}, f);
  for (int i = 0; i < 3; ++i) {
    const std::vector<ExportInput> in = {{"x", torch::randn({3, 4})}};
    const auto got = run_exported(program, in);
    const auto cpu = f({in[0].example});
    expect_close(got.at("out0"), cpu[0]);
    EXPECT_TRUE(torch::equal(got.at("out1"), cpu[1]));
  }
}

TEST(Export, QuantisedWeightsStayPacked) {
  auto model = std::make_shared<torch::nn::LinearImpl>(64, 32);
  model->to(tpu());
  EXPECT_EQ(quantize(*model, {.group = 64}).layers.size(), 1U);
  const std::vector<ExportInput> in = {{"x", torch::randn({2, 64})}};
  const torch::NoGradGuard no_grad;
  const auto want = model->forward(in[0].example.to(tpu())).cpu();
  const auto program = export_program(in, [&](const Tensors& a) { return Tensors{model->forward(a[0])}; },
                                      {.modules = {model}});
  EXPECT_THAT(weight_names(program), ElementsAre("bias", "weight.packed", "weight.scales"));
  expect_close(run_exported(program, in).at("out0"), want);
}

}  // namespace
}  // namespace tpubridge
