// Programs as a stranger writes them for any device: run on the CPU, then on the device, with the same
// numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/device/check.h"

namespace tpubridge {

// What a program is given: where to run, and whom to tell its values.
class Place {
 public:
  explicit Place(torch::Device where) : device(where) {}
  const torch::Device device;
  // The end of a step, with what is compared: beside the CPU's of the same step.
  void step(const std::vector<torch::Tensor>& values = {});
  // Not a step, but compared all the same.
  void see(const std::vector<torch::Tensor>& values);
  // Drawn on the host, the same on both sides.
  [[nodiscard]] torch::Tensor randn(at::IntArrayRef sizes) const { return torch::randn(sizes).to(device); }
  [[nodiscard]] torch::Tensor rand(at::IntArrayRef sizes) const { return torch::rand(sizes).to(device); }
  [[nodiscard]] torch::Tensor randint(int64_t end, at::IntArrayRef sizes) const {
    return torch::randint(end, sizes, torch::kLong).to(device);
  }

 private:
  friend struct Habit;
  std::vector<std::vector<torch::Tensor>> seen_;
  const std::vector<std::vector<torch::Tensor>>* want_ = nullptr;
  double tolerance_ = 0;
  std::vector<int64_t> compiles_;  // at the end of each step
};

struct Habit {
  int settled = 3;          // steps after which nothing is compiled; -1: not looked at
  double tolerance = 2e-3;  // of values, relative and absolute
  bool fallbacks = false;   // that there are some is known
  // Values as on the CPU, no compile after `settled` steps, nothing computed on the CPU.
  void expect_same(const std::function<void(Place&)>& program) const;
};

inline std::vector<torch::Tensor> parameters_of(const torch::nn::Module& m) {
  std::vector<torch::Tensor> out;
  for (const auto& p : m.parameters()) out.push_back(p.detach());
  for (const auto& b : m.buffers()) out.push_back(b.detach());
  return out;
}

}  // namespace tpubridge
