#include "tpubridge/aot/overflow.h"

#include <gtest/gtest.h>

namespace tpubridge::aot {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(Overflow, SizesAsTheCompilerWritesThem) {
  EXPECT_EQ(parse_bytes("24.00G"), 24 * kGiB);
  EXPECT_EQ(parse_bytes("15.75G"), 15 * kGiB + 3 * kGiB / 4);
  EXPECT_EQ(parse_bytes("512.0M"), kGiB / 2);
  EXPECT_EQ(parse_bytes("1.5K"), 1536);
  EXPECT_EQ(parse_bytes("17B"), 17);
  EXPECT_EQ(parse_bytes("17"), 17);
  EXPECT_EQ(parse_bytes("2.00T"), 2048 * kGiB);
  EXPECT_EQ(parse_bytes("3GiB"), 3 * kGiB);
}

TEST(Overflow, WhatIsNoSize) {
  for (const char* text : {"", "G", "1.0X", "-1G", "nan", "inf", "1.0GG", "1e300G", "0x10G5", "1 G"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(Overflow, BeforeAllocation) {
  const auto o = parse_overflow(
      "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries "
      "(24.00G) exceeds available HBM (15.75G). HLO module: main.\nSee "
      "https://openxla.org/xla/errors/error_1000");
  ASSERT_TRUE(o);
  EXPECT_EQ(o->needed, 24 * kGiB);
  EXPECT_EQ(o->available, 63 * kGiB / 4);
}

TEST(Overflow, AtAllocation) {
  const auto o = parse_overflow(
      "E1000: CompileTimeHbmOom: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
      "Used "
      "128.05M of 128.00M hbm. Exceeded hbm capacity by 51.5K.\n\nTotal hbm usage >= 322.05M:\n"
      "    reserved        258.00M \n    program           51.5K \n    arguments        64.00M \n");
  ASSERT_TRUE(o);
  EXPECT_EQ(o->needed, 134270157);  // 128.05 × 2^20
  EXPECT_EQ(o->available, kGiB / 8);
}

TEST(Overflow, OtherMemoriesAndOtherErrors) {
  EXPECT_FALSE(
      parse_overflow("Ran out of memory in memory space vmem. Used 24.00M of 16.00M vmem. Exceeded "
                     "vmem capacity by 8.00M."));
  EXPECT_FALSE(parse_overflow("-:2:8: error: custom op 'stablehlo.tanhh' is unknown"));
  EXPECT_FALSE(parse_overflow("HLO temporaries (lots) exceeds available HBM (15.75G)"));
  EXPECT_FALSE(parse_overflow("Used "));
  EXPECT_FALSE(parse_overflow(""));
}

}  // namespace
}  // namespace tpubridge::aot
