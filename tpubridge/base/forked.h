// A child of fork() has none of its parent's threads, and what they had locked stays locked: what a plugin
// was opened for cannot be used in it, nor given back.
#pragma once

namespace tpubridge {

void watch_forks();  // a plugin was opened: in children from now on it cannot be used
[[nodiscard]] bool in_forked_child();
void check_not_forked();  // throws TPUDeviceError in one

}  // namespace tpubridge
