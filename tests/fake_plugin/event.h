// Events are promises of ours, kept by an event of the plugin below, by a failure, or not until "release".
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "state.h"

namespace fake {

// What becomes of a result, whatever the plugin below says: an error instead of it, or silence until
// released. It clings to a buffer and passes on to everything that is computed from it.
struct Fate {
  std::optional<Failure> error;
  std::shared_ptr<Gate> gate;

  void inherit(const Fate& other) {
    if (!error) error = other.error;
    if (!gate) gate = other.gate;
  }
};

// How deep this thread is in callbacks of the caller. Destroying the client there is misuse: a real one would
// wait for its own thread.
extern thread_local int callbacks_here;

class Event : public Object {
 public:
  using Handle = PJRT_Event;
  static constexpr Kind kKind = Kind::event;

  void set(std::optional<Failure> error);
  [[nodiscard]] bool ready();
  [[nodiscard]] std::optional<Failure> wait();
  void when_ready(PJRT_Event_OnReadyCallback callback, void* arg);

 private:
  struct Callback {
    PJRT_Event_OnReadyCallback function;
    void* arg;
  };
  std::mutex lock_;
  std::condition_variable changed_;
  bool ready_ = false;
  std::optional<Failure> error_;
  std::vector<Callback> waiting_;
};

// A handle to an event that follows `below` (null: at once) and bends to `fate`.
[[nodiscard]] PJRT_Event* follow(PJRT_Event* below, const Fate& fate);

}  // namespace fake
