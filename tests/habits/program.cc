#include "tests/habits/program.h"

#include <chrono>
#include <iostream>

namespace tpubridge {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string listed_counts(const std::vector<int64_t>& all) {
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t n = all[i] - (i ? all[i - 1] : 0);
    if (n > 0) out += (out.empty() ? "" : " ") + std::to_string(i) + ":" + std::to_string(n);
  }
  return out;
}

}  // namespace

void Place::see(const std::vector<torch::Tensor>& values) {
  std::vector<torch::Tensor> got;
  for (const auto& v : values) got.push_back(v.detach().cpu().clone());
  seen_.push_back(std::move(got));
  if (!want_) return;
  ASSERT_LE(seen_.size(), want_->size());
  const auto& want = (*want_)[seen_.size() - 1];
  ASSERT_EQ(seen_.back().size(), want.size());
  for (size_t i = 0; i < want.size() && !testing::Test::HasFailure(); ++i) {
    const auto &a = seen_.back()[i], &b = want[i];
    SCOPED_TRACE(testing::Message() << "look " << seen_.size() - 1 << ", value " << i);
    ASSERT_EQ(a.sizes(), b.sizes());
    ASSERT_EQ(a.scalar_type(), b.scalar_type());
    EXPECT_TRUE(torch::allclose(a, b, tolerance_, tolerance_, /*equal_nan=*/true))
        << "largest difference " << (a - b).abs().max().item() << " of " << b.abs().max().item();
  }
}

void Place::step(const std::vector<torch::Tensor>& values) {
  if (!values.empty()) see(values);
  compiles_.push_back(metrics().compiles);
}

void Habit::expect_same(const std::function<void(Place&)>& program) const {
  Place here(torch::kCPU), there(tpu());
  torch::manual_seed(3);
  double began = now();
  program(here);
  const double host = now() - began;
  there.want_ = &here.seen_;
  there.tolerance_ = tolerance;
  sync();
  const auto before = metrics();
  torch::manual_seed(3);
  began = now();
  program(there);
  sync();
  const double seconds = now() - began;
  const auto after = metrics();
  std::string fallen;
  for (const auto& [name, f] : after.fallbacks) {
    const auto was = before.fallbacks.find(name);
    if (const int64_t n = f.calls - (was == before.fallbacks.end() ? 0 : was->second.calls); n > 0)
      fallen += " " + name + ":" + std::to_string(n);
  }
  std::vector<int64_t> compiles = there.compiles_;
  for (auto& c : compiles) c -= before.compiles;
  std::cout << "[ habit ] cpu " << host << " s, tpu " << seconds << " s, compiling "
            << after.compile_seconds - before.compile_seconds << " s, steps " << compiles.size()
            << ", compiles " << after.compiles - before.compiles << " (" << listed_counts(compiles)
            << "), runs " << after.executions - before.executions << ", sized "
            << after.sized_executions - before.sized_executions << ", fallbacks"
            << (fallen.empty() ? " none" : fallen) << std::endl;
  EXPECT_EQ(there.seen_.size(), here.seen_.size());
  if (!fallbacks) {
    EXPECT_EQ(fallen, "");
  }
  if (settled < 0) return;
  ASSERT_GT(compiles.size(), static_cast<size_t>(settled));
  EXPECT_EQ(compiles.back() - compiles[static_cast<size_t>(settled) - 1], 0) << listed_counts(compiles);
}

}  // namespace tpubridge
