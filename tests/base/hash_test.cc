// Checksums against values from the xxhash package of Python.
#include "tpubridge/base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace tpubridge {
namespace {

std::string counting_bytes() {
  std::string out;
  for (int i = 0; i < 5 * 256; ++i) out += static_cast<char>(i & 255);
  return out;
}

TEST(Hash, Xxh3KnownValues) {
  EXPECT_EQ(hash64(""), 0x2d06800538d394c2u);
  EXPECT_EQ(hash64("a"), 0xe6c632b61e964e1fu);
  EXPECT_EQ(hash64("tpubridge"), 0x501849ed54dab24eu);
  EXPECT_EQ(hash64("tpubridge", 7), 0xbdfdfecbfaba1a3au);
  EXPECT_EQ(hash64(counting_bytes()), 0x4844b009e164352eu);
  EXPECT_EQ(hash128("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash128("tpubridge").hex(), "9e37cd7f112401dd6b127439fd614a45");
  EXPECT_EQ(hash128("tpubridge", 7).hex(), "e6bffd118babe9de7af3636a780450ea");
  const std::string bytes = counting_bytes();
  EXPECT_EQ(hash128(std::as_bytes(std::span(bytes))).hex(), "d92ab3a1cb0542a74844b009e164352e");
}

TEST(Hash, PiecesHashAsTheWhole) {
  const std::string whole = counting_bytes();
  Hasher hasher;
  hasher.add(std::string_view(whole).substr(0, 100)).add("").add(std::string_view(whole).substr(100));
  EXPECT_EQ(hasher.digest().hex(), "d92ab3a1cb0542a74844b009e164352e");
  EXPECT_EQ(hasher.digest(), hasher.digest()) << "asking changes nothing";
}

TEST(Hash, FieldsKeepTheirBorders) {
  Hasher a, b;
  a.add_field("ab").add_field("c");
  b.add_field("a").add_field("bc");
  EXPECT_NE(a.digest(), b.digest());
  const std::string by_hand("\2\0\0\0\0\0\0\0ab\1\0\0\0\0\0\0\0c", 19);
  EXPECT_EQ(a.digest(), hash128(by_hand));
}

}  // namespace
}  // namespace tpubridge
