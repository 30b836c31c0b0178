// A mapped file whose disk gives an error ends the process by SIGBUS: checkpoints are read, not mapped.
#include "tests/faults/scenario.h"
#include "tpubridge/base/log.h"

namespace tpubridge::faults {
namespace {

TEST(Mapping, CheckpointsAreNotMapped) {
  const log::Capture quiet;
  int reads = 0;
  for (const Named& named : checkpoint_scenarios()) {
    SCOPED_TRACE(named.name);
    const auto scenario = named.make();
    scenario->reset();
    (void)act_with(*scenario, {});  // what is read once in a process is read now
    Plan plan{Fault::fails, 0, EIO};
    for (;; ++plan.at) {
      scenario->reset();
      (void)act_with(*scenario, plan);
      if (struck().empty()) break;
      EXPECT_NE(struck(), "mmap");
      reads += struck() == "pread";
    }
  }
  EXPECT_GT(reads, 10);
}

}  // namespace
}  // namespace tpubridge::faults
