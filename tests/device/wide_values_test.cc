// Values at the edges of what types hold, beside the CPU.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The value, or the words of the error.
std::string outcome(const std::function<Tensor(torch::Device)>& call, torch::Device d) {
  try {
    std::ostringstream text;
    text << call(d).to(torch::kCPU);
    return text.str();
  } catch (const std::exception& e) {
    return e.what();
  }
}

TEST(WideValues, NumbersThatATypeCannotHold) {
  const std::vector<at::Scalar> numbers{1000, -1000, -1,     2.5,    70000,     int64_t{1} << 40, 1e6,
                                        1e20, 1e39,  65504., 65520., kInfinite, -kInfinite,       true};
  for (const auto type : {torch::kByte, torch::kChar, torch::kShort, torch::kInt, torch::kLong, torch::kHalf,
                          torch::kBFloat16, torch::kFloat, torch::kDouble})
    for (const auto& v : numbers) {
      const auto ones = [&](torch::Device d) {
        return torch::ones({2, 2}, torch::TensorOptions(d).dtype(type));
      };
      const auto first = [](torch::Device d) {
        return torch::zeros({1}, torch::TensorOptions(d).dtype(torch::kLong));
      };
      const auto half = [](torch::Device d) { return torch::tensor({true, false}).to(d); };
      using Device = torch::Device;
      const std::vector<std::function<Tensor(Device)>> calls{
          [&](Device d) { return ones(d).fill_(v); },
          [&](Device d) { return torch::full({2}, v, torch::TensorOptions(d).dtype(type)); },
          [&](Device d) { return torch::full_like(ones(d), v); },
          [&](Device d) { return ones(d).masked_fill(half(d), v); },
          [&](Device d) { return ones(d).masked_fill_(half(d), v); },
          [&](Device d) { return ones(d).masked_fill(half(d), torch::scalar_tensor(v, torch::kDouble)); },
          [&](Device d) { return ones(d).index_fill(0, first(d), v); },
          [&](Device d) {
            return ones(d).scatter(0, first(d).view({1, 1}), v);
          },
          [&](Device d) { return ones(d).clamp_max(v); },
          [&](Device d) {
            return torch::constant_pad_nd(ones(d), {1, 1}, v);
          },
          [&](Device d) { return torch::threshold(ones(d), 1, v); },
      };
      for (size_t i = 0; i < calls.size(); ++i)
        EXPECT_EQ(outcome(calls[i], tpu()).substr(0, 60), outcome(calls[i], torch::kCPU).substr(0, 60))
            << "call " << i << ", " << v << " in " << type;
    }
}

}  // namespace
}  // namespace tpubridge
