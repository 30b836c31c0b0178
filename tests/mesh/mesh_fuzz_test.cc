// Random computations over tensors that lie in random ways, beside the same on the CPU.
//
//   TPUBRIDGE_FUZZ_SECONDS=3600 TPUBRIDGE_FUZZ_SEED=1000 test_mesh --gtest_filter=MeshFuzzForHours.*
#include <gmock/gmock.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/device/check.h"
#include "tpubridge/device/api.h"
#include "tpubridge/mesh/mesh.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {
namespace {

using torch::Tensor;

struct Both {
  Tensor cpu, over;
};

class Case {
 public:
  Case(uint64_t seed, bool steps) : random_(seed), steps_(steps) {
    torch::manual_seed(seed);
    const int kind = pick(3);
    if (kind == 0) mesh_.emplace(std::vector<Mesh::Axis>{{"a", 4}});
    if (kind == 1) mesh_.emplace(std::vector<Mesh::Axis>{{"a", 2}, {"b", 2}});
    if (kind == 2) mesh_.emplace(std::vector<Mesh::Axis>{{"a", 2}, {"b", 2}}, std::vector<int>{2, 0, 3, 1});
    for (int i = 0; i < 3; ++i) {
      const Tensor t = torch::randn({8, 4}, torch::kDouble);
      tensors_.push_back({t, pick(4) == 0 ? t.to(mesh_->device()) : shard(t, *mesh_, split())});
    }
  }

  void run() {
    for (int i = 0; i < 12; ++i) {
      const int op = pick(22);
      const size_t x = some(), y = some();
      const bool grads = pick(3) == 0;
      apply(op, x, y, grads);
      if (pick(3) == 0) compare("after op " + std::to_string(op));
      if (testing::Test::HasFailure()) return;
    }
    compare("at the end");
  }

  // A compiled step that changes two of the tensors, called while they and its argument are laid out anew.
  void run_step() {
    const int kind = pick(3);
    Tensor &a = tensors_[0].over, &b = tensors_[1].over;
    const auto body = [kind](Tensor& u, Tensor& v, const Tensor& x) {
      const Tensor y = torch::softmax(x.mm(v.t()), kind == 1 ? 0 : 1).mm(u) + x;
      u.mul_(0.5).add_(y, kind == 2 ? 0.25 : 1);
      if (kind != 0) v.copy_(torch::where(v > 0, v * 0.75, u.tanh()));
      return y.sum(0);
    };
    auto step = compile([&](Tensor x) { return body(a, b, x); });
    for (int i = 0; i < 14; ++i) {
      if (pick(5) == 0) a.set_data(shard(a, *mesh_, split()));
      if (pick(7) == 0) b.set_data(unshard(b));
      if (pick(7) == 0) b.mul_(1.5), tensors_[1].cpu.mul_(1.5);
      const Tensor x = torch::randn({8, 4}, torch::kDouble);
      const Tensor want = body(tensors_[0].cpu, tensors_[1].cpu, x);
      const Tensor got =
          step(pick(4) == 0 ? x.to(mesh_->device()) : shard(x, *mesh_, pick(2) ? split() : Split{"a"}));
      EXPECT_TRUE(torch::allclose(got.cpu(), want, 1e-9, 1e-9)) << "call " << i;
      compare("after call " + std::to_string(i));
      if (testing::Test::HasFailure()) return;
    }
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  size_t some() { return static_cast<size_t>(pick(static_cast<int>(tensors_.size()))); }

  Split split() {
    const bool two = mesh_->axes().size() == 2;
    switch (pick(two ? 6 : 3)) {
      case 0:
        return {"a"};
      case 1:
        return {none, "a"};
      case 2:
        return {};
      case 3:
        return {"a", "b"};
      case 4:
        return {"b", "a"};
      default:
        return {SplitBy{"b", "a"}};
    }
  }

  // On both sides; the result takes the place of another tensor.
  void both(const std::function<Tensor(const Tensor&, const Tensor&)>& f, size_t x, size_t y) {
    const Tensor want = f(tensors_[x].cpu, tensors_[y].cpu);
    if (want.dim() != 2 || want.size(0) != 8 || want.size(1) != 4) {
      const Tensor a = want.sum(), b = f(tensors_[x].over, tensors_[y].over).sum();
      tensors_[some()] = {tensors_[x].cpu + a.tanh(), tensors_[x].over + b.tanh()};
      return;
    }
    const Tensor got = f(tensors_[x].over, tensors_[y].over);
    tensors_[some()] = {want, got};
  }
  void in_place(const std::function<void(Tensor&)>& f, size_t x) {
    f(tensors_[x].cpu);
    f(tensors_[x].over);
  }

  void apply(int op, size_t x, size_t y, bool grads) {
    const int64_t row = pick(8), column = pick(4);
    const double number = 0.25 * pick(8);
    if (grads) {
      const auto gradient = [&](Tensor t) {
        t = t.detach().clone().requires_grad_();
        Tensor loss = (torch::softmax(t, op % 2) * t.tanh().cumsum(0)).pow(2).sum();
        loss.backward();
        return t.grad();
      };
      return both([&](const Tensor& a, const Tensor&) { return gradient(a); }, x, y);
    }
    switch (op) {
      case 0:
        return both([](auto& a, auto& b) { return a + b; }, x, y);
      case 1:
        return both([](auto& a, auto& b) { return torch::mm(a, b.t()).mm(b).tanh(); }, x, y);
      case 2:
        return both([](auto& a, auto&) { return torch::softmax(a, 0); }, x, y);
      case 3:
        return both([](auto& a, auto&) { return torch::softmax(a, 1); }, x, y);
      case 4:
        return both([](auto& a, auto&) { return a.t().contiguous().flatten().reshape({8, 4}); }, x, y);
      case 5:
        return both([](auto& a, auto&) { return a.cumsum(0).tanh(); }, x, y);
      case 6:
        return both(
            [&](auto& a, auto& b) {
              return torch::cat({a.narrow(0, row / 2, 4), b.narrow(0, 1, 4)});
            },
            x, y);
      case 7:
        return both([](auto& a, auto&) { return std::get<0>(a.sort(0)); }, x, y);
      case 8:
        return both([&](auto& a, auto&) { return a.roll(row, 0); }, x, y);
      case 9:
        return both([](auto& a, auto& b) { return torch::where(a > 0, a, b); }, x, y);
      case 10:
        return both([](auto& a, auto&) { return a.flip(0); }, x, y);
      case 11:
        return both(
            [&](auto& a, auto&) {
              return a.index_select(0, torch::tensor({7, 0, 3, 3, 1, 2, 6, 5}).to(a.device()));
            },
            x, y);
      case 12:
        return both([](auto& a, auto& b) { return a - b.mean(0, true); }, x, y);
      case 13:
        return both([](auto& a, auto&) { return std::get<0>(a.max(1)); }, x, y);
      case 14:
        return both([](auto& a, auto&) { return a.argmax(0).to(a.dtype()); }, x, y);
      case 15:
        return in_place([&](Tensor& a) { a[row].fill_(number); }, x);
      case 16:
        return in_place([&](Tensor& a) { a.narrow(1, column, 1).mul_(number + 0.5); }, x);
      case 17:
        return in_place([&](Tensor& a) { a.zero_().add_(number); }, x);
      case 18: {
        const Tensor host = torch::randn({8, 4}, torch::kDouble);
        return in_place([&](Tensor& a) { a.copy_(host); }, x);
      }
      case 19:
        tensors_[x].over =
            pick(2) ? constrain(tensors_[x].over, *mesh_, split()) : shard(tensors_[x].over, *mesh_, split());
        return;
      case 20:
        tensors_[x].over = unshard(tensors_[x].over);
        return;
      default:
        return in_place([&](Tensor& a) { a.t().add_(number).clamp_(-3, 3); }, x);
    }
  }

  void compare(const std::string& when) {
    if (steps_) sync();
    for (size_t i = 0; i < tensors_.size(); ++i)
      EXPECT_TRUE(torch::allclose(tensors_[i].over.cpu(), tensors_[i].cpu, 1e-9, 1e-9))
          << when << ", tensor " << i << ", mesh " << mesh_->str();
  }

  std::mt19937_64 random_;
  const bool steps_;
  std::optional<Mesh> mesh_;
  std::vector<Both> tensors_;
};

class MeshFuzz : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (device_count() != 4) GTEST_SKIP() << "needs four devices";
  }
};
TEST_P(MeshFuzz, ValuesAreThoseOfTheCpu) {
  const int first = GetParam() * 6;
  for (int i = 0; i < 6; ++i) {
    SCOPED_TRACE("seed " + std::to_string(first + i));
    Case(static_cast<uint64_t>(first + i), i % 2 == 0).run();
    ASSERT_FALSE(HasFailure());
  }
}
TEST_P(MeshFuzz, StepsToo) {
  for (int i = 0; i < 2; ++i) {
    const int seed = GetParam() * 2 + i;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case(static_cast<uint64_t>(seed), true).run_step();
    ASSERT_FALSE(HasFailure());
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, MeshFuzz, testing::Range(0, 6));

TEST(MeshFuzzForHours, Cases) {
  const char* seconds = std::getenv("TPUBRIDGE_FUZZ_SECONDS");
  const char* first = std::getenv("TPUBRIDGE_FUZZ_SEED");
  if (!seconds) GTEST_SKIP() << "TPUBRIDGE_FUZZ_SECONDS says how long";
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(seconds));
  uint64_t seed = first ? std::strtoull(first, nullptr, 10) : 1000, cases = 0;
  for (; std::chrono::steady_clock::now() < end; ++seed, ++cases) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case(seed, seed % 2 == 0).run();
    Case(seed, true).run_step();
    ASSERT_FALSE(HasFailure());
  }
  std::printf("%lu cases\n", cases);
}

}  // namespace
}  // namespace tpubridge
