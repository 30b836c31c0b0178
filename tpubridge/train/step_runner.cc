#include "tpubridge/train/step_runner.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "tpubridge/base/log.h"
#include "tpubridge/device/generator.h"
#include "tpubridge/optim/optim.h"
#include "tpubridge/step/optimizers.h"

namespace tpubridge::train {
namespace {

// What micro-batches have changed when a later one fails: running statistics and the generator. Their
// gradients nobody needs, and the optimizer comes last.
class Undo {
 public:
  Undo(const torch::nn::Module& module, at::Device device) {
    if (device.is_cpu()) return;
    const at::NoGradGuard no_grad;
    for (const auto& b : module.buffers()) buffers_.emplace_back(b, b.clone());
    draws_ = device::Draws::now();
  }
  void operator()() {
    const at::NoGradGuard no_grad;
    for (auto& [buffer, before] : buffers_) buffer.copy_(before);
    draws_.put_back();
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
  device::Draws draws_;
};

}  // namespace

StepRunner::StepRunner(std::shared_ptr<torch::nn::Module> module, LossFunction loss,
                       torch::optim::Optimizer& optimizer, double clip_norm, HostReads host_reads)
    : module_(std::move(module)),
      loss_(std::move(loss)),
      optimizer_(optimizer),
      clip_norm_(clip_norm),
      host_reads_(host_reads) {
  for (const auto& group : optimizer_.param_groups())
    for (const auto& p : group.params()) parameters_.push_back(p);
  compile_all();
}

StepRunner::Two StepRunner::apply(const at::Tensor& loss) {
  Two out{loss};
  if (clip_norm_ > 0) out.push_back(clip_grad_norm_(parameters_, clip_norm_));
  optimizer_.step();
  return out;
}

StepRunner::Two StepRunner::whole(const Batch& batch) {
  optimizer_.zero_grad();
  const at::Tensor loss = loss_(batch);
  loss.backward();
  return apply(loss.detach());
}

at::Tensor StepRunner::first(const Batch& batch, double weight) {
  optimizer_.zero_grad();
  const at::Tensor loss = loss_(batch) * weight;
  loss.backward();
  // A gradient as backward gives it may lie in memory in another order than one that was added to, and the
  // next micro-batch would be another program.
  for (auto& p : parameters_)
    if (p.grad().defined()) p.mutable_grad() = p.grad().clone();
  return loss.detach();
}

at::Tensor StepRunner::more(const Batch& batch, double weight, const at::Tensor& sum) {
  const at::Tensor loss = loss_(batch) * weight;
  loss.backward();
  return sum + loss.detach();
}

template <class F, class... Args>
std::shared_ptr<CompiledStep<F>> StepRunner::make(
    std::function<std::invoke_result_t<F, Args...>(Args...)>& into, F f, const char* name, bool steps) {
  StepOptions options{.modules = {module_}, .host_reads = host_reads_, .name = name};
  // Each replayed call counts as a step of theirs. Those of tpubridge::optim are followed without a name.
  if (steps && !dynamic_cast<optim::Fused*>(&optimizer_)) options.optimizers = {&optimizer_};
  auto step = std::make_shared<CompiledStep<F>>(compile(f, std::move(options)));
  traced_.push_back([step] { return step->traced(); });
  into = [step](Args... args) { return (*step)(args...); };
  return step;
}

void StepRunner::compile_all() {
  traced_.clear();
  loop_ = nullptr;
  auto whole = [this](const Batch& b) { return this->whole(b); };
  auto first = [this](const Batch& b, double w) { return this->first(b, w); };
  auto more = [this](const Batch& b, double w, const at::Tensor& sum) { return this->more(b, w, sum); };
  auto apply = [this](const at::Tensor& loss) { return this->apply(loss); };
  auto loss = [this](const Batch& b) { return loss_(b); };
  const bool on_cpu = parameters_.empty() || parameters_[0].device().is_cpu();
  const bool known = step::class_of(optimizer_) != nullptr;
  if (!on_cpu && !known)
    log::warn("trainer.not_compiled", {{"reason", "the numbers of this optimizer's class are not known"},
                                       {"optimizer", c10::demangle(typeid(optimizer_).name())}});
  if (on_cpu || !known) {
    whole_ = whole, first_ = first, more_ = more, apply_ = apply;
  } else {
    auto step = make<decltype(whole), const Batch&>(whole_, whole, "training step", true);
    loop_ = [step](const Batch& stacks, const std::function<void(int64_t)>& before) {
      return step->loop_with(before, stacks);
    };
    make<decltype(first), const Batch&, double>(first_, first, "first micro-batch", false);
    make<decltype(more), const Batch&, double, const at::Tensor&>(more_, more, "micro-batch", false);
    make<decltype(apply), const at::Tensor&>(apply_, apply, "optimizer", true);
  }
  evaluate_ = loss;
  if (on_cpu) return;
  auto step = std::make_shared<CompiledStep<decltype(loss)>>(
      compile(loss, {.modules = {module_}, .host_reads = host_reads_, .name = "evaluation"}));
  evaluate_ = [step](const Batch& b) { return (*step)(b); };
}

int64_t StepRunner::traced() const {
  int64_t n = traced_.empty() ? -1 : 0;
  for (const auto& of_one : traced_) n += of_one();
  return n;
}

StepResult StepRunner::run(const std::vector<MicroBatch>& parts) {
  Two out;
  if (parts.size() == 1) {
    out = whole_(parts[0].batch);
  } else {
    Undo undo(*module_, parameters_.empty() ? at::Device(at::kCPU) : parameters_[0].device());
    try {
      at::Tensor sum = first_(parts[0].batch, parts[0].weight);
      for (size_t i = 1; i < parts.size(); ++i) sum = more_(parts[i].batch, parts[i].weight, sum);
      out = apply_(sum);
    } catch (...) {
      if (compiled()) undo();
      throw;
    }
  }
  return {out[0], out.size() > 1 ? out[1] : at::Tensor()};
}

std::optional<StepResult> StepRunner::loop(const Batch& stacks, const std::function<void(int64_t)>& before) {
  const auto out = loop_ ? loop_(stacks, before) : std::nullopt;
  if (!out) return std::nullopt;
  return StepResult{(*out)[0], out->size() > 1 ? (*out)[1] : at::Tensor()};
}

StepResult StepRunner::run_plain(const std::vector<MicroBatch>& parts) {
  at::Tensor sum = first(parts[0].batch, parts[0].weight);
  for (size_t i = 1; i < parts.size(); ++i) sum = more(parts[i].batch, parts[i].weight, sum);
  const Two out = apply(sum);
  return {sum, out.size() > 1 ? out[1] : at::Tensor()};
}

at::Tensor StepRunner::evaluate(const Batch& batch) {
  at::NoGradGuard no_grad;
  return evaluate_(batch);
}

void StepRunner::reset() {
  optimizer_.zero_grad();
  compile_all();
}

}  // namespace tpubridge::train
