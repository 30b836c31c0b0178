#include "tpubridge/capi/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tpubridge/base/errors.h"

namespace tpubridge::pjrt {
namespace {

using enum DType;
// In the order of the C enum, which begins with INVALID.
constexpr std::array kTypes = {
    pred, s8,  s16,   s32, s64,  u8,     u16,      u32,           u64,        f16,
    f32,  f64, bf16,  c64, c128, f8e5m2, f8e4m3fn, f8e4m3b11fnuz, f8e5m2fnuz, f8e4m3fnuz,
    s4,   u4,  token, s2,  u2,   f8e4m3, f8e3m4,   f8e8m0fnu,     f4e2m1fn};
static_assert(kTypes.size() == PJRT_Buffer_Type_F4E2M1FN);

// What a value's struct points at or holds; the variant has the order of the C enum.
void fill(PJRT_NamedValue& v, const std::string& x) { v.string_value = x.data(), v.value_size = x.size(); }
void fill(PJRT_NamedValue& v, int64_t x) { v.int64_value = x; }
void fill(PJRT_NamedValue& v, const std::vector<int64_t>& x) {
  v.int64_array_value = x.data(), v.value_size = x.size();
}
void fill(PJRT_NamedValue& v, float x) { v.float_value = x; }
void fill(PJRT_NamedValue& v, bool x) { v.bool_value = x; }

Value value_of(const PJRT_NamedValue& v) {
  switch (v.type) {
    case PJRT_NamedValue_kString:
      return std::string(v.string_value, v.value_size);
    case PJRT_NamedValue_kInt64:
      return v.int64_value;
    case PJRT_NamedValue_kInt64List:
      return std::vector<int64_t>(v.int64_array_value, v.int64_array_value + v.value_size);
    case PJRT_NamedValue_kFloat:
      return v.float_value;
    case PJRT_NamedValue_kBool:
      return v.bool_value;
  }
  return {};  // a kind that a newer plugin has
}

}  // namespace

PJRT_Buffer_Type to_pjrt(DType t) {
  const auto at = std::ranges::find(kTypes, t);
  return at == kTypes.end() ? PJRT_Buffer_Type_INVALID
                            : static_cast<PJRT_Buffer_Type>(at - kTypes.begin() + 1);
}

DType from_pjrt(PJRT_Buffer_Type t) {
  if (const auto i = static_cast<size_t>(t) - 1; i < kTypes.size()) return kTypes[i];
  throw UnsupportedError(
      fmt::format("the plugin uses element type number {}, which this version does not know",
                  static_cast<int>(t)),
      {}, "Update tpubridge", Code::unsupported);
}

PJRT_Program to_pjrt(const Program& program) {
  auto* const code = const_cast<char*>(program.code.data());  // the C API has one struct for in and out
  return {sizeof(PJRT_Program), nullptr, code, program.code.size(), program.format.data(),
          program.format.size()};
}

std::vector<PJRT_NamedValue> to_pjrt(const Values& values) {
  std::vector<PJRT_NamedValue> out;
  for (const auto& [name, value] : values) {
    PJRT_NamedValue v{};
    v.struct_size = sizeof v;
    v.name = name.data();
    v.name_size = name.size();
    v.type = static_cast<PJRT_NamedValue_Type>(value.index());
    v.value_size = 1;
    std::visit([&v](const auto& x) { fill(v, x); }, value);
    out.push_back(v);
  }
  return out;
}

Values from_pjrt(const PJRT_NamedValue* values, size_t n) {
  Values out;
  for (const auto* v = values; v != values + n; ++v) out[{v->name, v->name_size}] = value_of(*v);
  return out;
}

std::string to_string(const Value& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

}  // namespace tpubridge::pjrt
