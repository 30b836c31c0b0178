// Work that must not be done on the thread that finds it.
#pragma once

#include <functional>

namespace tpubridge {

// Runs `job` on a thread of its own; the process does not end before it has. `job` must not throw. Throws
// std::system_error where no thread can be had.
void run_elsewhere(std::function<void()> job);

}  // namespace tpubridge
