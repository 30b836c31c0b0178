// The driver of the model tests.
#include "tests/device/training.h"

#include <cmath>

namespace tpubridge {
namespace {

struct Trained {
  std::shared_ptr<torch::nn::Module> model;
  std::vector<double> losses;
  int64_t late_compiles = 0;  // after the second step
};

Trained train(const Training& t, torch::Device device) {
  Trained r;
  r.model = t.model();
  r.model->to(device);
  const Step step = t.begin(*r.model, device);
  int64_t compiles = 0;
  for (int i = 0; i < t.steps; ++i) {
    if (i == 2) compiles = metrics().compiles;
    r.losses.push_back(step(i).item<double>());
  }
  r.late_compiles = metrics().compiles - compiles;
  return r;
}

std::vector<torch::Tensor> state(const torch::nn::Module& m) {
  auto all = m.parameters();
  for (const auto& b : m.buffers()) all.push_back(b);
  return all;
}

void note(const char* name, double value) {
  std::ostringstream text;
  text << value;
  testing::Test::RecordProperty(name, text.str());
}

void compare_losses(const std::vector<double>& got, const std::vector<double>& want) {
  double worst = 0;
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(std::isfinite(want[i])) << "step " << i;
    EXPECT_NEAR(got[i], want[i], 1e-3 * std::abs(want[i])) << "step " << i;
    worst = std::max(worst, std::abs(got[i] - want[i]) / std::abs(want[i]));
  }
  note("worst_relative_loss_difference", worst);
}

void compare_parameters(const torch::nn::Module& got, const torch::nn::Module& want, double tolerance) {
  const auto a = state(got), b = state(want);
  double worst = 0;
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const auto g = a[i].detach().cpu(), w = b[i].detach();
    const double far = w.numel() ? (g - w).abs().max().item<double>() : 0;
    EXPECT_TRUE(torch::allclose(g, w, tolerance, tolerance))
        << "parameter " << i << ", element " << (g - w).abs().argmax().item<int64_t>() << ": " << far;
    worst = std::max(worst, far);
  }
  note("worst_parameter_difference", worst);
}

void compare_inference(const Training& t, torch::nn::Module& trained) {
  torch::NoGradGuard no_grad;
  auto twin = t.model();
  const auto to = state(*twin), from = state(trained);
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  twin->to(tpu());
  twin->eval();
  trained.eval();
  const auto want = t.infer(trained, torch::kCPU), got = t.infer(*twin, tpu()).cpu();
  ASSERT_EQ(got.sizes(), want.sizes());
  const double worst = (got - want).abs().max().item<double>();
  EXPECT_TRUE(torch::allclose(got, want, 1e-4, 1e-4)) << "inference differs by " << worst;
  note("worst_inference_difference", worst);
}

}  // namespace

void expect_same_training(const Training& t) {
  FallbackScope native(Fallback::error);
  const auto fallbacks = metrics().fallback_count();
  const auto want = train(t, torch::kCPU), got = train(t, tpu());
  compare_losses(got.losses, want.losses);
  compare_parameters(*got.model, *want.model, t.parameter_tolerance);
  compare_inference(t, *want.model);
  if (t.same_programs) {
    EXPECT_EQ(got.late_compiles, 0) << "compiled after the second step";
  }
  EXPECT_EQ(metrics().fallback_count(), fallbacks);
  note("compiles_after_step_2", static_cast<double>(got.late_compiles));
  note("fallbacks", static_cast<double>(metrics().fallback_count() - fallbacks));
}

torch::Tensor labels(const torch::Tensor& x, int64_t classes) {
  return (x.flatten(1).sum(1).abs() * 10).to(torch::kLong).remainder(classes);
}

torch::Tensor sentences(uint64_t seed, int64_t batch, int64_t length, int64_t vocabulary) {
  torch::manual_seed(seed);
  const auto first = torch::randint(0, vocabulary, {batch, 1}, torch::kLong);
  const auto jumps = torch::randint(1, 4, {batch, length}, torch::kLong);
  return (first + jumps.cumsum(1)).remainder(vocabulary);
}

}  // namespace tpubridge
