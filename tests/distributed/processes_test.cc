// Several processes of one job; what each of them checks stands in ranks/.
#include "tests/distributed/run_ranks.h"

namespace tpubridge::distributed {
namespace {

TEST(Processes, SumsMeansAndExtremes) { expect_all_pass(3, "SumsMeansAndExtremes"); }
TEST(Processes, ValuesThatMove) { expect_all_pass(3, "ValuesThatMove"); }
TEST(Processes, Messages) { expect_all_pass(3, "Messages"); }
TEST(Processes, MessagesThatWait) { expect_all_pass(3, "MessagesThatWait"); }
TEST(Processes, WhatNobodyReads) { expect_all_pass(3, "WhatNobodyReads"); }
TEST(Processes, WhatIsSentNeedsNoReader) { expect_all_pass(2, "WhatIsSentNeedsNoReader"); }
TEST(Processes, Gradients) { expect_all_pass(3, "Gradients"); }
TEST(Processes, TheDeviceIsOpenedAgain) { expect_all_pass(2, "TheDeviceIsOpenedAgain"); }
TEST(Processes, WhatCannotBeIsSaidAtTheCall) { expect_all_pass(3, "WhatCannotBeIsSaidAtTheCall"); }
TEST(Processes, TracedTraining) { expect_all_pass(2, "TracedTraining"); }
TEST(Processes, CompiledTraining) { expect_all_pass(4, "CompiledTraining"); }
TEST(Processes, TrainingInSmallBuckets) { expect_all_pass(2, "TrainingInSmallBuckets"); }
TEST(Processes, AProcessGroupOfTorch) { expect_all_pass(3, "AProcessGroupOfTorch"); }
TEST(Processes, FlatFormsAndFunctionalOps) { expect_all_pass(3, "FlatFormsAndFunctionalOps"); }

}  // namespace
}  // namespace tpubridge::distributed
