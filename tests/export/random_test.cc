// Functions made at random (views, writes to their own copies, numbers, captured and host tensors, results of
// every kind): exported, packed and run, beside libtorch on the CPU. Exported once more the text is the same,
// and what they captured is as it was.
#include <random>

#include "tests/export/run.h"

namespace tpubridge {
namespace {

struct Case {
  Tensors inputs, captured, host;

  [[nodiscard]] Case on(const torch::Device& device) const {
    Case out{{}, {}, host};
    for (const auto& t : inputs) out.inputs.push_back(t.to(device));
    for (const auto& t : captured) out.captured.push_back(t.to(device));
    return out;
  }
};

class RandomFunction {
 public:
  RandomFunction(uint32_t seed, const Case& c, const Tensors& inputs) : random_(seed), values_(inputs) {
    values_.insert(values_.end(), c.captured.begin(), c.captured.end());
    for (const auto& t : c.host) values_.push_back(t.to(inputs[0].device()));
    inputs_ = inputs.size();
  }

  Tensors run() {
    const size_t ops = 3 + below(12);
    for (size_t i = 0; i < ops; ++i) values_.push_back(op());
    Tensors out;
    for (size_t i = 0, n = 1 + below(3); i < n; ++i) out.push_back(values_[values_.size() - 1 - below(4)]);
    if (below(3) == 0) out.push_back(any());
    if (below(4) == 0) out.push_back(any().isnan().to(torch::kInt));
    if (below(4) == 0) out.push_back(values_.back() > 0.123);
    out.push_back(values_[below(inputs_)] * 0.37);  // something is always computed
    return out;
  }

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  const at::Tensor& any() { return values_[below(values_.size())]; }
  // One of [3, 4], whatever it is made of.
  at::Tensor table() {
    const at::Tensor& t = any();
    if (t.sizes() == at::IntArrayRef({3, 4})) return t;
    if (t.sizes() == at::IntArrayRef({4, 3})) return t.t();
    return t.mean().expand({3, 4});
  }

  at::Tensor op() {
    const at::Tensor a = table();
    switch (below(16)) {
      case 0:
        return a + table();
      case 1:
        return a * table() / 3.3;
      case 2:
        return a - static_cast<double>(below(100)) / 7;
      case 3:
        return a.t();
      case 4:
        return a.matmul(table().t()).matmul(table()).tanh();
      case 5:
        return torch::softmax(a, static_cast<int64_t>(below(2)));
      case 6:
        return torch::where(a > 0.1, a, table());
      case 7:
        return torch::cat({a.slice(0, 1, 3), table().slice(0, 0, 1)});
      case 8:
        return a.flip({0}).roll(static_cast<int64_t>(below(4)), 1);
      case 9: {  // writes to what is its own
        at::Tensor own = a.clone();
        own.select(0, static_cast<int64_t>(below(3))).copy_(table().select(0, 0));
        own.slice(1, 1, 3).mul_(2).add_(1);
        return own;
      }
      case 10: {
        at::Tensor own = torch::zeros_like(a);
        own.add_(a).clamp_(-2, 2);
        return own.t().contiguous();
      }
      case 11:
        return a.to(torch::kDouble).cumsum(1).to(torch::kFloat).div(4);
      case 12:
        return a.gather(1, a.argsort(int64_t{1})) + a.amax(1, true);
      case 13:
        return a.index_select(0, torch::arange(2, -1, -1, a.options().dtype(torch::kLong)));
      case 14:
        return torch::layer_norm(a, {4}).sigmoid();
      default:
        return a.reshape({2, 6}).view({6, 2}).reshape({3, 4}).abs().sqrt();
    }
  }

  std::mt19937 random_;
  Tensors values_;
  size_t inputs_;
};

TEST(ExportAtRandom, TheValuesOfTheCpu) {
  const torch::NoGradGuard no_grad;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    torch::manual_seed(seed);
    const auto table = [] { return torch::randn({3, 4}); };
    const Case cpu{{table(), torch::randn({4, 3}).t(), torch::randn({2})}, {table(), table().t()}, {table()}};
    const Case device = cpu.on(tpu());
    std::vector<ExportInput> in;
    for (size_t i = 0; i < cpu.inputs.size(); ++i)
      in.push_back({"in" + std::to_string(i), torch::zeros_like(cpu.inputs[i])});
    const auto function = [&](const Tensors& a) { return RandomFunction(seed, device, a).run(); };
    const auto program = export_program(in, function);
    EXPECT_EQ(program.text, export_program(in, function).text);
    for (size_t i = 0; i < in.size(); ++i) in[i].example = cpu.inputs[i];
    const auto got = run_exported(program, in);
    const auto want = RandomFunction(seed, cpu, cpu.inputs).run();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      expect_close(got.at("out" + std::to_string(i)), want[i].contiguous(), 10);
    for (size_t i = 0; i < cpu.captured.size(); ++i)
      EXPECT_TRUE(torch::equal(device.captured[i].cpu(), cpu.captured[i]));
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace tpubridge
