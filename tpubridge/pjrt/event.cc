#include "tpubridge/pjrt/event.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tpubridge/base/env.h"
#include "tpubridge/pjrt/client_core.h"

namespace tpubridge::pjrt {

namespace {

std::atomic<std::chrono::milliseconds>& limit_of_waits() {
  static std::atomic<std::chrono::milliseconds> limit{
      std::chrono::seconds(*env::integer("TPUBRIDGE_EXECUTE_TIMEOUT"))};
  return limit;
}

}  // namespace

std::chrono::milliseconds wait_limit() { return limit_of_waits().load(std::memory_order_relaxed); }
void set_wait_limit(std::chrono::milliseconds limit) { limit_of_waits() = limit; }

Event::Event(std::shared_ptr<const ClientCore> core, PJRT_Event* raw)
    : core_(std::move(core)), raw_(core_->api, raw) {}

void Event::wait() const {
  if (!raw_) return;
  if (const auto limit = wait_limit(); limit.count() > 0 && !ready() && !happens_within(limit))
    throw TPUDeviceError(
        fmt::format("the device has not answered for {} s", static_cast<double>(limit.count()) / 1000), {},
        "It may hang, or the program takes longer than TPUBRIDGE_EXECUTE_TIMEOUT allows. Whoever reads the "
        "value again waits again; where that does not help, start again from a checkpoint.",
        Code::deadline_exceeded);
  ask(raw_, &PJRT_Api::PJRT_Event_Await);
}

bool Event::happens_within(std::chrono::milliseconds time) const {
  struct Told {
    std::mutex mutex;
    std::condition_variable changed;
    bool happened = false;
  };
  const auto told = std::make_shared<Told>();  // it may happen when nobody waits any more
  on_ready([told](const std::exception_ptr&) {
    const std::lock_guard lock(told->mutex);
    told->happened = true;
    told->changed.notify_all();
  });
  std::unique_lock lock(told->mutex);
  return told->changed.wait_for(lock, time, [&] { return told->happened; });
}

bool Event::ready() const { return !raw_ || ask(raw_, &PJRT_Api::PJRT_Event_IsReady).is_ready; }

void Event::settle() const {
  while (!ready()) std::this_thread::yield();
}

void Event::on_ready(std::function<void(std::exception_ptr)> done) const {
  if (!raw_) return done(nullptr);
  struct Waiting {
    std::shared_ptr<const ClientCore> core;
    std::function<void(std::exception_ptr)> done;
  };
  auto waiting = std::make_unique<Waiting>(Waiting{core_, std::move(done)});
  PJRT_Event_OnReady_Args args{};
  args.event = raw_.get();
  args.user_arg = waiting.get();
  args.callback = [](PJRT_Error* error, void* user) {
    const ClientCore::InCallback here;  // outlives `owned`, which may be the last to know the client
    const std::unique_ptr<Waiting> owned(static_cast<Waiting*>(user));
    owned->done(error ? to_exception(owned->core->api, error, "PJRT_Event_OnReady") : nullptr);
  };
  call(core_->api, &PJRT_Api::PJRT_Event_OnReady, args);
  [[maybe_unused]] const auto* theirs = waiting.release();  // the callback owns it now
}

}  // namespace tpubridge::pjrt
