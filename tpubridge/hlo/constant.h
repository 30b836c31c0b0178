// Constants: one number for all elements, or every element from memory.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "tpubridge/hlo/builder.h"
#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

// A number of any kind; it becomes one of the element type of the constant it is put in.
class Scalar {
 public:
  Scalar(bool v) : v_(v) {}  // NOLINT
  template <std::signed_integral T>
  Scalar(T v) : v_(static_cast<int64_t>(v)) {}  // NOLINT
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Scalar(T v) : v_(static_cast<uint64_t>(v)) {}  // NOLINT
  template <std::floating_point T>
  Scalar(T v) : v_(static_cast<double>(v)) {}  // NOLINT
  template <std::floating_point T>
  Scalar(std::complex<T> v) : v_(std::complex<double>(v)) {}  // NOLINT

  using Variant = std::variant<bool, int64_t, uint64_t, double, std::complex<double>>;
  [[nodiscard]] const Variant& variant() const { return v_; }

 private:
  Variant v_;
};

// Every element is `v`. Throws where the element type cannot hold it: 300 or 0.5 in s8, a complex number in
// f32, infinity in a type that has none. Floats are rounded to nearest.
[[nodiscard]] Value constant(Builder& b, const Type* type, Scalar v);
[[nodiscard]] inline Value constant(Builder& b, const Shape& shape, Scalar v) {
  return constant(b, b.type(shape), v);
}
[[nodiscard]] inline Value constant(Builder& b, DType dtype, Scalar v) {
  return constant(b, b.type(dtype, {}), v);
}

// The elements as they lie in memory, dense and in row-major order, as many bytes as Shape::bytes() says.
[[nodiscard]] Value dense(Builder& b, const Shape& shape, std::span<const std::byte> bytes);
template <class T>
[[nodiscard]] Value dense(Builder& b, const Shape& shape, std::span<const T> items) {
  return dense(b, shape, std::as_bytes(items));
}
// A vector of integers, for indices.
[[nodiscard]] Value dense(Builder& b, DType dtype, List<int64_t> items);

// 0, 1, 2, … along a dimension.
[[nodiscard]] Value iota(Builder& b, const Shape& shape, int64_t dim);

}  // namespace tpubridge::hlo
