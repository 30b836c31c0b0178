// Random programs on several threads that hand tensors to each other, on the device and on the CPU: whatever
// the threads' order, values must be the same.
#include <condition_variable>
#include <deque>
#include <random>
#include <thread>

#include "tests/step/stranger.h"
#include "tpubridge/exec/materialise.h"

namespace tpubridge::stranger {
namespace {

constexpr size_t kWorkers = 4;

// From one thread to the next, in order.
class Mailbox {
 public:
  void put(Tensor t) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(t));
    }
    arrived_.notify_one();
  }
  Tensor take() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !waiting_.empty(); });
    Tensor t = std::move(waiting_.front());
    waiting_.pop_front();
    return t;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Tensor> waiting_;
};

// What one thread does, decided by its seed alone.
class Worker {
 public:
  Worker(torch::Device device, unsigned seed, Mailbox& in, Mailbox& out)
      : device_(device), random_(seed), in_(in), out_(out) {
    for (int i = 0; i < 4; ++i) {
      const Tensor t = torch::sin(torch::arange(6, torch::kDouble) * (i + 1.0) + seed);
      state.push_back(t.to(device));
    }
    weight = state[3].clone().requires_grad_(true);
  }

  std::vector<Tensor> run(int acts) {
    const bool compiled = device_.type() == torch::kPrivateUse1;
    const auto body = [this](const Tensor& x) {
      memory.mul_(0.5).add_(torch::tanh(x));
      return memory + 1;
    };
    auto step = compile(body);
    memory = torch::zeros({6}, state[0].options());
    for (int i = 0; i < acts; ++i) {
      Tensor &a = state[random_() % 4], &b = state[random_() % 4];
      switch (i % 12 == 5 ? 100 : i % 12 == 9 ? 101 : random_() % 9) {
        case 0:
          a = torch::tanh(torch::sin(b) * a + 0.1);
          break;
        case 1:
          a.add_(b).tanh_();
          break;
        case 2:
          a.slice(0, 1, 4).mul_(0.5);
          break;
        case 3:
          if (a.sum().item<double>() > 0) b = -b;
          break;
        case 4:
          if (compiled) sync();
          break;
        case 5:
          train(a);
          break;
        case 6:
          a = torch::tanh(compiled ? step(b) : body(b));
          break;
        case 7:
          a = b.clone();
          break;
        case 8:
          a = b.view({2, 3}).t().contiguous().view({6});
          break;
        case 100:
          out_.put(std::exchange(a, a.clone()));  // the other thread may write to it
          break;
        default:
          a = in_.take();
          break;
      }
    }
    std::vector<Tensor> out{weight.detach().cpu(), memory.cpu()};
    for (const auto& t : state) out.push_back(t.cpu());
    return out;
  }

 private:
  void train(const Tensor& x) {
    const Tensor loss = (torch::sin(x.detach() * weight)).square().sum();
    loss.backward();
    torch::NoGradGuard no_grad;
    weight.sub_(weight.grad() * 0.05);
    weight.mutable_grad() = Tensor();
  }

  torch::Device device_;
  std::minstd_rand random_;
  Mailbox &in_, &out_;
  std::vector<Tensor> state;
  Tensor weight, memory;
};

std::vector<std::vector<Tensor>> run_all(torch::Device device, unsigned seed) {
  std::vector<Mailbox> boxes(kWorkers);
  std::vector<std::vector<Tensor>> results(kWorkers);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kWorkers; ++i)
    threads.emplace_back([&, i] {
      results[i] =
          Worker(device, seed * 100 + static_cast<unsigned>(i), boxes[i], boxes[(i + 1) % kWorkers]).run(70);
    });
  for (auto& t : threads) t.join();
  return results;
}

class ThreadsFuzz : public testing::TestWithParam<unsigned> {};

TEST_P(ThreadsFuzz, AgreeWithTheCpu) {
  const unsigned seed = GetParam();
  const int64_t limit = exec::set_graph_limit(seed % 2 == 0 ? 5 : exec::graph_limit());
  const auto got = run_all(tpu(), seed);
  exec::set_graph_limit(limit);
  const auto want = run_all(torch::kCPU, seed);
  for (size_t i = 0; i < kWorkers; ++i)
    for (size_t k = 0; k < want[i].size(); ++k)
      EXPECT_TRUE(torch::allclose(got[i][k], want[i][k], 1e-9, 1e-9))
          << "seed " << seed << ", thread " << i << ", tensor " << k << "\n"
          << got[i][k] << "\n"
          << want[i][k];
}
INSTANTIATE_TEST_SUITE_P(Seeds, ThreadsFuzz, testing::Range(1U, 5U));

}  // namespace
}  // namespace tpubridge::stranger
