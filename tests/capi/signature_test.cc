// HLO protobufs that no compiler writes.
#include "tpubridge/capi/signature.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace tpubridge::pjrt {
namespace {

// The head of a field of `length` bytes, backwards: the message is built from its inside.
void put_head(std::string& reversed, char tag, size_t length) {
  std::string head(1, tag);
  for (; length >= 128; length >>= 7) head += static_cast<char>(length | 128);
  head += static_cast<char>(length);
  reversed.append(head.rbegin(), head.rend());
}

// A module whose result is a tuple in a tuple in a tuple …
std::string nested(size_t levels) {
  constexpr std::string_view kArray = {"\x10\x0b\x1a\x01\x03", 5}, kTuple = {"\x10\x0d", 2};
  std::string reversed(kArray.rbegin(), kArray.rend());
  for (size_t i = 0; i < levels; ++i) {
    put_head(reversed, '\x22', reversed.size());  // ShapeProto.tuple_shapes
    reversed.append(kTuple.rbegin(), kTuple.rend());
  }
  put_head(reversed, '\x12', reversed.size());  // ProgramShapeProto.result
  put_head(reversed, '\x22', reversed.size());  // HloModuleProto.host_program_shape
  return {reversed.rbegin(), reversed.rend()};
}

TEST(HloSignature, ATupleOfOneArray) {
  const auto s = hlo_signature(nested(1), "hlo");
  ASSERT_TRUE(s);
  EXPECT_EQ(s->results, (std::vector<Shape>{{DType::f32, {3}}}));
  EXPECT_TRUE(s->parameters.empty());
}

// Each level was a call in a call: a file of a megabyte took the stack.
TEST(HloSignature, TuplesInTuplesWithoutEnd) { EXPECT_FALSE(hlo_signature(nested(300'000), "hlo")); }

}  // namespace
}  // namespace tpubridge::pjrt
