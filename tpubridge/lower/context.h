// What a row sees of the op that it lowers: arguments by their place in torch's schema, operands as values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tpubridge/hlo/builder.h"
#include "tpubridge/hlo/constant.h"
#include "tpubridge/hlo/elementwise.h"
#include "tpubridge/hlo/reduction.h"
#include "tpubridge/hlo/shape_ops.h"
#include "tpubridge/lower/platform.h"
#include "tpubridge/lower/table.h"
#include "tpubridge/trace/node.h"

namespace tpubridge::lower {

using hlo::Value;
using Dims = std::vector<int64_t>;

// The arguments of a call and the shapes of its operands; enough to say the shapes of its results.
class Call {
 public:
  Call(const std::vector<trace::Arg>& args, std::vector<const Shape*> operands)
      : args_(args), operands_(std::move(operands)) {}

  [[nodiscard]] bool has(size_t arg) const;            // false for None and undefined tensors
  [[nodiscard]] const Shape& shape(size_t arg) const;  // of a constant in the place of a tensor: a scalar
  [[nodiscard]] const Dims& dims(size_t arg) const { return shape(arg).dims; }
  [[nodiscard]] std::vector<const Shape*> shapes(
      size_t arg) const;  // of a list of tensors; null where undefined
  [[nodiscard]] int64_t integer(size_t arg) const;
  [[nodiscard]] int64_t integer_or(size_t arg, int64_t fallback) const {
    return has(arg) ? integer(arg) : fallback;
  }
  [[nodiscard]] double number(size_t arg) const;  // a constant of any kind
  [[nodiscard]] bool flag(size_t arg) const;
  [[nodiscard]] bool flag_or(size_t arg, bool fallback) const { return has(arg) ? flag(arg) : fallback; }
  [[nodiscard]] Dims integers(size_t arg) const;  // empty where absent
  [[nodiscard]] std::string text(size_t arg) const;
  [[nodiscard]] std::optional<DType> dtype(size_t arg) const;
  [[nodiscard]] bool is_tensor(size_t arg) const;  // or a number that is an operand
  [[nodiscard]] bool is_list(size_t arg) const;    // of such
  [[nodiscard]] size_t arg_count() const { return args_.size(); }
  [[nodiscard]] size_t operand_count() const { return operands_.size(); }

 protected:
  [[nodiscard]] int ref(size_t arg) const;
  const std::vector<trace::Arg>& args_;
  std::vector<const Shape*> operands_;
};

class Context : public Call {
 public:
  // `args` are the node's, or have operands where it has constants.
  Context(hlo::Builder& builder, const trace::Node& node, const std::vector<trace::Arg>& args,
          std::vector<Value> operands, std::vector<const Shape*> shapes, Platform target = Platform::any)
      : Call(args, std::move(shapes)),
        b(builder),
        platform(target),
        node_(node),
        operands_values_(std::move(operands)),
        results_(node.shapes().size()) {}

  hlo::Builder& b;
  const Platform platform;
  bool overlapping = false;  // it writes into a part of what it reads elsewhere too (overlap.h)

  [[nodiscard]] Value in(size_t arg) const;                 // the operand, in its own type
  [[nodiscard]] Value in(size_t arg, DType dtype) const;    // converted; where it is a constant scalar, that
  [[nodiscard]] std::vector<Value> list(size_t arg) const;  // empty values where undefined
  [[nodiscard]] Value operand(size_t i) const { return operands_values_[i]; }

  [[nodiscard]] const Shape& out(size_t i = 0) const { return node_.shapes()[i]; }
  [[nodiscard]] DType common() const { return node_.common(); }
  // The type to compute in: torch's common type, or the output's where integers give a float.
  [[nodiscard]] DType compute() const;
  // The same, with bf16 and f16 widened to f32: what torch computes in inside one op.
  [[nodiscard]] DType opmath() const;

  // Sets a result; it is converted to the type the trace promised, its dimensions must be the promised ones.
  void result(Value v, size_t i = 0);
  [[nodiscard]] const std::vector<Value>& results() const { return results_; }

 private:
  const trace::Node& node_;
  std::vector<Value> operands_values_, results_;
};

[[nodiscard]] DType opmath_of(DType t);  // bf16, f16, f8 → f32; others themselves

// Small pieces that rows share.
[[nodiscard]] Value to(Value v, DType dtype);  // torch's conversion: floats to integers cut, to bool ≠ 0
[[nodiscard]] Value expand(Value v, const Dims& dims);  // numpy's broadcasting of the trailing dimensions
[[nodiscard]] Value fill(hlo::Builder& b, DType dtype, const Dims& dims, hlo::Scalar v);
[[nodiscard]] Value like(Value v, hlo::Scalar s);          // a constant of v's shape
[[nodiscard]] Value in_range(Value places, int64_t size);  // pred: 0 ≤ place < size
[[nodiscard]] Value mul(Value a, Value b);
[[nodiscard]] Value scaled(Value v, double by);
[[nodiscard]] Value wide(const Context& c,
                         size_t arg = 0);  // an operand, in the type that the result is computed in
[[nodiscard]] Value reshaped(Value v, const Dims& dims);     // nothing where the dimensions are equal
[[nodiscard]] Value transposed(Value v, const Dims& order);  // nothing where the order is 0, 1, 2, …
[[nodiscard]] Value sum(Value v, const Dims& axes);          // axes go away
[[nodiscard]] Value max(Value v, const Dims& axes);
[[nodiscard]] Value min(Value v, const Dims& axes);
[[nodiscard]] Value conjugate(Value v);                    // of real numbers themselves
[[nodiscard]] DType real_of(DType t);                      // c64 → f32, c128 → f64, others themselves
[[nodiscard]] Value at_least_1d(Value v);                  // scalars as one element
[[nodiscard]] Value wrapped_index(Value i, int64_t size);  // negative places count from the end
[[nodiscard]] Value running(Value v, int64_t axis, hlo::Reducer r);  // cumulative sums (add) or products
// The same of any joining that may be done in any grouping; `neutral` is a scalar that changes nothing.
[[nodiscard]] Value running(Value v, int64_t axis, Value neutral, Value (*join)(Value, Value));
// Whole slices of `x` at places along `axis`; `index` may have any rank, its dimensions stand where the axis
// stood.
[[nodiscard]] Value take(Value x, Value index, int64_t axis);
// The reducer of an extreme with its place: v is (value, place, value, place). NaN wins, then the first
// place.
[[nodiscard]] hlo::Values better_of(std::span<const Value> v, bool largest);
[[nodiscard]] Value spread(Value v, const Dims& dims, const Dims& axes);  // dimension i of v becomes axes[i]
[[nodiscard]] Dims wrapped(Dims axes, int64_t rank, bool empty_is_all = false);  // negative axes, sorted
[[nodiscard]] bool are_axes(const Dims& axes, int64_t rank);  // that are there, each named once
[[nodiscard]] Dims others(const Dims& axes, int64_t rank);    // the axes not in the list
[[nodiscard]] int64_t product(const Dims& dims);
// Dimensions that say: no tensor at all, a gradient that nobody asked for. The row still gives a value, of no
// elements.
[[nodiscard]] const Dims& absent_dims();
[[nodiscard]] Shape wanted_or_absent(bool wanted, DType t, const Dims& dims);
// Output shapes that many rows share, for ops without a Meta kernel.
[[nodiscard]] std::vector<Shape> like_first(const Call& c);       // of argument 0
[[nodiscard]] std::vector<Shape> like_second(const Call& c);      // of argument 1
[[nodiscard]] std::vector<Shape> mask_like_first(const Call& c);  // pred, of argument 0's dimensions
[[nodiscard]] std::vector<Shape> mask_of_both(const Call& c);     // pred, of arguments 0 and 1 broadcast

[[nodiscard]] Dims broadcast(
    std::initializer_list<const Dims*> all);  // torch's message where they do not fit

}  // namespace tpubridge::lower
