// Several steps of a trainer as one program.
#include <ATen/ops/stack.h>

#include "tpubridge/train/trainer_impl.h"

namespace tpubridge {
namespace {

bool alike(const Batch& a, const Batch& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const at::Tensor& x, const at::Tensor& y) {
    return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() && x.device() == y.device();
  });
}

}  // namespace

// How many steps there are until something else happens.
int64_t Trainer::Impl::window(bool evaluates) const {
  int64_t n = options.steps_per_call;
  const auto until = [&](int64_t every) { n = std::min(n, every - step % every); };
  if (options.steps > 0) n = std::min(n, options.steps - step);
  if (evaluates && options.evaluate_every > 0) until(options.evaluate_every);
  if (store && options.checkpoint_every > 0) until(options.checkpoint_every);
  return n;
}

bool Trainer::Impl::loop_over(std::vector<Gathered>& steps) {
  // Each length would be a program of its own.
  if (static_cast<int64_t>(steps.size()) < options.steps_per_call || steps.size() < 2) return false;
  for (const auto& s : steps)
    if (s.batches.size() != 1 || s.batches[0].parts.size() != 1 ||
        !alike(s.batches[0].parts[0].batch, steps[0].batches[0].parts[0].batch))
      return false;
  Batch stacks;
  for (size_t i = 0; i < steps[0].batches[0].parts[0].batch.size(); ++i) {
    std::vector<at::Tensor> rows;
    for (const auto& s : steps) rows.push_back(s.batches[0].parts[0].batch[i]);
    stacks.push_back(at::stack(rows));
  }
  std::vector<double> rates(steps.size());
  const auto results =
      runner.loop(stacks, [&](int64_t i) { rates[static_cast<size_t>(i)] = set_rate(step + i); });
  if (!results) return false;
  for (size_t i = 0; i < steps.size(); ++i) {
    ++step;
    examples += steps[i].batches[0].examples();
    train::StepResult result = *results;
    result.row = static_cast<int64_t>(i);
    losses.add({step, steps[i].epoch, std::move(steps[i].position), rates[i], std::move(result)});
  }
  return true;
}

bool Trainer::Impl::some_steps(bool evaluates) {
  const int64_t most = window(evaluates);
  if (most < 2) return one_step();
  std::vector<Gathered> steps;
  std::exception_ptr error;  // of the data: what came before it is learned from first
  while (static_cast<int64_t>(steps.size()) < most && !(options.epochs > 0 && epoch >= options.epochs)) {
    try {
      auto gathered = gather();
      if (!gathered) break;
      steps.push_back(std::move(*gathered));
    } catch (...) {
      error = std::current_exception();
      break;
    }
  }
  const bool any = !steps.empty(), looped = any && loop_over(steps);
  const int64_t parts_then = parts;
  for (size_t i = 0; !looped && i < steps.size(); ++i) {
    if (parts != parts_then)  // memory was short meanwhile
      for (auto& b : steps[i].batches) b.parts.clear();
    take(std::move(steps[i]));
  }
  if (error) std::rethrow_exception(error);
  return any;
}

}  // namespace tpubridge
