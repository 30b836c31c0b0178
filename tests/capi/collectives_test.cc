#include "tpubridge/capi/collectives.h"

#include <gtest/gtest.h>

#include <random>

namespace tpubridge::pjrt {
namespace {

// A protobuf by hand: fields that are messages or texts, and numbers.
std::string field(int tag, const std::string& content) {
  std::string out(1, static_cast<char>(tag << 3 | 2));
  size_t n = content.size();
  for (; n >= 128; n >>= 7) out += static_cast<char>((n & 127) | 128);
  return out + static_cast<char>(n) + content;
}
std::string number(int tag, int n) { return {static_cast<char>(tag << 3), static_cast<char>(n)}; }

std::string array(int type, const std::string& dims) { return number(2, type) + field(3, dims); }
std::string tuple(const std::string& a, const std::string& b) {
  return number(2, 13) + field(4, a) + field(4, b);
}
std::string op(const std::string& opcode, const std::string& shape) {
  return field(2, field(1, "name") + field(2, opcode) + field(3, shape));
}
std::string module(const std::string& instructions) {
  return field(1, "m") + field(3, field(1, "c") + instructions);
}

const std::string kFloats = array(11, "\x04\x08"), kHalves = array(16, "\x10");  // f32[4,8], bf16[16]

TEST(Collectives, KindsCountsAndBytes) {
  const std::string code =
      module(op("add", kFloats) + op("all-reduce", kFloats) + op("all-reduce", kHalves) +
             op("all-gather-start", tuple(kHalves, kFloats)) + op("all-gather-done", kFloats) +
             op("all-reduce-start", tuple(kFloats, kHalves)));
  const auto found = hlo_collectives(code, "hlo");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].kind, "all-gather");
  EXPECT_EQ(found[0].count, 1);
  EXPECT_EQ(found[0].bytes, 128);
  EXPECT_EQ(found[1].kind, "all-reduce");
  EXPECT_EQ(found[1].count, 3);
  EXPECT_EQ(found[1].bytes, 128 + 32 + 160);
  EXPECT_EQ(hlo_collectives(field(1, code), "hlo_with_config").size(), 2U);
  EXPECT_TRUE(hlo_collectives(code, "mlir").empty());
}

TEST(Collectives, DamagedCodeIsNoCrash) {
  const std::string code =
      module(op("all-reduce", tuple(kFloats, kHalves)) + op("all-gather-start", kFloats));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = code;
    for (int k = 0; k < 1 + i % 4; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    if (i % 3 == 0) bad.resize(random() % bad.size());
    for (const auto& c : hlo_collectives(bad, i % 2 ? "hlo" : "hlo_with_config")) {
      EXPECT_GE(c.bytes, 0);
      EXPECT_GT(c.count, 0);
    }
  }
}

}  // namespace
}  // namespace tpubridge::pjrt
