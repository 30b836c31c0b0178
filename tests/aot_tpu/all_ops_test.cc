// Every op that the StableHLO builder writes is taken by the TPU compiler.
#include <gtest/gtest.h>

#include "tests/hlo/all_ops.h"
#include "tpubridge/aot/aot.h"

namespace tpubridge::aot {
namespace {

TEST(AllOps, CompileForV5e) {
  std::vector<hlo::Sample> samples;
  std::vector<FitRequest> requests;
  for (hlo::Sample& s : hlo::all_ops()) {
    if (!s.tpu) continue;
    requests.push_back({.program = s.text,
                        .tpu = "v5e:2x2",
                        .replicas = static_cast<int>(s.replicas),
                        .partitions = static_cast<int>(s.partitions),
                        .shardy = s.shardy});
    samples.push_back(std::move(s));
  }
  ASSERT_GE(samples.size(), 5U);
  const auto results = fit(requests);
  for (size_t i = 0; i < samples.size(); ++i)
    EXPECT_EQ(results[i].verdict, Verdict::fits) << samples[i].name << ": " << results[i].message;
}

}  // namespace
}  // namespace tpubridge::aot
