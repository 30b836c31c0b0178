// Each file operation, and each allocation, fails once, in turn; then all from it on.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tests/faults/scenario.h"
#include "tpubridge/base/log.h"

namespace tpubridge::faults {
namespace {

struct EachOperation : testing::TestWithParam<Named> {
  EachOperation() {
    scenario->reset();
    (void)act_with(*scenario, {});  // what is read once in a process is read now
  }
  // How many operations a whole act has.
  int64_t operations(bool memory = false) {
    scenario->reset();
    EXPECT_TRUE(act_with(*scenario, {Fault::none, 0, 0, memory}));
    return counted();
  }
  // Until no operation is left that the plan could strike.
  void fail_each(Plan plan) {
    const int64_t most = 2 * operations(plan.memory) + 100;  // a failure may lead to more operations
    for (plan.at = 0; plan.at < most; ++plan.at) {
      scenario->reset();
      (void)act_with(*scenario, plan);
      if (struck().empty()) break;
      SCOPED_TRACE("operation " + std::to_string(plan.at) + ", " + struck() + ": " +
                   std::generic_category().message(plan.error));
      ++failed;
      check_after(*scenario);
      if (HasFatalFailure() || HasFailure()) return;
    }
    EXPECT_LT(plan.at, most);
  }
  std::unique_ptr<Scenario> scenario = GetParam().make();
  const log::Capture quiet;
  int64_t failed = 0;
};

TEST_P(EachOperation, Fails) {
  for (const int error : {EIO, ENOSPC, EMFILE, EINTR}) fail_each({Fault::fails, 0, error});
  fail_each({Fault::cut_short});
  RecordProperty("failed", std::to_string(failed));
  EXPECT_GT(failed, 20);
}

TEST_P(EachOperation, FailsAndAllAfterIt) { fail_each({Fault::fails_onward, 0, EIO}); }

TEST_P(EachOperation, FindsNoMemory) {
  fail_each({Fault::fails, 0, ENOMEM, true});
  RecordProperty("failed", std::to_string(failed));
  EXPECT_GT(failed, 20);
}

// The process ends at each operation, and half-way through each write.
TEST_P(EachOperation, IsTheLastOfTheProcess) {
  for (const Fault fault : {Fault::dies, Fault::dies_half_way}) {
    const int64_t most = operations();
    for (int64_t at = 0; at < most; ++at) {
      SCOPED_TRACE("operation " + std::to_string(at));
      scenario->reset();
      const pid_t child = fork();
      if (child == 0) {
        try {
          const Armed armed({fault, at});
          scenario->act();
        } catch (...) {
          _exit(1);
        }
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      ASSERT_EQ(WEXITSTATUS(status), fault == Fault::dies || WEXITSTATUS(status) != 0 ? kDied : 0);
      check_after(*scenario);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, EachOperation, testing::ValuesIn(all_scenarios()), name_of);

}  // namespace
}  // namespace tpubridge::faults
