// The public functions.
#include "tpubridge/device/api.h"

#include "tpubridge/device/check_indices.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge {

int device_count() { return exec::device_count(); }

void sync() {
  for (int i = 0; i < exec::device_count(); ++i) exec::materialise(i, {}, "sync");
}

void sync(at::TensorList tensors) {
  c10::SmallVector<trace::Value, 2> values;
  {
    exec::Lock lock(exec::mutex());
    for (const auto& t : tensors) {
      if (!device::is_tpu(t) || t.numel() == 0) continue;
      values.push_back(device::read(t));
      exec::materialise(t.device().index(), {values.back()}, "sync");
    }
  }
  for (const auto& v : values) exec::wait_for(*v.node(), v.index());
}

void reopen_device() { exec::reopen(); }

bool set_check_indices(bool on) { return device::set_checks_indices(on); }

Fallback set_fallback(Fallback mode) { return device::set_fallback_mode(mode); }

}  // namespace tpubridge
