// torch's Gloo, which carries data between processes, and the store by which they find each other.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "tpubridge/distributed/place.h"

namespace tpubridge::distributed {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

// The store of the job: served by rank 0, or by its launcher. Of one process alone, a store in memory. Throws
// TPUDistributedError where it cannot be served (the port is taken) or reached.
[[nodiscard]] StorePtr open_store(const Place& place, std::chrono::milliseconds timeout);

// The address of this host under which the others reach it: the one from which the coordinator is reached.
[[nodiscard]] std::string own_address(const Place& place);

// All ranks must call it, with a store of the same prefix.
[[nodiscard]] BackendPtr make_gloo(const StorePtr& store, const Place& place, const std::string& address,
                                   std::chrono::milliseconds timeout);

// Values of the store.
[[nodiscard]] inline std::vector<uint8_t> to_bytes(const std::string& s) { return {s.begin(), s.end()}; }
[[nodiscard]] inline std::string to_text(const std::vector<uint8_t>& b) { return {b.begin(), b.end()}; }

// What torch says, without the backtrace.
[[nodiscard]] std::string words_of(const std::exception& error);

}  // namespace tpubridge::distributed
