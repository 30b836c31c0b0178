// Whose work it is. Every thread traces in a lane of its own, so that what one thread reads is computed
// without what others have half done: programs are the same whatever other threads do. Backward works in the
// lane of what it works on, on whichever thread libtorch runs it.
//
// Lanes live as long as the process. A thread that ends leaves its lane, with what is pending in it, to
// whoever computes next and to the next thread that begins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tpubridge::trace {

struct Lane {
  const size_t index;               // from 0, in the order they were made
  std::atomic<bool> taken{false};   // a thread has it
  std::atomic<int64_t> pending{0};  // operations traced in it and not yet computed or dropped
};

[[nodiscard]] Lane& own_lane();   // of this thread
[[nodiscard]] Lane& this_lane();  // where it works now
// Inside of a backward pass: from now to its end this thread works in that lane.
void work_in(Lane& lane);

// Every lane that nobody else works in: this one, and those that threads left. Until this thread asks again.
[[nodiscard]] const std::vector<const Lane*>& free_lanes(const Lane& mine);

[[nodiscard]] bool threads_have_lanes();  // that are alive, and have traced something

// Who tells the number of the backward pass that this thread is inside of; -1: of none (libtorch knows).
void set_backward_source(int (*ask)());
[[nodiscard]] bool in_backward();

}  // namespace tpubridge::trace
