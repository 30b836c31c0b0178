// Loss functions that arrive as ops of their own.
#include "tpubridge/base/errors.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/loss_reduction.h"
#include "tpubridge/lower/one_hot.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

// One-hot of the targets along the class axis, as a mask: [n, classes] or [n, classes, d1, d2].
struct Nll {
  Value x;       // log-probabilities [n, C, …]
  Value hot;     // pred, x's shape; false everywhere for ignored targets
  Value target;  // [n, …]
  Value counts;  // pred, per target: neither ignored nor outside of the classes
  Value weight;  // per target, its class's weight; 0 where it does not count
};

// The log-probability of each target. On a GPU by a gather: adding up a whole row of zeros and one value is
// one more pass over the largest array of a language model.
Value picked(const Context& c, const Nll& r) {
  if (c.platform != Platform::cuda || r.x.rank() != 2) return sum(hlo::select(r.hot, r.x, like(r.x, 0)), {1});
  const Dims column{r.x.dim(0), 1};
  const Value row = hlo::iota(c.b, Shape{DType::s64, column}, 0);
  hlo::GatherDims d;
  d.collapsed_slice_dims = d.start_index_map = {0, 1};
  d.index_vector_dim = 1;
  const Value found = hlo::gather(r.x, hlo::concatenate({row, reshaped(r.target, column)}, 1), d, {1, 1});
  return hlo::select(r.counts, found, like(found, 0));
}

Nll nll(const Context& c, size_t self, size_t target, size_t weight, size_t ignore) {
  const DType t = opmath_of(c.shape(self).dtype);
  Nll r;
  r.x = c.in(self, t);
  Value y = c.in(target, DType::s64);
  if (r.x.rank() == 1) {
    r.x = reshaped(r.x, {1, r.x.dim(0)});
    y = reshaped(y, {1});
  }
  const Value kept = hlo::compare(y, like(y, c.integer(ignore)), Direction::ne);
  r.counts = hlo::and_(kept, in_range(y, r.x.dim(1)));
  r.hot = hot_mask(y, r.counts, r.x.dims(), 1);
  r.target = y;
  if (c.has(weight)) {
    const Value w = spread(c.in(weight, t), r.x.dims(), {1});
    r.weight = sum(hlo::select(r.hot, w, like(r.x, 0)), {1});
  } else {
    r.weight = to(r.counts, t);
  }
  return r;
}

// self, target, weight?, reduction, ignore_index → loss, total_weight
void nll_forward(Context& c) {
  const Nll r = nll(c, 0, 1, 2, 4);
  const Value each = hlo::negate(hlo::multiply(picked(c, r), r.weight));
  const Dims all = wrapped({}, each.rank(), true);
  const Value total = sum(r.weight, all);
  if (c.integer(3) == none)
    c.result(reshaped(each, c.out().dims), 0);
  else
    c.result(c.integer(3) == mean ? hlo::divide(sum(each, all), total) : sum(each, all), 0);
  c.result(c.integer(3) == none ? like(total, 0) : total, 1);
}

// grad_output, self, target, weight?, reduction, ignore_index, total_weight
void nll_backward(Context& c) {
  const Nll r = nll(c, 1, 2, 3, 5);
  const Dims rest = others({1}, r.x.rank());
  Value g = c.in(0, r.x.dtype());
  if (c.integer(4) == mean) g = hlo::divide(g, c.in(6, r.x.dtype()));
  g = g.rank() == 0 ? expand(g, r.weight.dims()) : reshaped(g, r.weight.dims());
  const Value each = hlo::negate(hlo::multiply(g, r.weight));
  c.result(reshaped(hlo::select(r.hot, spread(each, r.x.dims(), rest), like(r.x, 0)), c.out().dims));
}

Value reduced(Value each, int64_t reduction) {
  if (reduction == none) return each;
  const Value s = sum(each, wrapped({}, each.rank(), true));
  return reduction == mean ? hlo::divide(s, like(s, static_cast<double>(each.elements()))) : s;
}
// The gradient of one element's loss, from that of the reduced loss.
Value unreduced(Value g, Value x, int64_t reduction) {
  g = expand(g, x.dims());
  return reduction == mean ? hlo::divide(g, like(g, static_cast<double>(x.elements()))) : g;
}

Value difference(const Context& c, size_t a, size_t b, DType t) {
  const Dims dims = broadcast({&c.dims(a), &c.dims(b)});
  return hlo::subtract(expand(c.in(a, t), dims), expand(c.in(b, t), dims));
}

void mse(Context& c) {
  const Value d = difference(c, 0, 1, c.opmath());
  c.result(reduced(hlo::multiply(d, d), c.integer(2)));
}
void mse_backward(Context& c) {
  const Value d = difference(c, 1, 2, c.opmath());
  const Value g = unreduced(c.in(0, d.dtype()), d, c.integer(3));
  c.result(hlo::multiply(g, hlo::multiply(d, like(d, 2))));
}

// |d| < beta: d²/2beta, else |d| − beta/2. Huber's is beta times that, and d²/2 where beta is infinite.
template <bool Huber>
void smooth_l1(Context& c) {
  const double beta = c.number(3), scale = Huber ? beta : 1;
  if (!(beta >= 0)) throw ArgumentError("torch takes no negative beta");
  const Value d = difference(c, 0, 1, c.opmath()), a = hlo::abs(d);
  if (beta == 0) return c.result(reduced(a, c.integer(2)));
  const Value quadratic = hlo::multiply(hlo::multiply(d, d), like(d, Huber ? 0.5 : 0.5 / beta));
  const Value linear = hlo::multiply(hlo::subtract(a, like(a, 0.5 * beta)), like(a, scale));
  c.result(
      reduced(hlo::select(hlo::compare(a, like(a, beta), Direction::lt), quadratic, linear), c.integer(2)));
}
template <bool Huber>
void smooth_l1_backward(Context& c) {
  const double beta = c.number(4);
  const Value d = difference(c, 1, 2, c.opmath()), g = unreduced(c.in(0, d.dtype()), d, c.integer(3));
  Value slope = hlo::sign(d);
  if (Huber) slope = hlo::multiply(slope, like(d, beta));
  if (beta != 0)
    slope = hlo::select(hlo::compare(hlo::abs(d), like(d, beta), Direction::lt),
                        Huber ? d : hlo::divide(d, like(d, beta)), slope);
  c.result(hlo::multiply(g, slope));
}

// self, target, weight?, reduction
void bce(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value x = c.in(0, t), y = c.in(1, t), one = like(x, 1), low = like(x, -100);
  const Value positive = hlo::multiply(y, hlo::maximum(hlo::log(x), low));
  const Value negative =
      hlo::multiply(hlo::subtract(one, y), hlo::maximum(hlo::log_plus_one(hlo::negate(x)), low));
  Value each = hlo::negate(hlo::add(positive, negative));
  if (c.has(2)) each = hlo::multiply(each, expand(c.in(2, t), each.dims()));
  c.result(reduced(each, c.integer(3)));
}
// grad_output, self, target, weight?, reduction
void bce_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value x = c.in(1, t), y = c.in(2, t), g = unreduced(c.in(0, t), x, c.integer(4));
  const Value spread_of = hlo::maximum(hlo::multiply(hlo::subtract(like(x, 1), x), x), like(x, 1e-12));
  Value out = hlo::divide(hlo::multiply(g, hlo::subtract(x, y)), spread_of);
  if (c.has(3)) out = hlo::multiply(out, expand(c.in(3, t), out.dims()));
  c.result(out);
}

std::vector<Shape> bce_shape(const Call& c) {
  if (c.dims(0) != c.dims(1)) return {};
  return {Shape{c.shape(0).dtype, c.integer(3) == none ? c.dims(0) : Dims{}}};
}
std::vector<Shape> nll_shape(const Call& c) {
  const Dims &x = c.dims(0), &y = c.dims(1);
  const bool fits = x.size() == 1 ? y.size() <= 1 : x.size() == y.size() + 1 && x[0] == y[0];
  if (!fits || !is_int(c.shape(1).dtype)) return {};
  for (size_t i = 1; i < y.size(); ++i)
    if (x[i + 1] != y[i]) return {};
  const DType t = c.shape(0).dtype;
  return {Shape{t, c.integer(3) == none ? y : Dims{}}, Shape{t, {}}};
}

}  // namespace

std::span<const Row> loss_rows() {
  static const Row rows[] = {
      {{"nll_loss_forward"}, nll_forward, plain, nll_shape},
      {{"nll_loss_backward"}, nll_backward, plain, like_second},
      {{"nll_loss2d_forward"}, nll_forward, plain, nll_shape},
      {{"nll_loss2d_backward"}, nll_backward, plain, like_second},
      {{"mse_loss"}, mse, promote},
      {{"mse_loss_backward"},
       mse_backward,
       promote,
       [](const Call& c) -> std::vector<Shape> {
         return {Shape{DType::token, broadcast({&c.dims(1), &c.dims(2)})}};
       }},
      {{"smooth_l1_loss"}, smooth_l1<false>, promote},
      {{"smooth_l1_loss_backward"}, smooth_l1_backward<false>, promote, like_second},
      {{"huber_loss"},
       smooth_l1<true>,
       promote,
       [](const Call& c) -> std::vector<Shape> {
         if (!(c.number(3) > 0)) return {};
         return {Shape{DType::token, c.integer(2) == none ? broadcast({&c.dims(0), &c.dims(1)}) : Dims{}}};
       }},
      {{"huber_loss_backward"}, smooth_l1_backward<true>, promote | composite, like_second},
      {{"binary_cross_entropy"}, bce, plain, bce_shape},
      {{"binary_cross_entropy_backward"}, bce_backward, plain, like_second},
  };
  return rows;
}

}  // namespace tpubridge::lower
