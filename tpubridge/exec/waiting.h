// A lock of the host language that a thread may hold when it has to wait for exec's mutex: it is given back
// meanwhile, since who has the mutex may need it, and taken again with the mutex in hand, which is safe where
// everybody does so.
#pragma once

namespace tpubridge::exec {

struct Waiting {
  void* (*before)() = nullptr;           // gives it back; null where this thread does not hold it
  void (*after)(void* given) = nullptr;  // takes it again
  bool (*ends)(void* given) = nullptr;   // whether this thread may not have it any more: the process ends
};
void set_waiting(Waiting waiting);  // once, before other threads use the device

}  // namespace tpubridge::exec
