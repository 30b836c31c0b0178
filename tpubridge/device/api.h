// What the user can ask of the device. tpubridge.h is this, metrics, and libtorch.
#pragma once

#include <ATen/core/Tensor.h>

#include "tpubridge/device/fallback.h"
#include "tpubridge/exec/explain.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"

namespace tpubridge {

// Computes everything that is pending on every device; returns when the programs are queued.
void sync();
// Computes these (and what else is pending on their devices) and waits for them; throws what went wrong.
void sync(at::TensorList tensors);
[[nodiscard]] int device_count();

// For a device that is lost (TPUDeviceError): the plugin's client is given up, with all that was on its
// devices, and another is opened. From then on tensors that were there throw TPUDeviceError when their values
// are asked for; give them values again (copy_, load a checkpoint) or make new ones. Compiled steps compile
// again by themselves. No other thread may use the device meanwhile. Where the plugin does not open a second
// client (a GPU after a CUDA error), it throws what the plugin says: start a new process.
void reopen_device();

// What happens when an op has no lowering: run it on the CPU silently, run it and warn once per op (the
// default), or throw UnsupportedError. Returns the old setting.
Fallback set_fallback(Fallback mode);

// Inside the scope the setting is another.
class FallbackScope {
 public:
  explicit FallbackScope(Fallback mode) : before_(set_fallback(mode)) {}
  ~FallbackScope() { set_fallback(before_); }
  FallbackScope(const FallbackScope&) = delete;
  FallbackScope& operator=(const FallbackScope&) = delete;

 private:
  Fallback before_;
};

// Checked mode: an index out of range throws c10::IndexError at the call, as on the CPU, at the price of
// waiting for the indices of every op that has some. Off (the default), a read takes the nearest place inside
// and a write outside is left out. Also TPUBRIDGE_CHECK_INDICES=1. Returns the old setting.
bool set_check_indices(bool on);

// auto scope = tpubridge::expect_no_compile();  any compile inside it throws CompilationError.
[[nodiscard]] inline exec::ExpectNoCompile expect_no_compile() { return {}; }

}  // namespace tpubridge
