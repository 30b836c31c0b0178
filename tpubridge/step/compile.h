// tpubridge::compile: a step that is traced a few times, then replayed: a check of the guard, one execute,
// and the results written where they belong.
//
//   auto step = tpubridge::compile([&](torch::Tensor x, torch::Tensor y) {
//     opt.zero_grad();
//     auto loss = torch::mse_loss(model->forward(x), y);
//     loss.backward();
//     opt.step();
//     return loss;
//   }, {.modules = {model.ptr()}, .optimizers = {&opt}});
//
// Tensors that the function uses from outside (parameters, optimizer state, gradients) are found by
// themselves, read anew at every call and written back. Code on the host does not run in a replayed call:
// pass what changes as an argument. Named optimizers are the exception: their step counts and options
// (learning rate, betas, …) are followed. Numbers among the arguments are part of the guard: another number
// is another program. Results carry no autograd history.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "tpubridge/device/host_reads.h"
#include "tpubridge/step/tree.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace tpubridge {

struct StepOptions {
  std::vector<std::shared_ptr<torch::nn::Module>> modules = {};  // train/eval mode becomes part of the guard
  std::vector<torch::optim::Optimizer*> optimizers =
      {};  // SGD, Adam, AdamW, RMSprop, Adagrad; must outlive the step
  HostReads host_reads = HostReads::refuse;
  size_t programs = 8;  // kept for different guards; the least recently used goes first
  // Compile quickly and run at once; the optimised program takes over when a thread in the background has it.
  bool tiered = false;
  std::string name = "step";
};

struct StepReport {
  std::string name;
  int64_t calls = 0, replayed = 0, traced = 0;
  size_t programs = 0;
  int64_t temporary_bytes = 0;  // what the latest program takes while it runs, beside arguments and results
  std::string why_traced;       // why the latest traced call could not be replayed yet; empty where it could
};

// The compiled steps that live at the moment, the oldest first. tpubridge::report() lists them too.
[[nodiscard]] std::vector<StepReport> compiled_steps();

namespace step {

class Engine {
 public:
  explicit Engine(StepOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Calls `run` (which gives its tensors) or replays; `others` is what besides the tensors decides about the
  // program. `shape` keeps what the caller needs to put results together again.
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& arguments, const std::vector<uint64_t>& others,
                               const std::function<std::vector<at::Tensor>()>& run,
                               std::shared_ptr<void>*& shape);
  [[nodiscard]] StepReport report() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace step

template <class F>
class CompiledStep {
 public:
  CompiledStep(F fn, StepOptions options)
      : fn_(std::move(fn)), engine_(std::make_unique<step::Engine>(std::move(options))) {}

  template <class... Args>
  auto operator()(Args&&... args) {
    using R = std::decay_t<std::invoke_result_t<F&, Args&...>>;
    std::vector<at::Tensor> tensors;
    std::vector<uint64_t> others;
    [[maybe_unused]] auto take = [&](const at::Tensor& t) { tensors.push_back(t); };
    [[maybe_unused]] auto note = [&](uint64_t word) { others.push_back(word); };
    (tree::visit(args, take, note), ...);
    std::shared_ptr<void>* shape = nullptr;
    auto ignore = [](uint64_t) {};
    if constexpr (std::is_void_v<R>) {
      engine_->call(
          tensors, others, [&] { return fn_(args...), std::vector<at::Tensor>(); }, shape);
    } else {
      std::optional<R> fresh;
      auto run = [&] {
        fresh.emplace(fn_(args...));
        std::vector<at::Tensor> out;
        auto detach = [&](at::Tensor& t) { out.push_back(t = t.defined() ? t.detach() : t); };
        tree::visit(*fresh, detach, ignore);
        return out;
      };
      const auto results = engine_->call(tensors, others, run, shape);
      if (fresh) {
        if (shape) {
          auto empty = std::make_shared<R>(*fresh);
          auto drop = [](at::Tensor& t) { t = at::Tensor(); };
          tree::visit(*empty, drop, ignore);
          *shape = std::move(empty);
        }
        return std::move(*fresh);
      }
      R out = *static_cast<R*>(shape->get());
      auto next = results.begin();
      auto put = [&](at::Tensor& t) { t = *next++; };
      tree::visit(out, put, ignore);
      return out;
    }
  }

  [[nodiscard]] StepReport report() const { return engine_->report(); }

 private:
  F fn_;
  std::unique_ptr<step::Engine> engine_;
};

// Scales the gradients so that their norm together is at most max_norm, like
// torch::nn::utils::clip_grad_norm_, but leaves the norm on the device: nothing waits, and it can be part of
// a compiled step.
at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2);

template <class F>
[[nodiscard]] CompiledStep<F> compile(F fn, StepOptions options = {}) {
  return CompiledStep<F>(std::move(fn), std::move(options));
}

}  // namespace tpubridge
