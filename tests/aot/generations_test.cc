#include "tpubridge/aot/generations.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"

namespace tpubridge::aot {
namespace {

std::string error_of(std::string_view text) {
  try {
    return parse_slice(text).name();
  } catch (const ArgumentError& e) {
    return e.what();
  }
}

TEST(Generations, ANameAloneIsTheSmallestSlice) {
  EXPECT_EQ(parse_slice("v4").name(), "v4:2x2x1");
  EXPECT_EQ(parse_slice("v5e").name(), "v5e:1x1");
  EXPECT_EQ(parse_slice("v5p").name(), "v5p:2x2x1");
  EXPECT_EQ(parse_slice("v6e").name(), "v6e:1x1");
  EXPECT_EQ(parse_slice("v7").name(), "v7:2x2x1");
}

TEST(Generations, LibtpuHasItsOwnNameForTheSeventh) {
  EXPECT_EQ(parse_slice("v7:4x4x4").topology(), "tpu7x:4x4x4");
  EXPECT_EQ(parse_slice("v5e:4x4").topology(), "v5e:4x4");
}

TEST(Generations, OtherNamesAndUpperCase) {
  EXPECT_EQ(parse_slice("Trillium:2x2").name(), "v6e:2x2");
  EXPECT_EQ(parse_slice("tpu7x:2x2x1").name(), "v7:2x2x1");
  EXPECT_EQ(parse_slice("IRONWOOD").name(), "v7:2x2x1");
  EXPECT_EQ(parse_slice("v5litepod:2X4").name(), "v5e:2x4");
}

TEST(Generations, ChipsAndDevices) {
  EXPECT_EQ(parse_slice("v5e:16x16").chips(), 256);
  EXPECT_EQ(parse_slice("v5e:16x16").devices(), 256);
  EXPECT_EQ(parse_slice("v7:2x2x1").chips(), 4);
  EXPECT_EQ(parse_slice("v7:2x2x1").devices(), 8);  // two to a chip
}

TEST(Generations, AThirdDimensionOfOneIsAllowed) { EXPECT_EQ(parse_slice("v5e:2x2x1").name(), "v5e:2x2"); }

TEST(Generations, UnknownNamesListTheKnownAndTheNearest) {
  const std::string text = error_of("v5f:2x2");
  EXPECT_NE(text.find("\"v5f:2x2\""), text.npos) << text;
  EXPECT_NE(text.find("the nearest name is v5e"), text.npos) << text;
  EXPECT_NE(text.find("v4, v5e, v5p, v6e, v7"), text.npos) << text;
  EXPECT_NE(error_of("trilium").find("the nearest name is trillium"), std::string::npos);
  EXPECT_THROW(static_cast<void>(parse_slice("")), ArgumentError);
  EXPECT_THROW(static_cast<void>(parse_slice("v5")), ArgumentError);  // v5e or v5p
}

// libtpu divides by the dimensions, and dies of a zero.
TEST(Generations, DimensionsThatCannotBe) {
  for (const char* text : {"v5e:0x0", "v5e:", "v5e:2x", "v5e:x2", "v5e:-1x2", "v5e:2x2x2", "v4:2x2", "v5e:4",
                           "v5e:2xq", "v5e: 2x2", "v5e:2x2x1x1", "v5e:99999999999x1"})
    EXPECT_THROW(static_cast<void>(parse_slice(text)), ArgumentError) << text;
}

TEST(Generations, NoSliceIsLargerThanAPod) {
  EXPECT_NE(error_of("v5e:32x16").find("a pod has 256 chips"), std::string::npos);
  EXPECT_NE(error_of("v4:2000000000x2000000000x2000000000").find("a pod has 4096 chips"), std::string::npos);
}

TEST(Generations, FoundByTheDevicesKind) {
  EXPECT_EQ(find_generation("TPU v5 lite")->name, "v5e");
  EXPECT_EQ(find_generation("TPU v5")->name, "v5p");
  EXPECT_EQ(find_generation("TPU7x")->name, "v7");
  EXPECT_EQ(find_generation("TPU7x")->chip_hbm_gib, 192);
  EXPECT_EQ(find_generation("v6e")->int8_ops, 1836e12);
  EXPECT_EQ(find_generation("TPU v3"), nullptr);
  EXPECT_EQ(find_generation("cpu"), nullptr);
}

// What no page of the vendor's says is not there, rather than made up.
TEST(Generations, FiguresHaveASource) {
  for (const Generation& g : generations()) EXPECT_TRUE(g.source.starts_with("cloud.google.com/tpu/docs/"));
  EXPECT_EQ(find_generation("v5p")->int8_ops, std::nullopt);
  EXPECT_EQ(find_generation("v7")->int8_ops, std::nullopt);
  EXPECT_EQ(find_generation("v4")->fp8_flops, std::nullopt);
}

std::string with_commas(int64_t n) {
  std::string digits = std::to_string(n);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

TEST(Generations, TheManualHasTheSameTable) {
  const std::string manual = read_file(SOURCE_DIR "/docs/fit.md");
  for (const Generation& g : generations()) {
    const std::string row =
        fmt::format("| {} | {} | {} | {} chips | {} | {} | {} TFLOP/s | {:.3f} TB/s |", g.name, g.code_name,
                    g.smallest_slice, g.pod_chips, g.devices_per_chip, with_commas(g.hbm_bytes),
                    g.bf16_flops / 1e12, g.bandwidth / 1e12);
    EXPECT_NE(manual.find(row), manual.npos) << row;
  }
}

}  // namespace
}  // namespace tpubridge::aot
