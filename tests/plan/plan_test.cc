// Models with weights that are shapes alone: the programs are those of real weights, each parameter is
// counted as what it is, what is trained is taken over and given back, and nothing of it can run.
#include <gmock/gmock.h>
#include <torch/nn.h>

#include <fstream>

#include "tests/export/run.h"
#include "tests/load/exports.h"
#include "tpubridge/models/causal_lm.h"
#include "tpubridge/optim/optim.h"
#include "tpubridge/plan/model.h"
#include "tpubridge/plan/phantom.h"
#include "tpubridge/plan/split.h"

namespace tpubridge::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Path folder_of(const std::string& family) { return Path(TEST_DATA) / "models" / family; }

int64_t bytes_of(const PlannedStep& step, Role role) {
  int64_t sum = 0;
  for (const auto& p : step.parameters)
    if (p.role == role) sum += p.bytes_on_each;
  return sum;
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++n;
  return n;
}

// What a module says of itself.
int64_t bytes_in(const torch::nn::Module& module) {
  int64_t sum = 0;
  for (const auto& p : module.parameters()) sum += static_cast<int64_t>(p.nbytes());
  for (const auto& b : module.buffers()) sum += static_cast<int64_t>(b.nbytes());
  return sum;
}

TEST(Phantom, HasAShapeAndTracesAndNeverRuns) {
  const at::Tensor a = phantom({3, 4}, at::kFloat), b = phantom({4, 2}, at::kFloat);
  EXPECT_EQ(a.sizes(), (std::vector<int64_t>{3, 4}));
  EXPECT_TRUE(a.device().is_privateuseone());
  EXPECT_THROW((void)a.mm(b).cpu(), std::exception);
  EXPECT_EQ(phantom({0, 4}, at::kFloat).numel(), 0);
  const at::Tensor turned = phantom_like(torch::zeros({5, 7}).t());
  EXPECT_EQ(turned.strides(), (std::vector<int64_t>{1, 7}));
}

// The same module with weights that are there.
TEST(Plan, TheProgramIsThatOfRealWeights) {
  const auto plan_of = [](const std::shared_ptr<torch::nn::Linear>& layer, bool real) {
    auto module = (*layer).ptr();
    const at::Tensor x = real ? torch::randn({8, 16}).to(tpu()) : phantom({8, 16}, at::kFloat);
    StepToPlan step{.name = "linear", .module = module, .inputs = {{"x", x}}};
    step.call = [layer](const std::vector<at::Tensor>& in) {
      return std::vector{torch::gelu((*layer)(in[0]))};
    };
    return plan_step(step).text;
  };
  auto layer = std::make_shared<torch::nn::Linear>(16, 32);
  (*layer)->to(tpu());
  const std::string real = plan_of(layer, true);
  for (auto& p : (*layer)->parameters()) forget(p);
  EXPECT_EQ(plan_of(layer, false), real);
  EXPECT_THAT(real, HasSubstr("dot_general"));
}

// What a step leaves on the device it can do again: everything is as it was.
TEST(Plan, NothingIsChanged) {
  auto layer = torch::nn::Linear(4, 4);
  layer->to(tpu());
  const at::Tensor before = layer->weight.detach().cpu().clone();
  StepToPlan step{.name = "step", .module = layer.ptr(), .inputs = {{"x", phantom({2, 4}, at::kFloat)}}};
  step.training = true;
  optim::SGD sgd(layer->parameters(), optim::SGDOptions(0.1));
  step.call = [&](const std::vector<at::Tensor>& in) {
    const at::Tensor loss = layer(in[0]).square().mean();
    loss.backward();
    sgd.step();
    sgd.zero_grad();
    return std::vector{loss.detach()};
  };
  const PlannedStep planned = plan_step(step);
  EXPECT_EQ(bytes_of(planned, Role::weight), 4 * (16 + 4));
  // The weight, the bias, the optimizer's count of steps.
  EXPECT_EQ(count_of(planned.text, "tf.aliasing_output"), 3U) << planned.text;
  EXPECT_TRUE(layer->weight.detach().cpu().equal(before));
  EXPECT_FALSE(layer->weight.grad().defined());
}

class Families : public testing::TestWithParam<std::string> {};

TEST_P(Families, EveryFamilyIsCalledAndTrained) {
  const Path folder = folder_of(GetParam());
  const auto real = CausalLM::of_folder(folder, {.device = tpu()});
  const Model model = open_model(folder, {.length = 16});
  int64_t numbers = 0;
  for (const auto& p : real->parameters()) numbers += p.numel();
  const PlannedStep call = plan_model(model, 2, Optimizer::none, {});
  EXPECT_LE(bytes_of(call, Role::weight), bytes_in(*real));  // a buffer that nobody reads is left out
  EXPECT_GE(bytes_of(call, Role::weight), 4 * numbers);
  EXPECT_EQ(bytes_of(call, Role::input), 2 * 16 * 8);
  EXPECT_EQ(bytes_of(call, Role::state), 0);
  const PlannedStep step = plan_model(model, 2, Optimizer::adamw, {});
  EXPECT_GE(bytes_of(step, Role::weight), 4 * numbers);
  EXPECT_EQ(bytes_of(step, Role::state), 2 * 4 * numbers + 4);  // two moments, one count
  // Every weight and every moment is taken over.
  const auto parameters = static_cast<size_t>(real->parameters().size());
  EXPECT_EQ(count_of(step.text, "tf.aliasing_output"), 3 * parameters + 1) << GetParam();
}

TEST_P(Families, TheTypeIsThatWhichIsAskedFor) {
  const Path folder = folder_of(GetParam());
  const Model narrow = open_model(folder, {.type = at::kBFloat16, .length = 8});
  const Model wide = open_model(folder, {.type = at::kFloat, .length = 8});
  int64_t numbers = 0;
  for (const auto& p : wide.module->parameters()) numbers += p.numel();
  const int64_t two = bytes_of(plan_model(narrow, 1, Optimizer::none, {}), Role::weight);
  const int64_t four = bytes_of(plan_model(wide, 1, Optimizer::none, {}), Role::weight);
  EXPECT_EQ(four - two, 2 * numbers);
  // Masters of 32 bits beside two moments.
  const PlannedStep step = plan_model(narrow, 1, Optimizer::adamw, {});
  EXPECT_GE(bytes_of(step, Role::state), 3 * 4 * numbers);
}

INSTANTIATE_TEST_SUITE_P(Plan, Families,
                         testing::Values("gemma", "gemma2", "gemma3", "gpt2", "llama", "mistral", "phi3",
                                         "qwen2", "qwen3"),
                         [](const auto& info) { return info.param; });

// As quantize_weight() has it on a TPU: a byte or half a byte a number, and a scale for each group.
TEST(PlanQuantized, TakesTheBytesThatItSays) {
  for (const auto type : {QuantType::int8, QuantType::int4}) {
    const Model model =
        open_model(folder_of("llama"), {.quantize = QuantizeOptions{.weights = type}, .length = 8});
    const PlannedStep call = plan_model(model, 1, Optimizer::none, {});
    int64_t packed = 0, matrices = 0;
    for (const auto& p : call.parameters)
      if (p.name.ends_with(".packed")) packed += p.bytes_on_each;
    for (const auto& p : model.module->parameters())
      if (p.dim() == 2) matrices += p.numel();
    EXPECT_EQ(packed, type == QuantType::int8 ? matrices : matrices / 2);
  }
}

TEST(PlanExport, ModelsOfTorchExport) {
  for (const char* name : {"mlp", "speech", "unet", "dynamic", "autocast", "bert", "vit", "decoder",
                           "mutates", "moe", "conv", "llama"}) {
    const auto real = load(export_path(name));
    const Model model = open_model(export_path(name), {});
    const PlannedStep call = plan_model(model, model.least_batch, Optimizer::none, {});
    EXPECT_LE(bytes_of(call, Role::weight), bytes_in(*real)) << name;
    EXPECT_GT(bytes_of(call, Role::weight), 0) << name;
    EXPECT_THAT(call.text, HasSubstr("func.func")) << name;
  }
}

TEST(PlanExport, IsTrained) {
  for (const char* name : {"mlp", "vit", "conv"}) {
    const Model model = open_model(export_path(name), {});
    const PlannedStep step = plan_model(model, model.least_batch, Optimizer::adamw, {});
    int64_t numbers = 0;
    for (const auto& p : model.module->parameters())
      if (p.requires_grad()) numbers += p.numel();
    EXPECT_GE(bytes_of(step, Role::state), 8 * numbers) << name;
    EXPECT_LE(bytes_of(step, Role::state), 8 * numbers + 64) << name;
  }
}

// Where values decide what is computed there is no program.
TEST(PlanExport, WhatReadsOnTheHostIsRefused) {
  for (const char* name : {"cond", "while"}) {
    const std::string said = refusal([&] {
      const Model model = open_model(export_path(name), {});
      (void)plan_model(model, model.least_batch, Optimizer::none, {});
    });
    if (said == "nothing was thrown") continue;  // it may be computed without
    EXPECT_THAT(said, HasSubstr("UnsupportedError")) << name;
  }
}

TEST(PlanExport, BatchesAndLengthsAreThoseOfTheFile) {
  const Model model = open_model(export_path("dynamic"), {});
  EXPECT_TRUE(model.any_batch);
  EXPECT_THAT(refusal([&] { (void)plan_model(model, model.most_batch + 1, Optimizer::none, {}); }),
              HasSubstr("batches of"));
  const Model fixed = open_model(export_path("vit"), {});
  EXPECT_FALSE(fixed.any_batch);
  EXPECT_THAT(refusal([&] { (void)plan_model(fixed, fixed.least_batch + 1, Optimizer::none, {}); }),
              HasSubstr("exported for a batch of"));
  EXPECT_THAT(refusal([&] {
                (void)open_model(export_path("vit"), {.sizes = {{"nosuch", 3}}});
              }),
              HasSubstr("nosuch"));
  EXPECT_THAT(refusal([&] { (void)open_model(folder_of("llama"), {.length = 1000}); }),
              HasSubstr("sees 128 tokens"));
  EXPECT_THAT(refusal([&] {
                (void)open_model(folder_of("llama"), {.sizes = {{"s0", 3}}});
              }),
              HasSubstr("no sizes with names"));
}

// ------------------------------------------------------------------ meshes

TEST(PlanMesh, BytesFallAsTheRulesSay) {
  const Axes none;
  for (const char* family : {"llama", "gpt2"}) {
    const auto planned = [&](const Axes& mesh) {
      return plan_model(open_model(folder_of(family), {.length = 16, .mesh = mesh}), 8, Optimizer::adamw,
                        mesh);
    };
    const PlannedStep one = planned(none), data = planned({{"data", 4}}), all = planned({{"fsdp", 4}}),
                      model = planned({{"data", 2}, {"model", 2}});
    EXPECT_EQ(bytes_of(data, Role::weight), bytes_of(one, Role::weight));
    EXPECT_EQ(bytes_of(data, Role::input) * 4, bytes_of(one, Role::input));
    EXPECT_EQ(data.partitions, 4);
    EXPECT_LE(bytes_of(all, Role::weight), bytes_of(one, Role::weight) * 3 / 10) << family;
    EXPECT_LE(bytes_of(all, Role::state), bytes_of(one, Role::state) * 3 / 10) << family;
    EXPECT_LT(bytes_of(model, Role::weight), bytes_of(one, Role::weight) * 3 / 4) << family;
    EXPECT_EQ(bytes_of(model, Role::input) * 2, bytes_of(one, Role::input));
    EXPECT_THAT(model.text, AllOf(HasSubstr("sdy.mesh"), HasSubstr("\"model\"")));
    EXPECT_THAT(one.text, testing::Not(HasSubstr("sdy.")));
  }
}

TEST(PlanMesh, WhatCannotBeSplitIsRefused) {
  const auto refused = [](const Axes& mesh, int64_t batch = 4, const Path& path = folder_of("llama")) {
    return refusal([&] { (void)plan_model(open_model(path, {.mesh = mesh}), batch, Optimizer::none, mesh); });
  };
  EXPECT_THAT(refused({{"rows", 2}}), AllOf(HasSubstr("rows"), HasSubstr("data, fsdp, model")));
  EXPECT_THAT(refused({{"data", 2}, {"data", 2}}), HasSubstr("twice"));
  EXPECT_THAT(refused({{"data", 3}}), HasSubstr("cannot be split into 3"));
  EXPECT_THAT(refused({{"model", 2}}, 1, export_path("mlp")), HasSubstr("for language models"));
  const Axes mesh = {{"data", 2}};
  EXPECT_THAT(
      refusal([&] { (void)open_model(folder_of("llama"), {.quantize = QuantizeOptions(), .mesh = mesh}); }),
      HasSubstr("over a mesh"));
}

// ------------------------------------------------------------------ size

int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) << 10;
  return 0;
}

// Seven thousand million parameters, 27 GB: config.json is all that is there.
TEST(PlanLarge, AModelOfSevenBillionIsPlannedWithoutItsWeights) {
  const TempFolder folder;
  write_file(folder.path() / "config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "hidden_act": "silu", "vocab_size": 32000, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})");
  const int64_t before = peak_memory();
  const Model model = open_model(folder.path(), {.length = 512});
  const PlannedStep step = plan_model(model, 4, Optimizer::adamw, {});
  EXPECT_EQ(bytes_of(step, Role::weight) / 1'000'000'000, 13);  // bf16
  EXPECT_EQ(bytes_of(step, Role::state) / 1'000'000'000, 80);   // a master and two moments
  EXPECT_LT(peak_memory() - before, int64_t{1} << 30);
}

}  // namespace
}  // namespace tpubridge::plan
