#include "tpubridge/pjrt/event.h"

#include <thread>

#include "tpubridge/pjrt/client_core.h"

namespace tpubridge::pjrt {

Event::Event(std::shared_ptr<const ClientCore> core, PJRT_Event* raw)
    : core_(std::move(core)), raw_(core_->api, raw) {}

void Event::wait() const {
  if (raw_) ask(raw_, &PJRT_Api::PJRT_Event_Await);
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
