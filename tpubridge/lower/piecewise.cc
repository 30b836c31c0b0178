// Activations of straight pieces, and gates: what is let through, and how much of it.
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

Value piece_in(const Context& c, size_t arg) {
  return expand(c.in(arg, opmath_of(c.out().dtype)), c.out().dims);
}
Value above(Value x, Value bound) { return hlo::compare(x, bound, Direction::gt); }
Value below(Value x, Value bound) { return hlo::compare(x, bound, Direction::lt); }
Value none_of(Value x) { return like(x, 0); }

// self, threshold, value
void threshold(Context& c) {
  const Value x = piece_in(c, 0);
  c.result(hlo::select(hlo::compare(x, piece_in(c, 1), Direction::le), piece_in(c, 2), x));
}

// Within [-λ, λ].
Value is_small(Value x, Value lambda) {
  return hlo::and_(hlo::compare(x, hlo::negate(lambda), Direction::ge),
                   hlo::compare(x, lambda, Direction::le));
}
// self, lambd
void hardshrink(Context& c) {
  const Value x = piece_in(c, 0);
  c.result(hlo::select(is_small(x, piece_in(c, 1)), none_of(x), x));
}
void softshrink(Context& c) {
  const Value x = piece_in(c, 0), lambda = piece_in(c, 1);
  const Value low = hlo::select(below(x, hlo::negate(lambda)), hlo::add(x, lambda), scaled(x, 0));
  c.result(hlo::select(above(x, lambda), hlo::subtract(x, lambda), low));
}
// grad, self, lambd: of both.
void shrink_backward(Context& c) {
  const Value g = piece_in(c, 0);
  c.result(hlo::select(is_small(piece_in(c, 1), piece_in(c, 2)), none_of(g), g));
}

// self, weight
void prelu(Context& c) {
  const Value x = piece_in(c, 0);
  c.result(hlo::select(above(x, none_of(x)), x, hlo::multiply(x, piece_in(c, 1))));
}
// grad, self, weight → of self, of weight (which torch sums)
void prelu_backward(Context& c) {
  const Value g = piece_in(c, 0), x = piece_in(c, 1), positive = above(x, none_of(x));
  c.result(hlo::select(positive, g, hlo::multiply(g, piece_in(c, 2))), 0);
  c.result(hlo::select(positive, none_of(x), hlo::multiply(g, x)), 1);
}

struct Halves {
  Value first, second;
  int64_t axis;
};
Halves halves(const Context& c, size_t self, size_t dim) {
  const Value x = c.in(self, opmath_of(c.out().dtype));
  const int64_t axis = wrapped({c.integer(dim)}, x.rank())[0];
  Dims from(static_cast<size_t>(x.rank()), 0), middle = x.dims();
  middle[static_cast<size_t>(axis)] /= 2;
  const Value first = hlo::slice(x, from, middle);
  from[static_cast<size_t>(axis)] = middle[static_cast<size_t>(axis)];
  return {first, hlo::slice(x, from, x.dims()), axis};
}
// self, dim
void glu(Context& c) {
  const Halves x = halves(c, 0, 1);
  c.result(hlo::multiply(x.first, hlo::logistic(x.second)));
}
// grad, self, dim
void glu_backward(Context& c) {
  const Halves x = halves(c, 1, 2);
  const Value g = c.in(0, x.first.dtype()), s = hlo::logistic(x.second), first = hlo::multiply(g, s);
  const Value slope = hlo::multiply(hlo::subtract(like(s, 1), s), x.first);
  c.result(hlo::concatenate({first, hlo::multiply(first, slope)}, x.axis));
}

}  // namespace

std::span<const Row> piecewise_rows() {
  static const Row rows[] = {
      {{"threshold"}, threshold, fitting},
      {{"hardshrink"}, hardshrink},
      {{"hardshrink_backward"}, shrink_backward},
      {{"softshrink"}, softshrink},
      {{"softshrink_backward"}, shrink_backward},
      {{"_prelu_kernel"}, prelu, plain, like_first},
      {{"_prelu_kernel_backward"},
       prelu_backward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         return {c.shape(1), c.shape(1)};
       }},
      {{"glu"}, glu},
      {{"glu_backward"}, glu_backward, plain, like_second},
  };
  return rows;
}

}  // namespace tpubridge::lower
