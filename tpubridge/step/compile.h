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
// pass what changes as an argument. Optimizers are the exception: their step counts and options (learning
// rate, betas, …) are followed. Numbers among the arguments are part of the guard: another number
// is another program. Results carry no autograd history.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tpubridge/device/host_reads.h"
#include "tpubridge/step/typed_call.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace tpubridge {

struct StepOptions {
  // Those that the function captures are found by themselves; these are known for sure.
  std::vector<std::shared_ptr<torch::nn::Module>> modules = {};
  std::vector<torch::optim::Optimizer*> optimizers = {};  // must outlive the step
  HostReads host_reads = HostReads::refuse;
  size_t programs = 8;  // kept for different guards; the least recently used goes first
  // Compile quickly and run at once; the optimised program takes over when a thread in the background has it.
  bool tiered = false;
  // How many steps of many() are one program; 0: all that it is given.
  int64_t steps_per_call = 0;
  std::string name = "step";
};

struct StepReport {
  std::string name;
  int64_t calls = 0, replayed = 0, traced = 0;
  size_t programs = 0;
  int64_t temporary_bytes = 0;  // what the latest program takes while it runs, beside arguments and results
  std::string why_traced;       // why the latest traced call could not be replayed yet; empty where it could
  int64_t looped = 0;           // of the replayed ones: in a program of many steps
  std::string why_single;  // why the latest steps of many() were calls of their own; empty: they were not
};

// The compiled steps that live at the moment, the oldest first. tpubridge::report() lists them too.
[[nodiscard]] std::vector<StepReport> compiled_steps();

namespace step {

class Runner;

class Engine {
 public:
  // Without a runner its programs run on the one device of their values.
  explicit Engine(StepOptions options, std::shared_ptr<Runner> runner = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Calls `run` (which gives its tensors, and sets `form`: what the caller needs to put results together
  // again) or replays (and sets it to what such a call gave). `others` is what besides the tensors decides
  // about the program.
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& arguments, const std::vector<uint64_t>& others,
                               const std::function<std::vector<at::Tensor>()>& run,
                               std::shared_ptr<void>& form);
  // Calls with the rows of `stacks` in turn, several in one program where that gives the same; `run` is given
  // the tensors of one call. Tensors of the results come back with a row for each. `before`: see many_with().
  using RunRow = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& row)>;
  using Before = std::function<void(int64_t step)>;
  std::vector<at::Tensor> many(const std::vector<at::Tensor>& stacks, const std::vector<uint64_t>& others,
                               const RunRow& run, std::shared_ptr<void>& form, const Before& before);
  // All of them in one program, or nothing, where nothing has happened.
  std::optional<std::vector<at::Tensor>> loop(const std::vector<at::Tensor>& stacks,
                                              const std::vector<uint64_t>& others, const RunRow& run,
                                              std::shared_ptr<void>& form, const Before& before);
  // The program that such a call runs, compiled: nothing runs, and everything is as it was before (the named
  // optimizers, too). As long as the result lives the program is known.
  [[nodiscard]] std::shared_ptr<const void> prepare(const std::vector<at::Tensor>& arguments,
                                                    const std::function<std::vector<at::Tensor>()>& run);
  [[nodiscard]] StepReport report() const;
  [[nodiscard]] int64_t traced() const;  // of the report, without the rest of it

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
    return step::typed_call(*engine_, fn_, args...);
  }
  // As many steps as the tensors among the arguments have rows (their first dimension): step i gets row i of
  // each. Gives what the steps gave, each tensor with a row for each step. Once the step is replayed they are
  // one program: a loop on the device, with the numbers that so many calls would give. What cannot be shown
  // to give the same is called step by step (report().why_single).
  template <class... Args>
  auto many(Args&&... args) {
    return step::typed_many(*engine_, fn_, step::Engine::Before(), args...);
  }
  // The same; before(i) sets what step i finds: the learning rate of a schedule, say. It is called once for
  // each step, in order; for those of one program before any of them runs. Where it changes a tensor that the
  // step takes, a gradient or a generator, steps are called one by one, each after its before(i). Where that
  // shows too late, when it has done so for other steps already: ArgumentError, and no step was taken.
  template <class... Args>
  auto many_with(const step::Engine::Before& before, Args&&... args) {
    return step::typed_many(*engine_, fn_, before, args...);
  }
  // The same as one program, whatever steps_per_call is; nothing where that cannot be (yet): then nothing has
  // happened but for what before() did, which may be called again for the same steps: what it does must hang
  // on i alone. For a step that gives something.
  template <class... Args>
  auto loop_with(const step::Engine::Before& before, Args&&... args) {
    return step::typed_loop(*engine_, fn_, before, args...);
  }
  // Compiles what such a call runs, and leaves everything as it was: the first call compiles nothing then.
  template <class... Args>
  void prepare(Args&&... args) {
    prepared_.push_back(step::typed_prepare(*engine_, fn_, args...));
  }

  [[nodiscard]] StepReport report() const { return engine_->report(); }
  [[nodiscard]] int64_t traced() const { return engine_->traced(); }

 private:
  F fn_;
  std::unique_ptr<step::Engine> engine_;
  std::vector<std::shared_ptr<const void>> prepared_;
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
