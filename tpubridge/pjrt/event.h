// A PJRT event: something that happens later, and may fail.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>

#include "tpubridge/capi/handle.h"

namespace tpubridge::pjrt {

class ClientCore;

// After so long a wait for the device ends with a TPUDeviceError; 0: never. TPUBRIDGE_EXECUTE_TIMEOUT gives
// it.
[[nodiscard]] std::chrono::milliseconds wait_limit();
void set_wait_limit(std::chrono::milliseconds limit);

class Event {
 public:
  Event() = default;  // an event that has happened
  Event(std::shared_ptr<const ClientCore> core, PJRT_Event* raw);

  void wait() const;                 // blocks, up to wait_limit(); throws what went wrong
  [[nodiscard]] bool ready() const;  // true too where it failed
  void settle() const;               // blocks by asking ready(): for where another call on it has failed

  // Calls `done` once, with null or what went wrong, at once or on one of the plugin's threads. `done` must
  // not throw and must not block. The event may be destroyed before it is called.
  void on_ready(std::function<void(std::exception_ptr)> done) const;

 private:
  [[nodiscard]] bool happens_within(std::chrono::milliseconds time) const;

  std::shared_ptr<const ClientCore> core_;
  Handle<PJRT_Event> raw_;
};

}  // namespace tpubridge::pjrt
