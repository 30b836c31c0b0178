// A step where memory is short: undo what was begun, collect, and go on in smaller parts.
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "tpubridge/base/log.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/train/trainer_impl.h"

namespace tpubridge {
namespace {

void forget_programs() {
  exec::Lock lock(exec::mutex());
  exec::set_cache_capacity(exec::set_cache_capacity(0));
}

}  // namespace

Fetched Trainer::Impl::fetch() {
  while (true) {
    try {
      return ahead->next();
    } catch (const TPUOutOfMemoryError& e) {
      make_room(e, false);
    }
  }
}

std::vector<MicroBatch> Trainer::Impl::micro_batches(std::vector<Fetched>& batches) const {
  int64_t all = 0;
  for (const auto& b : batches) all += b.examples();
  std::vector<MicroBatch> out;
  for (auto& b : batches) {
    auto ready = std::exchange(b.parts, {});
    for (auto& part : ready.empty() ? ready = split(*b.host, parts, device) : ready) {
      if (batches.size() > 1 && all > 0)
        part.weight *= static_cast<double>(b.examples()) / static_cast<double>(all);
      out.push_back(std::move(part));
    }
  }
  return out;
}

// A step that is not compiled leaves parameters half-way where it fails: what they were is kept on the host
// for the first steps, in which memory shows to be too small.
void Trainer::Impl::remember() {
  snapshot.reset();
  if (device.is_cpu() || runner.compiled() || snapshots_left == 0) return;
  --snapshots_left;
  snapshot = capture(training_parts(), {});
}

train::StepResult Trainer::Impl::run(std::vector<Fetched>& batches) {
  least_rows = std::numeric_limits<int64_t>::max();
  for (const auto& b : batches) least_rows = std::min(least_rows, b.examples());
  while (true) {
    try {
      const std::vector<MicroBatch> all = micro_batches(batches);
      remember();
      return runner.run(all);
    } catch (const TPUOutOfMemoryError& e) {
      if (e.code() == Code::data_loss && !snapshot) throw;  // recover() goes back to where there are values
      make_room(e, !runner.compiled() || e.code() == Code::data_loss);
    }
  }
}

// What a failed step left pending holds the buffers of the step before: they would be there twice.
void Trainer::Impl::drop_values() {
  at::NoGradGuard no_grad;
  optimizer.state().clear();
  for (auto& p : module->parameters()) p.zero_();
  for (auto& b : module->buffers()) b.zero_();
}

void Trainer::Impl::make_room(const TPUOutOfMemoryError& cause, bool half_way) {
  if (half_way && !snapshot) throw;  // the parameters are lost; only a checkpoint has them
  runner.reset();
  if (half_way) {
    drop_values();
    restore(training_parts(), *snapshot, "the step before");
  }
  snapshot.reset();
  const int64_t before = device_memory(device.index()).live;
  forget_programs();
  const bool first = collected_at != step;
  collected_at = step;
  if (ahead) ahead->set_parts(parts, std::min<size_t>(options.prefetch.value_or(1), 1));
  const bool freed = device_memory(device.index()).live < before;
  if (!(first && freed)) {
    if (!can_split()) throw;  // one row is too much already
    parts *= 2;
    if (ahead) ahead->set_parts(parts, std::min<size_t>(options.prefetch.value_or(1), 1));
    snapshots_left = 6;
  }
  tell_memory(cause);
}

bool Trainer::Impl::split_further(const TPUBackendError& cause) {
  forget_programs();
  // Which step it was is not known; the first time it may do with what was collected.
  if (std::exchange(collected_late, true)) {
    if (!can_split()) return false;
    parts *= 2;
  }
  tell_memory(cause);
  return true;
}

bool Trainer::Impl::can_split() const { return parts * 2 <= least_rows && parts <= (1 << 20); }

void Trainer::Impl::tell_memory(const TPUBackendError& cause) {
  log::warn("trainer.out_of_memory",
            {{"step", std::to_string(step + 1)}, {"parts", std::to_string(parts)}, {"cause", cause.what()}});
  metrics.write(step, {{"event", "out_of_memory"}, {"parts", parts}});
}

}  // namespace tpubridge
