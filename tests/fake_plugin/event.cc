// Events of the C API.
#include "event.h"

#include "entry.h"
#include "under.h"

namespace fake {

thread_local int callbacks_here = 0;

namespace {
void call_back(PJRT_Event_OnReadyCallback function, const std::optional<Failure>& error, void* arg) {
  ++callbacks_here;
  function(error ? make_error(*error) : nullptr, arg);
  --callbacks_here;
}
}  // namespace

void Event::set(std::optional<Failure> error) {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard guard(lock_);
    error_ = std::move(error);
    ready_ = true;
    callbacks.swap(waiting_);
  }
  changed_.notify_all();
  for (const Callback& c : callbacks) call_back(c.function, error_, c.arg);
}

bool Event::ready() {
  const std::lock_guard guard(lock_);
  return ready_;
}

std::optional<Failure> Event::wait() {
  std::unique_lock guard(lock_);
  changed_.wait(guard, [this] { return ready_; });
  return error_;
}

void Event::when_ready(PJRT_Event_OnReadyCallback callback, void* arg) {
  {
    const std::lock_guard guard(lock_);
    if (!ready_) {
      waiting_.push_back({callback, arg});
      return;
    }
  }
  call_back(callback, error_, arg);
}

PJRT_Event* follow(PJRT_Event* below, const Fate& fate) {
  auto event = std::make_shared<Event>();
  const auto finish = [event, fate](std::optional<Failure> error) {
    if (fate.error) error = fate.error;
    if (fate.gate) {
      fate.gate->when_open([event, error] { event->set(error); });
    } else {
      event->set(std::move(error));
    }
  };
  if (below) {
    when_ready(below, finish);
  } else {
    finish(std::nullopt);
  }
  return add(event);
}

namespace {

void destroy(PJRT_Event_Destroy_Args& a) {
  if (a.event) take<Event>(a.event);
}
void is_ready(PJRT_Event_IsReady_Args& a) { a.is_ready = get<Event>(a.event)->ready(); }

void error(PJRT_Event_Error_Args& a) {
  const auto event = get<Event>(a.event);
  if (!event->ready()) registry::misuse("the event is not ready yet");
  if (const auto failure = event->wait()) throw Failure(*failure);
}

void await_event(PJRT_Event_Await_Args& a) {
  if (const auto failure = get<Event>(a.event)->wait()) throw Failure(*failure);
}

void on_ready(PJRT_Event_OnReady_Args& a) {
  const auto event = get<Event>(a.event);
  if (!a.callback) registry::misuse("the callback is null");
  event->when_ready(a.callback, a.user_arg);
}

}  // namespace

void install_events(PJRT_Api& api) {
  FAKE_SET(PJRT_Event_Destroy, destroy);
  FAKE_SET(PJRT_Event_IsReady, is_ready);
  FAKE_SET(PJRT_Event_Error, error);
  FAKE_SET(PJRT_Event_Await, await_event);
  FAKE_SET(PJRT_Event_OnReady, on_ready);
}

}  // namespace fake
