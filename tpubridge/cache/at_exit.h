// Work inside a plugin that outlives the call that started it, and what happens to it when the process ends:
// it would crash in the plugin's static destructors, so at exit it gets two more seconds, then the process
// ends at once, with its exit status and its streams flushed.
#pragma once

#include <functional>

namespace tpubridge::cache {

// Runs `body` (which must not throw) in a thread of its own. False where no thread is to be had.
[[nodiscard]] bool run_detached(std::function<void()> body);

// While it lives this thread works inside of a plugin.
class Working {
 public:
  Working();
  ~Working();
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
};

// Runs once, before any of that: while other threads and all static objects are still there. Not in a forked
// child. `f` must not throw. The thread-local objects of the thread that ends the process may be gone.
void first_at_exit(void (*f)());
// Waits for other work too: until `idle` (which must neither throw nor block) says so.
void wait_at_exit(bool (*idle)());
// Where `left` says so after that, the process ends at once: threads are left that static objects would go
// under.
void end_at_exit(bool (*left)());

}  // namespace tpubridge::cache
