// Calls into libraries that may wait for another process without end.
#pragma once

#include <future>
#include <thread>
#include <utility>

namespace tpubridge::distributed {

// What `make` gives or throws, on a thread of its own. Who does not want to wait for it any longer may go: so
// all that it uses must be its own.
template <class F>
[[nodiscard]] auto detached(F make) {
  std::packaged_task<decltype(make())()> task(std::move(make));
  auto out = task.get_future();
  std::thread(std::move(task)).detach();
  return out;
}

}  // namespace tpubridge::distributed
