// A typed value of a program: a handle of 24 bytes, good for as long as its Builder, inside the region that
// made it. Operations on values are free functions (elementwise.h, shape_ops.h, …).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tpubridge/base/shape.h"

namespace tpubridge::hlo {

class Builder;

// One object per distinct type of a program, so that equal types are equal pointers.
struct Type {
  Shape shape;
  std::string text;  // tensor<2x3xf32>
};

class Value {
 public:
  Value() = default;

  [[nodiscard]] const Type* type() const { return type_ ? type_ : empty(); }
  [[nodiscard]] const Shape& shape() const { return type()->shape; }
  [[nodiscard]] DType dtype() const { return shape().dtype; }
  [[nodiscard]] const std::vector<int64_t>& dims() const { return shape().dims; }
  [[nodiscard]] int64_t dim(int64_t i) const { return shape().dims.at(static_cast<size_t>(i)); }
  [[nodiscard]] int64_t rank() const { return static_cast<int64_t>(shape().dims.size()); }
  [[nodiscard]] int64_t elements() const { return shape().elements(); }
  [[nodiscard]] Builder& builder() const { return type_ ? *builder_ : (empty(), *builder_); }
  [[nodiscard]] uint32_t id() const { return id_; }  // %id in the text

  explicit operator bool() const { return type_ != nullptr; }
  bool operator==(const Value&) const = default;  // the same value of the same program

 private:
  friend class Builder;
  friend class Op;
  Value(Builder* builder, const Type* type, uint32_t id, uint32_t scope)
      : builder_(builder), type_(type), id_(id), scope_(scope) {}
  [[noreturn]] static const Type* empty();  // throws ProgramError

  Builder* builder_ = nullptr;
  const Type* type_ = nullptr;
  uint32_t id_ = 0, scope_ = 0;
};

using Values = std::vector<Value>;
// The body of a function or of a region of an op: gets the region's arguments, gives its results.
using Body = std::function<Values(std::span<const Value>)>;

}  // namespace tpubridge::hlo
