#include "tpubridge/pjrt/event.h"

#include "tpubridge/pjrt/client_core.h"

namespace tpubridge::pjrt {

Event::Event(Event&& other) noexcept : core_(std::move(other.core_)), raw_(std::exchange(other.raw_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(raw_, other.raw_);
  return *this;
}

Event::~Event() {
  if (!raw_) return;
  PJRT_Event_Destroy_Args args{};
  args.event = raw_;
  call_noexcept(core_->api, &PJRT_Api::PJRT_Event_Destroy, args);
}

void Event::wait() const {
  if (!raw_) return;
  PJRT_Event_Await_Args args{};
  args.event = raw_;
  call(core_->api, &PJRT_Api::PJRT_Event_Await, args);
}

bool Event::ready() const {
  if (!raw_) return true;
  PJRT_Event_IsReady_Args args{};
  args.event = raw_;
  call(core_->api, &PJRT_Api::PJRT_Event_IsReady, args);
  return args.is_ready;
}

void Event::on_ready(std::function<void(std::exception_ptr)> done) const {
  if (!raw_) return done(nullptr);
  struct Waiting {
    std::shared_ptr<const ClientCore> core;
    std::function<void(std::exception_ptr)> done;
  };
  auto waiting = std::make_unique<Waiting>(Waiting{core_, std::move(done)});
  PJRT_Event_OnReady_Args args{};
  args.event = raw_;
  args.user_arg = waiting.get();
  args.callback = [](PJRT_Error* error, void* user) {
    const std::unique_ptr<Waiting> owned(static_cast<Waiting*>(user));
    owned->done(error ? to_exception(owned->core->api, error, "PJRT_Event_OnReady") : nullptr);
  };
  call(core_->api, &PJRT_Api::PJRT_Event_OnReady, args);
  static_cast<void>(waiting.release());  // the callback owns it now
}

}  // namespace tpubridge::pjrt
