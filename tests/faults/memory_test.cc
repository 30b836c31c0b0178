// The allocator of this program fails where it is told to, also for memory with an alignment.
#include <new>

#include "tests/faults/scenario.h"
#include "tpubridge/base/host_tensor.h"

namespace tpubridge::faults {
namespace {

TEST(Memory, AlignedAllocationsFailToo) {
  bool refused = false;
  {
    const Armed armed({.fault = Fault::fails, .memory = true});
    try {
      (void)aligned_bytes(100);
    } catch (const std::bad_alloc&) {
      refused = true;
    }
  }
  EXPECT_TRUE(refused);
  EXPECT_EQ(struck(), "allocation");
}

}  // namespace
}  // namespace tpubridge::faults
