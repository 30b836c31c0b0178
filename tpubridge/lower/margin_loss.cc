// Losses of margins between classes.
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/loss_reduction.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

// Inputs of [classes] are a batch of one.
Value batched(Value x) { return x.rank() < 2 ? reshaped(x, {1, x.elements()}) : x; }

Value reduced(const Context& c, Value each, int64_t reduction) {
  if (reduction == none) return reshaped(each, c.out().dims);
  const Value s = sum(each, {0});
  return reduction == mean ? hlo::divide(s, like(s, static_cast<double>(each.elements()))) : s;
}
// The gradient of each sample's loss, [n].
Value unreduced(Value g, int64_t n, int64_t reduction) {
  g = g.rank() == 0 ? expand(g, {n}) : reshaped(g, {n});
  return reduction == mean ? hlo::divide(g, like(g, static_cast<double>(n))) : g;
}

// What is above 0; torch takes NaN for nothing.
Value what_is_missing(Value z) {
  return hlo::select(hlo::compare(z, like(z, 0), Direction::gt), z, like(z, 0));
}

// For each wrong class, how far it is from being beaten by the margin; 0 for the right one.
struct MultiMargin {
  Value hot;     // the right class, pred [n, C]
  Value short_;  // max(0, margin − x[right] + x[class]), [n, C]
  Value scale;   // weight of the right class / C, [n, C]
};
MultiMargin multi_margin(const Context& c, size_t self, DType t) {
  const Value x = batched(c.in(self, t)), y = reshaped(c.in(self + 1, DType::s64), {x.dim(0)});
  const Value cls = hlo::iota(c.b, Shape{DType::s64, x.dims()}, 1);
  MultiMargin m;
  m.hot = hlo::compare(cls, spread(y, x.dims(), {0}), Direction::eq);
  auto of_right = [&](Value v) { return spread(sum(hlo::select(m.hot, v, like(v, 0)), {1}), x.dims(), {0}); };
  const Value z = hlo::add(hlo::subtract(x, of_right(x)), like(x, c.number(self + 3)));
  m.short_ = hlo::select(m.hot, like(x, 0), what_is_missing(z));
  const Value weight = c.has(self + 4) ? spread(c.in(self + 4, t), x.dims(), {1}) : like(x, 1);
  m.scale = hlo::divide(of_right(weight), like(x, static_cast<double>(x.dim(1))));
  return m;
}

// self, target, p, margin, weight?, reduction
void multi_margin_forward(Context& c) {
  const MultiMargin m = multi_margin(c, 0, opmath_of(c.out().dtype));
  const Value each = c.number(2) == 1 ? m.short_ : hlo::multiply(m.short_, m.short_);
  c.result(reduced(c, sum(hlo::multiply(each, m.scale), {1}), c.integer(5)));
}
// grad_output, self, target, p, margin, weight?, reduction
void multi_margin_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const MultiMargin m = multi_margin(c, 1, t);
  const Dims dims = m.scale.dims();
  const Value missed = hlo::compare(m.short_, like(m.short_, 0), Direction::gt);
  const Value slope = c.number(3) == 1 ? to(missed, t) : hlo::multiply(m.short_, like(m.short_, 2));
  const Value g = spread(unreduced(c.in(0, t), dims[0], c.integer(6)), dims, {0});
  const Value wrong = hlo::multiply(hlo::multiply(slope, m.scale), g);
  const Value right = hlo::negate(spread(sum(wrong, {1}), dims, {0}));
  c.result(reshaped(hlo::select(m.hot, right, wrong), c.out().dims));
}

// Each right class against each wrong one. Targets end at the first that is negative.
struct Multilabel {
  Value right;   // how often a class is a target, [n, C]
  Value short_;  // max(0, 1 − x[a] + x[b]) for right a and wrong b, [n, a, b]
  Value pairs;   // how often the pair counts
};
Multilabel multilabel(const Context& c, size_t self, DType t) {
  const Value x = batched(c.in(self, t)), y = batched(c.in(self + 1, DType::s64));
  const int64_t n = x.dim(0), k = x.dim(1);
  const Dims cube{n, k, k};
  const Value place = hlo::iota(c.b, Shape{DType::s64, y.dims()}, 1);
  const Value end = min(hlo::select(hlo::compare(y, like(y, 0), Direction::lt), place, like(place, k)), {1});
  const Value valid = hlo::compare(place, spread(end, y.dims(), {0}), Direction::lt);
  const Value named =
      hlo::compare(spread(y, cube, {0, 1}), hlo::iota(c.b, Shape{DType::s64, cube}, 2), Direction::eq);
  Multilabel m;
  m.right = sum(to(hlo::and_(named, spread(valid, cube, {0, 1})), t), {1});
  const Value wrong = to(hlo::compare(m.right, like(m.right, 0), Direction::eq), t);
  m.pairs = hlo::multiply(spread(m.right, cube, {0, 1}), spread(wrong, cube, {0, 2}));
  const Value z = hlo::subtract(spread(x, cube, {0, 2}), spread(x, cube, {0, 1}));
  m.short_ = what_is_missing(hlo::add(z, like(z, 1)));
  return m;
}

// self, target, reduction → loss, is_target
void multilabel_forward(Context& c) {
  const Multilabel m = multilabel(c, 0, opmath_of(c.out().dtype));
  const Value s = sum(hlo::multiply(m.short_, m.pairs), {1, 2});
  c.result(reduced(c, hlo::divide(s, like(s, static_cast<double>(m.right.dim(1)))), c.integer(2)), 0);
  c.result(
      reshaped(to(hlo::compare(m.right, like(m.right, 0), Direction::gt), c.out(1).dtype), c.out(1).dims), 1);
}
// grad_output, self, target, reduction, is_target
void multilabel_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Multilabel m = multilabel(c, 1, t);
  const Value missed = to(hlo::compare(m.short_, like(m.short_, 0), Direction::gt), t);
  const Value pairs = hlo::multiply(missed, m.pairs);
  const Value dx = hlo::subtract(sum(pairs, {1}), sum(pairs, {2}));
  const Value g = unreduced(c.in(0, t), dx.dim(0), c.integer(3));
  const Value share = hlo::divide(g, like(g, static_cast<double>(dx.dim(1))));
  c.result(reshaped(hlo::multiply(dx, spread(share, dx.dims(), {0})), c.out().dims));
}

}  // namespace

std::span<const Row> margin_loss_rows() {
  static const Row rows[] = {
      {{"multi_margin_loss"},
       multi_margin_forward,
       bake,
       [](const Call& c) -> std::vector<Shape> {
         const Dims &x = c.dims(0), &y = c.dims(1);
         const int64_t n = x.size() == 2 ? x[0] : 1;
         const double p = c.number(2);
         if (x.size() > 2 || product(x) == 0 || product(y) != n || y.size() > 1) return {};
         if (c.shape(1).dtype != DType::s64 || (p != 1 && p != 2)) return {};
         return {Shape{c.shape(0).dtype, c.integer(5) == none ? y : Dims{}}};
       }},
      {{"multi_margin_loss_backward"}, multi_margin_backward, bake, like_second},
      {{"multilabel_margin_loss_forward"},
       multilabel_forward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const Dims& x = c.dims(0);
         if (x.empty() || x.size() > 2 || product(x) == 0 || c.dims(1) != x) return {};
         const bool each = c.integer(2) == none && x.size() == 2;
         const DType t = c.shape(0).dtype;
         return {Shape{t, each ? Dims{x[0]} : Dims{}}, Shape{t, x}};
       }},
      {{"multilabel_margin_loss_backward"}, multilabel_backward, plain, like_second},
  };
  return rows;
}

}  // namespace tpubridge::lower
