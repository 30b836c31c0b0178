// How the processes of a job find together.
#pragma once

#include <atomic>
#include <chrono>

#include "tpubridge/distributed/gloo.h"

namespace tpubridge::distributed {

// Waits until all have come, each once, and mean the same job. `seated`: this process has its rank, and no
// other one. Throws TPUDistributedError; what c10d throws where the store is lost. Where the process that
// serves the store is stopped it waits without end.
void check_in(const StorePtr& store, const Place& place, std::chrono::milliseconds join_timeout,
              std::atomic<bool>& seated);

}  // namespace tpubridge::distributed
