#include "tpubridge/capi/convert.h"

#include <gtest/gtest.h>

#include "tpubridge/base/errors.h"

namespace tpubridge::pjrt {
namespace {

TEST(Convert, EveryElementType) {
  const std::vector<std::pair<PJRT_Buffer_Type, DType>> types = {
      std::pair{PJRT_Buffer_Type_PRED, DType::pred},
      std::pair{PJRT_Buffer_Type_S2, DType::s2},
      std::pair{PJRT_Buffer_Type_S4, DType::s4},
      std::pair{PJRT_Buffer_Type_S8, DType::s8},
      std::pair{PJRT_Buffer_Type_S16, DType::s16},
      std::pair{PJRT_Buffer_Type_S32, DType::s32},
      std::pair{PJRT_Buffer_Type_S64, DType::s64},
      std::pair{PJRT_Buffer_Type_U2, DType::u2},
      std::pair{PJRT_Buffer_Type_U4, DType::u4},
      std::pair{PJRT_Buffer_Type_U8, DType::u8},
      std::pair{PJRT_Buffer_Type_U16, DType::u16},
      std::pair{PJRT_Buffer_Type_U32, DType::u32},
      std::pair{PJRT_Buffer_Type_U64, DType::u64},
      std::pair{PJRT_Buffer_Type_F4E2M1FN, DType::f4e2m1fn},
      std::pair{PJRT_Buffer_Type_F8E3M4, DType::f8e3m4},
      std::pair{PJRT_Buffer_Type_F8E4M3, DType::f8e4m3},
      std::pair{PJRT_Buffer_Type_F8E4M3FN, DType::f8e4m3fn},
      std::pair{PJRT_Buffer_Type_F8E4M3B11FNUZ, DType::f8e4m3b11fnuz},
      std::pair{PJRT_Buffer_Type_F8E4M3FNUZ, DType::f8e4m3fnuz},
      std::pair{PJRT_Buffer_Type_F8E5M2, DType::f8e5m2},
      std::pair{PJRT_Buffer_Type_F8E5M2FNUZ, DType::f8e5m2fnuz},
      std::pair{PJRT_Buffer_Type_F8E8M0FNU, DType::f8e8m0fnu},
      std::pair{PJRT_Buffer_Type_BF16, DType::bf16},
      std::pair{PJRT_Buffer_Type_F16, DType::f16},
      std::pair{PJRT_Buffer_Type_F32, DType::f32},
      std::pair{PJRT_Buffer_Type_F64, DType::f64},
      std::pair{PJRT_Buffer_Type_C64, DType::c64},
      std::pair{PJRT_Buffer_Type_C128, DType::c128},
      std::pair{PJRT_Buffer_Type_TOKEN, DType::token},
  };
  for (const auto& [theirs, ours] : types) {
    EXPECT_EQ(to_pjrt(ours), theirs) << theirs;
    EXPECT_EQ(from_pjrt(theirs), ours) << theirs;
  }
  EXPECT_THROW((void)from_pjrt(PJRT_Buffer_Type_INVALID), UnsupportedError);
  EXPECT_THROW((void)from_pjrt(static_cast<PJRT_Buffer_Type>(types.size() + 1)), UnsupportedError);
}

TEST(Convert, NamedValues) {
  const Values values = {{"flag", true},
                         {"list", std::vector<int64_t>{3, -4}},
                         {"number", int64_t{-7}},
                         {"ratio", 0.5F},
                         {"text", std::string("a\0b", 3)}};
  const auto named = to_pjrt(values);
  ASSERT_EQ(named.size(), 5U);
  EXPECT_EQ(named[0].type, PJRT_NamedValue_kBool);
  EXPECT_TRUE(named[0].bool_value);
  EXPECT_EQ(named[1].type, PJRT_NamedValue_kInt64List);
  EXPECT_EQ(named[1].value_size, 2U);
  EXPECT_EQ(named[1].int64_array_value[1], -4);
  EXPECT_EQ(named[2].type, PJRT_NamedValue_kInt64);
  EXPECT_EQ(named[2].int64_value, -7);
  EXPECT_EQ(named[3].type, PJRT_NamedValue_kFloat);
  EXPECT_EQ(named[3].float_value, 0.5F);
  EXPECT_EQ(named[4].type, PJRT_NamedValue_kString);
  EXPECT_EQ(std::string(named[4].string_value, named[4].value_size), std::string("a\0b", 3));
  EXPECT_EQ(from_pjrt(named.data(), named.size()), values);
}

}  // namespace
}  // namespace tpubridge::pjrt
