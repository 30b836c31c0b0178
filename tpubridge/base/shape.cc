#include "tpubridge/base/shape.h"

#include <array>
#include <charconv>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

struct Row {
  std::string_view name, mlir;
  int bits;
};
constexpr std::array<Row, kDTypeCount> kRows = {{
    {"pred", "i1", 8},
    {"s2", "i2", 8},
    {"s4", "i4", 8},
    {"s8", "i8", 8},
    {"s16", "i16", 16},
    {"s32", "i32", 32},
    {"s64", "i64", 64},
    {"u2", "ui2", 8},
    {"u4", "ui4", 8},
    {"u8", "ui8", 8},
    {"u16", "ui16", 16},
    {"u32", "ui32", 32},
    {"u64", "ui64", 64},
    {"f4e2m1fn", "f4E2M1FN", 8},
    {"f8e3m4", "f8E3M4", 8},
    {"f8e4m3", "f8E4M3", 8},
    {"f8e4m3fn", "f8E4M3FN", 8},
    {"f8e4m3b11fnuz", "f8E4M3B11FNUZ", 8},
    {"f8e4m3fnuz", "f8E4M3FNUZ", 8},
    {"f8e5m2", "f8E5M2", 8},
    {"f8e5m2fnuz", "f8E5M2FNUZ", 8},
    {"f8e8m0fnu", "f8E8M0FNU", 8},
    {"bf16", "bf16", 16},
    {"f16", "f16", 16},
    {"f32", "f32", 32},
    {"f64", "f64", 64},
    {"c64", "complex<f32>", 64},
    {"c128", "complex<f64>", 128},
    {"token", "!stablehlo.token", 0},
}};
const Row& row(DType t) { return kRows[static_cast<size_t>(t)]; }

std::optional<DType> find(std::string_view text, std::string_view Row::*field) {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].*field == text) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace

std::string_view name(DType t) { return row(t).name; }
std::string_view mlir(DType t) { return row(t).mlir; }
int bits(DType t) { return row(t).bits; }
std::optional<DType> dtype_from_name(std::string_view text) { return find(text, &Row::name); }
std::optional<DType> dtype_from_mlir(std::string_view text) { return find(text, &Row::mlir); }

int64_t Shape::elements() const {
  int64_t n = 1;
  for (const int64_t d : dims)
    if (d < 0 || __builtin_mul_overflow(n, d, &n))
      throw ArgumentError("the shape " + str() + " has no countable size");
  return n;
}

int64_t Shape::bytes() const {
  int64_t n = 0;
  if (__builtin_mul_overflow(elements(), static_cast<int64_t>(bits(dtype) / 8), &n))
    throw ArgumentError("the shape " + str() + " has no countable size");
  return n;
}

std::string dims_str(std::span<const int64_t> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? "," : "") + std::to_string(dims[i]);
  return out + "]";
}

std::string Shape::str() const { return std::string(name(dtype)) + dims_str(dims); }

std::string Shape::mlir() const {
  if (dtype == DType::token) return std::string(tpubridge::mlir(dtype));
  std::string out = "tensor<";
  for (const int64_t d : dims) out += std::to_string(d) + "x";
  return out.append(tpubridge::mlir(dtype)) + ">";
}

const Shape* intern(const Shape& shape) {
  struct Hash {
    size_t operator()(const Shape& s) const {
      size_t h = static_cast<size_t>(s.dtype);
      for (const int64_t d : s.dims) h = (h ^ static_cast<size_t>(d)) * 0x9E3779B97F4A7C15u;
      return h;
    }
  };
  static std::shared_mutex mutex;
  static auto& shapes = *new std::unordered_set<Shape, Hash>();  // outlives every static that holds a buffer
  {
    const std::shared_lock lock(mutex);
    if (const auto found = shapes.find(shape); found != shapes.end()) return &*found;
  }
  const std::lock_guard lock(mutex);
  return &*shapes.insert(shape).first;
}

std::optional<Shape> shape_from_mlir(std::string_view text) {
  if (!text.starts_with("tensor<") || !text.ends_with('>')) return std::nullopt;
  text = text.substr(7, text.size() - 8);
  if (const auto comma = text.find(','); comma != text.npos) text = text.substr(0, comma);  // an encoding
  Shape out;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    int64_t d = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), d);
    const auto used = static_cast<size_t>(end - text.data());
    if (error != std::errc() || used >= text.size() || text[used] != 'x') return std::nullopt;
    out.dims.push_back(d);
    text.remove_prefix(used + 1);
  }
  const auto t = dtype_from_mlir(text);
  if (!t) return std::nullopt;
  out.dtype = *t;
  return out;
}

}  // namespace tpubridge
