#include "tpubridge/hlo/dtypes.h"

#include <array>
#include <limits>

#include "tpubridge/hlo/check.h"

namespace tpubridge::hlo {
namespace {

struct FloatFacts {
  bool infinity;
  double max;
};

// In the order of DType, from f4e2m1fn on.
constexpr std::array<FloatFacts, 13> kFloats = {{
    {false, 6},                      // f4e2m1fn
    {true, 15.5},                    // f8e3m4
    {true, 240},                     // f8e4m3
    {false, 448},                    // f8e4m3fn
    {false, 30},                     // f8e4m3b11fnuz
    {false, 240},                    // f8e4m3fnuz
    {true, 57344},                   // f8e5m2
    {false, 57344},                  // f8e5m2fnuz
    {false, 0x1p127},                // f8e8m0fnu
    {true, 0x1.fep127},              // bf16
    {true, 65504},                   // f16
    {true, 0x1.fffffep127},          // f32
    {true, 0x1.fffffffffffffp1023},  // f64
}};
const FloatFacts& facts(DType t) {
  return kFloats[static_cast<size_t>(t) - static_cast<size_t>(DType::f4e2m1fn)];
}

void check_ordered(DType t) {
  if (is_complex(t) || t == DType::token)
    fail("constant", std::string(name(t)) + " has no lowest and no highest number");
}

}  // namespace

int bit_width(DType t) {
  switch (t) {
    case DType::pred:
      return 1;
    case DType::s2:
    case DType::u2:
      return 2;
    case DType::s4:
    case DType::u4:
    case DType::f4e2m1fn:
      return 4;
    default:
      return bits(t);
  }
}

bool has_infinity(DType t) { return is_float(t) && facts(t).infinity; }

Scalar max_finite(DType t) {
  check_ordered(t);
  if (t == DType::pred) return true;
  if (is_float(t)) return facts(t).max;
  const int width = bit_width(t) - (is_signed_int(t) ? 1 : 0);
  return width == 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << width) - 1;
}

Scalar highest(DType t) {
  return has_infinity(t) ? Scalar(std::numeric_limits<double>::infinity()) : max_finite(t);
}

Scalar lowest(DType t) {
  check_ordered(t);
  if (t == DType::pred) return false;
  if (has_infinity(t)) return -std::numeric_limits<double>::infinity();
  if (t == DType::f8e8m0fnu) return 0x1p-127;  // it has no sign and no zero
  if (is_float(t)) return -facts(t).max;
  if (is_unsigned_int(t)) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - bit_width(t));
}

}  // namespace tpubridge::hlo
