// Element types and shapes, shared by the program builder, the runtime and the file formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpubridge {

// Every element type that XLA has. The order is ours; pjrt/ and the file formats map it to theirs.
enum class DType : uint8_t {
  pred,
  s2,
  s4,
  s8,
  s16,
  s32,
  s64,
  u2,
  u4,
  u8,
  u16,
  u32,
  u64,
  f4e2m1fn,
  f8e3m4,
  f8e4m3,
  f8e4m3fn,
  f8e4m3b11fnuz,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0fnu,
  bf16,
  f16,
  f32,
  f64,
  c64,
  c128,
  token,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::token) + 1;

[[nodiscard]] std::string_view name(DType t);  // "pred", "s32", "bf16", …: how XLA prints it
[[nodiscard]] std::string_view mlir(
    DType t);  // "i1", "i32", "ui8", "f32", "complex<f32>", …: how StableHLO spells it
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view text);
[[nodiscard]] std::optional<DType> dtype_from_mlir(std::string_view text);

[[nodiscard]] int bits(
    DType t);  // in host memory: a pred is 8, a 4-bit number stands in a byte of its own (8)
[[nodiscard]] constexpr bool is_float(DType t) { return t >= DType::f4e2m1fn && t <= DType::f64; }
[[nodiscard]] constexpr bool is_signed_int(DType t) { return t >= DType::s2 && t <= DType::s64; }
[[nodiscard]] constexpr bool is_unsigned_int(DType t) { return t >= DType::u2 && t <= DType::u64; }
[[nodiscard]] constexpr bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }
[[nodiscard]] constexpr bool is_complex(DType t) { return t == DType::c64 || t == DType::c128; }

struct Shape {
  DType dtype = DType::f32;
  std::vector<int64_t> dims = {};

  [[nodiscard]] int rank() const { return static_cast<int>(dims.size()); }
  [[nodiscard]] int64_t elements() const;  // throws ArgumentError where the product overflows
  [[nodiscard]] int64_t bytes() const;     // in host memory, dense
  [[nodiscard]] std::string str() const;   // f32[2,3]
  [[nodiscard]] std::string mlir() const;  // tensor<2x3xf32>
  bool operator==(const Shape&) const = default;
};
[[nodiscard]] std::optional<Shape> shape_from_mlir(std::string_view text);  // static tensor types alone

// The one lasting copy of a shape: equal shapes give the same pointer, valid for the life of the process.
// Thread-safe. A program has few distinct shapes; they are never freed.
[[nodiscard]] const Shape* intern(const Shape& shape);

[[nodiscard]] std::string dims_str(std::span<const int64_t> dims);  // [2,3]

}  // namespace tpubridge
