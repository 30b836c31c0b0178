// Threads that may outlive the call that started them, and what happens to them when the process ends.
#pragma once

#include <functional>

namespace tpubridge::cache {

// Runs `body` (which must not throw) in a thread of its own. A process that ends while such a thread is
// inside a plugin would crash in the plugin's static destructors: at exit, the threads get two more seconds,
// then the process ends at once, with its exit status and its streams flushed. False where no thread is to be
// had.
[[nodiscard]] bool run_detached(std::function<void()> body);

}  // namespace tpubridge::cache
