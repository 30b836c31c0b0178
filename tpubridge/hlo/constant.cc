#include "tpubridge/hlo/constant.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/elementwise.h"
#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {
namespace {

constexpr std::string_view kConstant = "stablehlo.constant";

[[noreturn]] void cannot_hold(DType t, const std::string& number) {
  fail(kConstant, fmt::format("{} cannot hold {}", name(t), number));
}

template <class T>
std::string show(const T& v) {
  if constexpr (std::is_same_v<T, std::complex<double>>)
    return fmt::format("({}, {})", v.real(), v.imag());
  else
    return fmt::format("{}", v);
}

// The bit patterns of positive infinity (0: it has none) and of a NaN.
struct Specials {
  uint64_t infinity, nan;
};
Specials specials(DType t) {
  switch (t) {
    case DType::f8e3m4:
      return {0x70, 0x78};
    case DType::f8e4m3:
      return {0x78, 0x7C};
    case DType::f8e4m3fn:
      return {0, 0x7F};
    case DType::f8e4m3b11fnuz:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2fnuz:
      return {0, 0x80};
    case DType::f8e5m2:
      return {0x7C, 0x7E};
    case DType::f8e8m0fnu:
      return {0, 0xFF};
    case DType::bf16:
      return {0x7F80, 0x7FC0};
    case DType::f16:
      return {0x7C00, 0x7E00};
    case DType::f32:
      return {0x7F800000, 0x7FC00000};
    case DType::f64:
      return {0x7FF0000000000000, 0x7FF8000000000000};
    default:
      return {0, 0};
  }
}

void append_float(std::string& out, DType t, double v) {
  if (std::isnan(v) || std::isinf(v)) {
    const auto [infinity, nan] = specials(t);
    uint64_t pattern = std::isnan(v) ? nan : infinity;
    if (!pattern) cannot_hold(t, fmt::format("{}", v));
    if (std::isinf(v) && v < 0) pattern |= uint64_t{1} << (bits(t) - 1);
    out += fmt::format("0x{:0{}X}", pattern, bits(t) / 4);
    return;
  }
  if (t == DType::f8e8m0fnu && v <= 0) cannot_hold(t, fmt::format("{}", v));
  char buffer[40];
  const std::string_view text(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr - buffer);
  // MLIR wants a point in every float.
  const size_t e = std::min(text.find('e'), text.size());
  out.append(text.substr(0, e));
  if (text.find('.') == text.npos) out += ".0";
  out.append(text.substr(e));
}

void append_integer(std::string& out, DType t, const Scalar& v) {
  std::visit(
      [&](auto n) {
        using T = decltype(n);
        if constexpr (std::is_same_v<T, std::complex<double>>) {
          cannot_hold(t, show(n));
        } else if constexpr (std::is_same_v<T, double>) {
          if (!(std::trunc(n) == n && n >= -0x1p63 && n < 0x1p64)) cannot_hold(t, show(n));
          append_integer(out, t, n < 0 ? Scalar(static_cast<int64_t>(n)) : Scalar(static_cast<uint64_t>(n)));
        } else {
          const uint64_t high = std::get<uint64_t>(max_finite(t).variant());
          bool fits = false;
          if constexpr (std::is_same_v<T, int64_t>) {
            if (n < 0) {
              const auto low = lowest(t).variant();
              fits = is_signed_int(t) && n >= std::get<int64_t>(low);
            } else {
              fits = static_cast<uint64_t>(n) <= high;
            }
          } else {
            fits = static_cast<uint64_t>(n) <= high;
          }
          if (!fits) cannot_hold(t, show(n));
          out += fmt::format("{:d}", n);
        }
      },
      v.variant());
}

double to_double(DType t, const Scalar& v) {
  return std::visit(
      [&](auto n) -> double {
        if constexpr (std::is_same_v<decltype(n), std::complex<double>>)
          cannot_hold(t, show(n));
        else
          return static_cast<double>(n);
      },
      v.variant());
}

void append_scalar(std::string& out, DType t, const Scalar& v) {
  if (t == DType::pred) {
    const double n = to_double(t, v);
    if (n != 0 && n != 1) cannot_hold(t, fmt::format("{}", n));
    out += n == 1 ? "true" : "false";
  } else if (is_int(t)) {
    append_integer(out, t, v);
  } else if (is_float(t)) {
    append_float(out, t, to_double(t, v));
  } else if (is_complex(t)) {
    const auto* c = std::get_if<std::complex<double>>(&v.variant());
    append_float(out += '(', real_dtype(t), c ? c->real() : to_double(t, v));
    append_float(out += ", ", real_dtype(t), c ? c->imag() : 0.0);
    out += ')';
  } else {
    fail(kConstant, fmt::format("there is no constant of {}", name(t)));
  }
}

// `write` puts the elements into the text; where it throws, the op is taken back.
template <class F>
Value emit(Builder& b, const Type* type, F write) {
  Op op(kConstant, b, {});
  std::string& out = op.open("value");
  write(out += "dense<");
  out.append("> : ").append(type->text);
  return op.result(type);
}

void append_hex(std::string& out, std::span<const std::byte> bytes, uint8_t mask) {
  static constexpr char digits[] = "0123456789ABCDEF";
  out += "\"0x";
  const size_t at = out.size();
  out.resize(at + 2 * bytes.size() + 1, '"');
  char* p = out.data() + at;
  for (const std::byte byte : bytes) {
    const uint8_t v = std::to_integer<uint8_t>(byte) & mask;
    *p++ = digits[v >> 4];
    *p++ = digits[v & 15];
  }
}

}  // namespace

Value constant(Builder& b, const Type* type, Scalar v) {
  const DType t = type->shape.dtype;
  const Value result = emit(b, type, [&](std::string& out) {
    if (type->shape.elements() != 0 || t == DType::token) append_scalar(out, t, v);
  });
  return Op::defined(result, {.op = kConstant, .operands = {}, .scalar = v});
}

Value dense(Builder& b, const Shape& shape, std::span<const std::byte> bytes) {
  const Type* type = b.type(shape);
  if (shape.dtype == DType::token) fail(kConstant, "there is no constant of token");
  if (static_cast<int64_t>(bytes.size()) != shape.bytes())
    fail(kConstant, fmt::format("{} bytes given, {} needed", bytes.size(), shape.bytes()),
         {{"shape", shape.str()}});
  // How MLIR packs bits is not the same in every version: pred goes as bytes.
  if (shape.dtype == DType::pred) {
    return convert(dense(b, {DType::u8, shape.dims}, bytes), DType::pred);
  }
  const size_t item = static_cast<size_t>(bits(shape.dtype)) / 8;
  const bool splat =
      !bytes.empty() && std::memcmp(bytes.data(), bytes.data() + item, bytes.size() - item) == 0;
  if (splat) bytes = bytes.first(item);
  const int width = bit_width(shape.dtype);
  const auto mask = static_cast<uint8_t>(width < 8 ? (1 << width) - 1 : 0xFF);
  return emit(b, type, [&](std::string& out) {
    if (!bytes.empty()) append_hex(out, bytes, mask);
  });
}

Value dense(Builder& b, DType dtype, List<int64_t> items) {
  if (!is_int(dtype)) fail(kConstant, fmt::format("a list of integers as {}", name(dtype)));
  return emit(b, b.type(dtype, {static_cast<int64_t>(items.size())}), [&](std::string& out) {
    if (items.empty()) return;
    for (size_t i = 0; i < items.size(); ++i) append_integer(out.append(i ? ", " : "["), dtype, items[i]);
    out += ']';
  });
}

Value iota(Builder& b, const Shape& shape, int64_t dim) {
  static constexpr std::string_view op = "stablehlo.iota";
  if (shape.dtype == DType::pred || shape.dtype == DType::token)
    fail(op, "takes no pred and no token", {{"result", shape.str()}});
  check_dim(op, "the iota dimension", dim, shape.rank());
  return Op::defined(Op(op, b, {}).number("iota_dimension", dim, "i64").result(b.type(shape)),
                     {op, {}, {dim}});
}

}  // namespace tpubridge::hlo
