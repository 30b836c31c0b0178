#include "tools/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "tpubridge/base/errors.h"

namespace tpubridge::tools {
namespace {

// What the bit patterns beyond the finite numbers mean.
enum class Specials { ieee, nan_ones, nan_negative_zero, none };
struct Format {
  int exponent, mantissa, bias;  // bits, bits, offset
  Specials specials;
  bool sign = true;
};

Format format(DType t) {
  switch (t) {
    case DType::f4e2m1fn:
      return {2, 1, 1, Specials::none};
    case DType::f8e3m4:
      return {3, 4, 3, Specials::ieee};
    case DType::f8e4m3:
      return {4, 3, 7, Specials::ieee};
    case DType::f8e4m3fn:
      return {4, 3, 7, Specials::nan_ones};
    case DType::f8e4m3b11fnuz:
      return {4, 3, 11, Specials::nan_negative_zero};
    case DType::f8e4m3fnuz:
      return {4, 3, 8, Specials::nan_negative_zero};
    case DType::f8e5m2:
      return {5, 2, 15, Specials::ieee};
    case DType::f8e5m2fnuz:
      return {5, 2, 16, Specials::nan_negative_zero};
    case DType::f16:
      return {5, 10, 15, Specials::ieee};
    case DType::bf16:
      return {8, 7, 127, Specials::ieee};
    default:
      throw ArgumentError("no such floating-point format: " + std::string(name(t)));
  }
}

double decode(const Format& f, uint32_t bits) {
  const uint32_t mantissa = bits & ((1U << f.mantissa) - 1);
  const uint32_t exponent = bits >> f.mantissa & ((1U << f.exponent) - 1);
  const bool negative = bits >> (f.mantissa + f.exponent) & 1;
  const bool top = exponent == (1U << f.exponent) - 1;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (f.specials == Specials::ieee && top)
    return mantissa != 0 ? nan : (negative ? -1 : 1) * std::numeric_limits<double>::infinity();
  if (f.specials == Specials::nan_ones && top && mantissa == (1U << f.mantissa) - 1) return nan;
  if (f.specials == Specials::nan_negative_zero && negative && exponent == 0 && mantissa == 0) return nan;
  const double value = exponent == 0 ? std::ldexp(mantissa, 1 - f.bias - f.mantissa)
                                     : std::ldexp((1U << f.mantissa) + mantissa,
                                                  static_cast<int>(exponent) - f.bias - f.mantissa);
  return negative ? -value : value;
}

// Rounds to nearest, ties to even; what is too large becomes the largest finite number.
uint32_t encode(const Format& f, double value) {
  const uint32_t largest = (1U << (f.exponent + f.mantissa)) - 1 -
                           (f.specials == Specials::ieee       ? 1U << f.mantissa
                            : f.specials == Specials::nan_ones ? 1U
                                                               : 0U);
  const double magnitude = std::min(std::abs(value), decode(f, largest));
  if (magnitude == 0) return 0;
  int power = 0;
  std::frexp(magnitude, &power);
  const int exponent =
      std::max(power - 1, 1 - f.bias);  // the unit in the last place is 2^(exponent - mantissa)
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent)));
  // A carry out of the mantissa moves into the exponent by itself; a subnormal has the exponent field 0.
  const uint32_t base = static_cast<uint32_t>(exponent + f.bias) << f.mantissa;
  const uint32_t bits = std::min(base + steps - (1U << f.mantissa), largest);
  return value < 0 && bits != 0 ? bits | 1U << (f.exponent + f.mantissa) : bits;
}

template <class T>
T load(const std::byte* at) {
  T out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

template <class T>
void save(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof value);
}

int small_int_bits(DType t) {
  return t == DType::s2 || t == DType::u2 ? 2 : t == DType::s4 || t == DType::u4 ? 4 : bits(t);
}

// A counter-based generator: the n-th draw of a stream depends on nothing but seed, stream and n.
uint64_t draw(uint64_t seed, uint64_t stream, uint64_t n) {
  uint64_t x = seed * 0x9E3779B97F4A7C15U + stream * 0xD1B54A32D192ED03U + n;
  for (int round = 0; round < 2; ++round) {
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
    x = (x ^ x >> 27) * 0x94D049BB133111EBU;
    x ^= x >> 31;
  }
  return x;
}

double normal(uint64_t seed, uint64_t stream, uint64_t n) {
  const auto unit = [](uint64_t x) { return (static_cast<double>(x >> 11) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(unit(draw(seed, stream, 2 * n))));
  return radius * std::cos(2 * std::numbers::pi * unit(draw(seed, stream, 2 * n + 1)));
}

double magnitude(const Element& e) {
  return std::visit(
      [](auto v) -> double {
        if constexpr (std::is_same_v<decltype(v), std::complex<double>>)
          return std::abs(v);
        else
          return static_cast<double>(v);
      },
      e);
}

}  // namespace

Element read_element(DType t, const std::byte* at) {
  switch (t) {
    case DType::pred:
      return load<uint8_t>(at) != 0;
    case DType::s2:
    case DType::s4: {  // the upper bits of the byte are not ours
      const int unused = 8 - small_int_bits(t);
      return int64_t{static_cast<int8_t>(load<uint8_t>(at) << unused) >> unused};
    }
    case DType::s8:
      return int64_t{load<int8_t>(at)};
    case DType::s16:
      return int64_t{load<int16_t>(at)};
    case DType::s32:
      return int64_t{load<int32_t>(at)};
    case DType::s64:
      return load<int64_t>(at);
    case DType::u2:
    case DType::u4:
      return uint64_t{load<uint8_t>(at)} & ((1U << small_int_bits(t)) - 1);
    case DType::u8:
      return uint64_t{load<uint8_t>(at)};
    case DType::u16:
      return uint64_t{load<uint16_t>(at)};
    case DType::u32:
      return uint64_t{load<uint32_t>(at)};
    case DType::u64:
      return load<uint64_t>(at);
    case DType::f32:
      return double{load<float>(at)};
    case DType::f64:
      return load<double>(at);
    case DType::bf16:
      return double{std::bit_cast<float>(uint32_t{load<uint16_t>(at)} << 16)};
    case DType::f16:
      return decode(format(t), load<uint16_t>(at));
    case DType::f8e8m0fnu: {
      const int exponent = load<uint8_t>(at);
      return exponent == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, exponent - 127);
    }
    case DType::c64:
      return std::complex<double>(load<std::complex<float>>(at));
    case DType::c128:
      return load<std::complex<double>>(at);
    case DType::token:
      throw ArgumentError("a token has no elements");
    default:
      return decode(format(t), load<uint8_t>(at));
  }
}

void write_element(DType t, double value, std::byte* at) {
  switch (t) {
    case DType::pred:
      return save<uint8_t>(value != 0, at);
    case DType::s16:
      return save(static_cast<int16_t>(value), at);
    case DType::s32:
      return save(static_cast<int32_t>(value), at);
    case DType::s64:
      return save(static_cast<int64_t>(value), at);
    case DType::u16:
      return save(static_cast<uint16_t>(value), at);
    case DType::u32:
      return save(static_cast<uint32_t>(value), at);
    case DType::u64:
      return save(static_cast<uint64_t>(value), at);
    case DType::f32:
      return save(static_cast<float>(value), at);
    case DType::f64:
      return save(value, at);
    case DType::bf16:
    case DType::f16:
      return save(static_cast<uint16_t>(encode(format(t), value)), at);
    case DType::f8e8m0fnu: {
      const double power = value == 0 ? -127 : std::nearbyint(std::log2(std::abs(value)));
      return save(static_cast<uint8_t>(std::clamp(power + 127, 0.0, 254.0)), at);
    }
    case DType::c64:
    case DType::c128:
    case DType::token:
      throw ArgumentError(std::string(name(t)) + " is not a real number");
    default:
      return is_int(t) ? save(static_cast<uint8_t>(static_cast<int>(value)), at)
                       : save(static_cast<uint8_t>(encode(format(t), value)), at);
  }
}

std::string to_text(const Element& e) {
  if (const auto* b = std::get_if<bool>(&e)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&e)) return std::to_string(*i);
  if (const auto* u = std::get_if<uint64_t>(&e)) return std::to_string(*u);
  if (const auto* d = std::get_if<double>(&e)) return fmt::format("{:.6g}", *d);
  const auto z = std::get<std::complex<double>>(e);
  return fmt::format("{:.6g}{:+.6g}i", z.real(), z.imag());
}

nlohmann::ordered_json to_json(const Element& e) {
  if (const auto* z = std::get_if<std::complex<double>>(&e))
    return nlohmann::ordered_json::array({to_json(Element(z->real())), to_json(Element(z->imag()))});
  if (const auto* d = std::get_if<double>(&e); d && !std::isfinite(*d)) return nullptr;
  return std::visit(
      [](auto v) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<decltype(v), std::complex<double>>)
          return nullptr;
        else
          return v;
      },
      e);
}

Summary summarise(const HostTensor& tensor, size_t first) {
  Summary out;
  out.count = tensor.shape.elements();
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const std::byte* at = tensor.bytes().data();
  const int width = bits(tensor.shape.dtype) / 8;
  double sum = 0;
  for (int64_t i = 0; i < out.count; ++i, at += width) {
    const Element e = read_element(tensor.shape.dtype, at);
    if (out.first.size() < first) out.first.push_back(e);
    const double value = magnitude(e);
    if (std::isnan(value)) {
      ++out.nan;
      continue;
    }
    out.inf += std::isinf(value);
    sum += value;
    const bool real = !is_complex(tensor.shape.dtype);
    if (value <= low) low = value, out.min = real ? e : Element(value);
    if (value >= high) high = value, out.max = real ? e : Element(value);
  }
  out.mean = sum / static_cast<double>(out.count - out.nan);
  return out;
}

HostTensor random_tensor(std::string name, const Shape& shape, uint64_t seed, uint64_t index) {
  const DType t = shape.dtype;
  const int width = bits(t) / 8;
  const auto count = static_cast<uint64_t>(shape.elements());
  const auto data = aligned_bytes(static_cast<size_t>(shape.bytes()));
  // Signed 2-bit numbers end at 1, signed 4-bit ones at 7.
  const int limit_bits = small_int_bits(t) - (is_signed_int(t) ? 1 : 0);
  const uint64_t choices = t == DType::pred ? 2 : limit_bits < 4 ? uint64_t{1} << limit_bits : 10;
  std::byte* at = data.get();
  for (uint64_t i = 0; i < count; ++i, at += width) {
    if (t == DType::c64)
      save(std::complex<float>(
               std::complex<double>(normal(seed, index, 2 * i), normal(seed, index, 2 * i + 1))),
           at);
    else if (t == DType::c128)
      save(std::complex<double>(normal(seed, index, 2 * i), normal(seed, index, 2 * i + 1)), at);
    else if (is_float(t))
      write_element(t, normal(seed, index, i), at);
    else
      write_element(t, static_cast<double>(draw(seed, index, i) % choices), at);
  }
  return {std::move(name), shape, data};
}

}  // namespace tpubridge::tools
