// Each export against Python: results, gradients, what is written back, 20 steps of training; on the device,
// with nothing on the CPU.
#include "tests/load/exports.h"

namespace tpubridge {
namespace {

const std::vector<std::string> kAll = {"mlp",   "conv",     "speech",  "unet", "mutates", "dynamic", "cond",
                                       "while", "autocast", "decoder", "bert", "vit",     "moe",     "llama"};
const std::vector<std::string> kTrained = {"mlp", "conv", "speech", "unet", "dynamic", "bert"};

// bfloat16 rounds elsewhere in a product.
double tolerance(const std::string& model) { return model == "autocast" ? 2e-2 : 1e-4; }

class Exported : public testing::TestWithParam<std::string> {};

void expect_like_python(const std::string& name, torch::Device device) {
  const Reference python(name);
  auto model = load(export_path(name));
  model->to(device);
  const auto inputs = python.with("in.", device);
  const bool grads = !python.with("grad.").empty();
  const at::AutoGradMode mode(grads || name == "while");
  const auto outputs = model->call({}, inputs);
  size_t seen = 0;
  for (const auto& [out, want] : python.with("out.")) {
    EXPECT_LT(distance(outputs[out], want.toTensor()), tolerance(name)) << out;
    ++seen;
  }
  EXPECT_GE(seen, 1U);
  if (grads) loss_of(outputs, false).backward();
  const auto parameters = model->named_parameters();
  for (const auto& [parameter, want] : python.with("grad.")) {
    ASSERT_TRUE(parameters.contains(parameter)) << parameter;
    const auto& got = parameters[parameter].grad();
    ASSERT_TRUE(got.defined()) << parameter;
    const double size = std::max(1.0, want.toTensor().abs().max().item<double>());
    EXPECT_LT(distance(got, want.toTensor()), 10 * tolerance(name) * size) << parameter;
  }
  const auto buffers = model->named_buffers();
  for (const auto& [buffer, want] : python.with("after."))
    EXPECT_LT(distance(buffers[buffer], want.toTensor()), 1e-4) << buffer;
}

TEST_P(Exported, OnTheDevice) {
  const auto before = metrics().fallback_count();
  expect_like_python(GetParam(), tpu());
  EXPECT_EQ(metrics().fallback_count(), before) << report();
}
TEST_P(Exported, OnTheCpu) { expect_like_python(GetParam(), torch::kCPU); }

INSTANTIATE_TEST_SUITE_P(Load, Exported, testing::ValuesIn(kAll),
                         [](const auto& info) { return info.param; });

class Trained : public testing::TestWithParam<std::string> {};

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const std::string& name,
                                                      std::vector<at::Tensor> parameters) {
  if (name == "conv" || name == "unet" || name == "dynamic")
    return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.01));
  return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.01));
}

// One step, compiled: the losses are Python's, and the step is replayed.
TEST_P(Trained, AsInPython) {
  const Reference python(GetParam());
  auto model = load(export_path(GetParam()));
  model->to(tpu());
  const auto inputs = python.with("in.", tpu());
  auto opt = optimizer_of(GetParam(), model->parameters());
  const auto before = metrics().fallback_count();
  auto step = compile(
      [&] {
        opt->zero_grad();
        auto loss = loss_of(model->call({}, inputs), true);
        loss.backward();
        opt->step();
        return loss;
      },
      {.modules = {model}, .optimizers = {opt.get()}});
  const auto want = python.all.at("losses");
  for (int64_t i = 0; i < 20; ++i)
    EXPECT_NEAR(step().item<double>(), want[i].item<double>(), 1e-3 * std::abs(want[i].item<double>()))
        << "step " << i;
  EXPECT_GE(step.report().replayed, 15) << step.report().why_traced;
  EXPECT_EQ(metrics().fallback_count(), before) << report();
}
INSTANTIATE_TEST_SUITE_P(Load, Trained, testing::ValuesIn(kTrained),
                         [](const auto& info) { return info.param; });

// The decoder with its static cache: Python's tokens, all from one program.
TEST(ExportedDecoder, DecodesInOneCompile) {
  const at::NoGradGuard no_grad;
  const auto want = Reference("decoder").all.at("tokens");
  auto model = load(export_path("decoder"));
  model->to(tpu());
  auto step = compile([&](const at::Tensor& token,
                          const at::Tensor& position) { return model->forward(token, position).argmax(-1); },
                      {.modules = {model}});
  auto token = torch::full({1, 1}, 5, torch::kLong).to(tpu());
  sync();
  const auto before = metrics();
  for (int64_t i = 0; i < 12; ++i) {
    token = step(token, torch::full({1}, i, torch::kLong).to(tpu()));
    EXPECT_EQ(token.item<int64_t>(), want[i + 1].item<int64_t>()) << "token " << i;
  }
  EXPECT_EQ(metrics().fallback_count(), before.fallback_count());
  EXPECT_EQ(metrics().compiles - before.compiles, 1) << report();
}

}  // namespace
}  // namespace tpubridge
