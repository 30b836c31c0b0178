// One optimizer step over one or several micro-batches, compiled. For the sources of train/.
//
// One micro-batch is one program. Several are one program each (the gradients add up on the device) and one
// for clipping and the optimizer, so that memory is needed for one micro-batch at a time.
#pragma once

#include <functional>
#include <memory>

#include "tpubridge/step/compile.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge::train {

struct StepResult {
  at::Tensor loss, norm;  // on the device; norm is undefined without clipping
  int64_t row = -1;       // of both, where they are those of several steps
};

class StepRunner {
 public:
  StepRunner(std::shared_ptr<torch::nn::Module> module, LossFunction loss, torch::optim::Optimizer& optimizer,
             double clip_norm, HostReads host_reads);
  [[nodiscard]] StepResult run(const std::vector<MicroBatch>& parts);
  // Steps over the rows of this batch as one program; before(i) sets the rate of step i. Nothing where that
  // cannot be (yet).
  [[nodiscard]] std::optional<StepResult> loop(const Batch& stacks,
                                               const std::function<void(int64_t)>& before);
  // The same step with nothing compiled, for a search op by op.
  [[nodiscard]] StepResult run_plain(const std::vector<MicroBatch>& parts);
  // The loss alone, without gradients, with the module in eval mode.
  [[nodiscard]] at::Tensor evaluate(const Batch& batch);
  // Forgets the compiled programs and the gradients.
  void reset();
  // Then a run that throws has done nothing.
  [[nodiscard]] bool compiled() const { return !traced_.empty(); }
  [[nodiscard]] int64_t traced() const;  // calls that were traced so far; -1 where nothing is compiled

 private:
  using Two = std::vector<at::Tensor>;  // loss, and norm where there is one
  Two whole(const Batch& batch);
  at::Tensor first(const Batch& batch, double weight);
  at::Tensor more(const Batch& batch, double weight, const at::Tensor& sum);
  Two apply(const at::Tensor& loss);
  void compile_all();
  template <class F, class... Args>
  std::shared_ptr<CompiledStep<F>> make(std::function<std::invoke_result_t<F, Args...>(Args...)>& into, F f,
                                        const char* name, bool steps);

  std::shared_ptr<torch::nn::Module> module_;
  LossFunction loss_;
  torch::optim::Optimizer& optimizer_;
  std::vector<at::Tensor> parameters_;
  double clip_norm_;
  HostReads host_reads_;
  std::vector<std::function<int64_t()>> traced_;
  std::function<Two(const Batch&)> whole_;
  std::function<std::optional<Two>(const Batch&, const std::function<void(int64_t)>&)> loop_;
  std::function<at::Tensor(const Batch&, double)> first_;
  std::function<at::Tensor(const Batch&, double, const at::Tensor&)> more_;
  std::function<Two(const at::Tensor&)> apply_;
  std::function<at::Tensor(const Batch&)> evaluate_;
};

}  // namespace tpubridge::train
