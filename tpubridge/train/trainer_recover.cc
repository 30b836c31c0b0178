// A step that fails for a reason outside the program: the device is lost, a compile is not done in time; or
// that ran out of memory when it had begun, so that its parameters are lost.
#include "tpubridge/base/log.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/train/trainer_impl.h"

namespace tpubridge {

// Goes back to the newest good checkpoint, or to where this call of train() began. Nothing that the device
// held is used: every value comes from the host.
void Trainer::Impl::go_back(DataSource& data) {
  ahead.reset();
  losses.clear();
  std::optional<LoadedCheckpoint> from = start;
  if (store) {
    settle();
    if (auto found = store->newest_good(); found && (!from || found->step >= from->step))
      from = std::move(found);
  }
  if (!from) throw checkpoint_error("load", options.checkpoints, "there is none to go back to");
  runner.reset();
  if (!device.is_cpu() && !exec::answers(device.index())) exec::reopen();
  drop_values();
  const int64_t split = parts;
  load(*from);
  parts = std::max(parts, split);
  begin(data);
  log::warn("trainer.went_back", {{"step", std::to_string(step)}});
  metrics.write(step, {{"event", "went back"}});
}

bool Trainer::Impl::recover(const TPUBackendError& error, DataSource& data) {
  const ErrorClass kind = classify(error);
  const bool memory = kind == ErrorClass::memory && error.code() == Code::data_loss;
  if (kind != ErrorClass::device && kind != ErrorClass::compilation && !memory) return false;
  if (memory && !split_further(error)) return false;
  handler.set_recovery(kind, [&] { go_back(data); });
  const bool again = handler.handle_tpu_error("training step", error);
  handler.set_recovery(kind, {});
  return again;
}

}  // namespace tpubridge
