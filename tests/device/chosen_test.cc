// What is chosen from a tensor is equal to an element of it, however often the compiler computes that one.
#include <random>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

constexpr int64_t kWide = 4;

// A chain of ops, drawn by a seed, of which many choose elements; with gradients, in one program.
std::vector<Tensor> chain(uint64_t seed, torch::Device device) {
  torch::manual_seed(static_cast<int64_t>(seed));
  std::mt19937_64 random(seed);
  const auto made = [&](std::vector<int64_t> sizes) {
    return (torch::randn(sizes, torch::kDouble) / 2).to(device).requires_grad_();
  };
  const std::vector<Tensor> inputs = {made({3, kWide}), made({kWide, kWide}), made({kWide, kWide})};
  std::vector<Tensor> rows = {inputs[0]}, squares = {inputs[1], inputs[2]};
  const auto pick = [&](const std::vector<Tensor>& of) {
    return of[of.size() - 1 - random() % std::min<size_t>(of.size(), 5)];
  };
  for (int i = 0; i < 90; ++i) {
    const Tensor c = pick(rows), s = pick(squares), t = pick(squares);
    switch (random() % 9) {
      case 0:
        rows.push_back((c.matmul(s) / 4).tanh());
        break;
      case 1:
        rows.push_back(torch::layer_norm(c, {kWide}) + s[0]);
        break;
      case 2:
        squares.push_back(c.t().matmul(c) / 3 + s);
        break;
      case 3:
        squares.push_back((s * 0.5 + t.cos()).clamp(-3, 3));
        break;
      case 4:
        squares.push_back(torch::stack({s[1], t[2], c[0], c.amax(0)}));
        break;
      case 5:
        squares.push_back(torch::stack({s[0], c.amin(0), t[3], torch::linalg_vector_norm(c, INFINITY, 0)}) *
                          0.7);
        break;
      case 6:
        squares.push_back(torch::layer_norm(s, {kWide}) + c.max() * 0.3);
        break;
      case 7:
        squares.push_back(s * 0.8 + (s == s.amax(1, true)).to(torch::kDouble) * 0.1);
        break;
      default:
        squares.push_back((s - t).sin() + c.softmax(0).mean(0));
    }
  }
  const Tensor loss = (squares.back() * inputs[1]).square().mean() + rows.back().square().mean();
  std::vector<Tensor> out = torch::autograd::grad({loss}, inputs, {}, {}, false, /*allow_unused=*/true);
  out.push_back(loss.detach());
  return out;
}

// XLA's CPU compiler computes what several need several times, and rounds it in several ways: the largest was
// none of the elements then, and nobody got its gradient.
TEST(Chosen, GradientsGoToTheElementThatWasChosen) {
  for (const uint64_t seed : {1, 7, 9}) {
    SCOPED_TRACE(seed);
    const auto want = chain(seed, torch::kCPU), got = chain(seed, tpu());
    for (size_t i = 0; i < want.size(); ++i)
      if (want[i].defined()) expect_close(got[i], want[i], 100);
  }
}

// The farthest coordinate of each distance gets its gradient.
std::vector<Tensor> distances(int64_t seed, torch::Device device) {
  torch::manual_seed(seed);
  const auto made = [&](std::vector<int64_t> sizes) {
    return (torch::randn(sizes, torch::kDouble) / 2).to(device).requires_grad_();
  };
  const std::vector<Tensor> inputs = {made({3, kWide}), made({5, kWide}), made({kWide, kWide})};
  Tensor x = inputs[0], y = inputs[1];
  Tensor loss = inputs[2].square().sum();
  for (int i = 0; i < 8; ++i) {
    x = torch::layer_norm((x.matmul(inputs[2]) / 3).tanh() * x + x * 0.3, {kWide});
    y = (y.matmul(inputs[2].t()) * 0.4).sin() + y * 0.7 + x[0] * 0.1;
    loss = loss + (torch::cdist(x, y, INFINITY) * 0.3).square().sum() + torch::pdist(y, INFINITY).mean();
    x = x + torch::cdist(x, y, INFINITY).mean(1, true) * 0.2;
  }
  std::vector<Tensor> out = torch::autograd::grad({loss}, inputs);
  out.push_back(loss.detach());
  return out;
}

TEST(Chosen, FarthestOfADistance) {
  for (const int64_t seed : {1, 2}) {
    SCOPED_TRACE(seed);
    const auto want = distances(seed, torch::kCPU), got = distances(seed, tpu());
    for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], 100);
  }
}

}  // namespace
}  // namespace tpubridge
