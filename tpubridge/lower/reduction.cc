// Reductions, and scans along a dimension.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/log_sum.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

Value kept(const Context& c, Value reduced, size_t i = 0) { return reshaped(reduced, c.out(i).dims); }

// Narrow floats are summed in f32.
void sum_dim(Context& c) {
  const Value x = wide(c);
  c.result(kept(c, sum(x, wrapped(c.integers(1), x.rank(), true))));
}

// self, dim, keepdim, dtype
void nansum(Context& c) {
  const Value x = wide(c), number = hlo::compare(x, x, Direction::eq);
  const Value kept_ones = is_float(x.dtype()) ? hlo::select(number, x, like(x, 0)) : x;
  c.result(kept(c, sum(kept_ones, wrapped(c.integers(1), x.rank(), true))));
}
// self, dim
void count_nonzero(Context& c) {
  const Value x = c.in(0, DType::pred);
  c.result(kept(c, sum(to(x, DType::s64), wrapped(c.integers(1), x.rank(), true))));
}
void trace(Context& c) {
  const Value x = wide(c);
  const auto place = [&](int64_t axis) { return hlo::iota(c.b, Shape{DType::s64, x.dims()}, axis); };
  c.result(sum(hlo::select(hlo::compare(place(0), place(1), Direction::eq), x, like(x, 0)), {0, 1}));
}

Value mean_over(Value x, const Dims& axes) {
  double n = 1;
  for (int64_t a : axes) n *= static_cast<double>(x.dim(a));
  const Value s = sum(x, axes);
  return hlo::divide(s, like(s, n));
}
void mean_dim(Context& c) {
  const Value x = wide(c);
  c.result(kept(c, mean_over(x, wrapped(c.integers(1), x.rank(), true))));
}

template <Value (*F)(Value, const Dims&)>
void extreme(Context& c) {
  const Value x = c.in(0);
  c.result(kept(c, F(x, wrapped(c.arg_count() > 1 ? c.integers(1) : Dims{}, x.rank(), true))));
}

Value any_of(Value x, const Dims& axes) {
  if (axes.empty()) return x;
  return hlo::reduce(x, hlo::constant(x.builder(), DType::pred, false), axes, hlo::Reducer::or_);
}
Value all_of(Value x, const Dims& axes) {
  if (axes.empty()) return x;
  return hlo::reduce(x, hlo::constant(x.builder(), DType::pred, true), axes, hlo::Reducer::and_);
}
template <Value (*F)(Value, const Dims&)>
void logical(Context& c) {
  const Value x = c.in(0, DType::pred);
  c.result(kept(c, F(x, wrapped(c.arg_count() > 1 ? c.integers(1) : Dims{}, x.rank(), true))));
}

void prod(Context& c, const Dims& axes) {
  const Value x = wide(c);
  if (axes.empty()) return c.result(kept(c, x));
  c.result(kept(c, hlo::reduce(x, hlo::constant(c.b, x.dtype(), 1), axes, hlo::Reducer::multiply)));
}
void prod_all(Context& c) { prod(c, wrapped({}, static_cast<int64_t>(c.dims(0).size()), true)); }
void prod_dim(Context& c) { prod(c, wrapped({c.integer(1)}, static_cast<int64_t>(c.dims(0).size()))); }

// Value and place of the extreme along one axis: the first of equals, and NaN beats all, as in torch.
struct Extreme {
  Value value, index;
};
Extreme extreme_at(Value x, int64_t axis, bool largest) {
  hlo::Builder& b = x.builder();
  const Value index = hlo::iota(b, Shape{DType::s64, x.dims()}, axis);
  const hlo::Scalar init = largest ? hlo::lowest(x.dtype()) : hlo::highest(x.dtype());
  const auto r = hlo::reduce(
      {x, index},
      {hlo::constant(b, x.dtype(), init), hlo::constant(b, DType::s64, std::numeric_limits<int64_t>::max())},
      {axis}, [&](std::span<const Value> v) { return better_of(v, largest); });
  return {r[0], r[1]};
}

template <bool Largest>
void extreme_dim(Context& c) {
  const Value x = c.in(0);
  if (x.rank() == 0) {
    c.result(x);
    return c.result(hlo::constant(c.b, DType::s64, 0), 1);
  }
  const Extreme e = extreme_at(x, wrapped({c.integer(1)}, x.rank())[0], Largest);
  c.result(kept(c, e.value), 0);
  c.result(kept(c, e.index, 1), 1);
}
template <bool Largest>
void arg_extreme(Context& c) {
  Value x = c.in(0);
  if (!c.has(1)) x = reshaped(x, {x.elements()});
  if (x.rank() == 0) return c.result(hlo::constant(c.b, DType::s64, 0));
  const int64_t axis = c.has(1) ? wrapped({c.integer(1)}, x.rank())[0] : 0;
  c.result(kept(c, extreme_at(x, axis, Largest).index));
}

Value norm_of(Value x, double p, const Dims& axes) {
  const Value a = hlo::abs(x);
  if (p == 2) return hlo::sqrt(sum(hlo::multiply(x, x), axes));
  if (p == 1) return sum(a, axes);
  if (p == 0) return sum(to(hlo::compare(x, like(x, 0), Direction::ne), x.dtype()), axes);
  if (std::isinf(p)) return p > 0 ? max(a, axes) : min(a, axes);
  const Value s = sum(hlo::power(a, like(a, p)), axes);
  return hlo::power(s, like(s, 1 / p));
}
void norm(Context& c) {
  const Value x = is_complex(c.shape(0).dtype) ? to(hlo::abs(c.in(0)), c.out().dtype) : wide(c);
  c.result(kept(c, norm_of(x, c.has(1) ? c.number(1) : 2,
                           wrapped(c.arg_count() > 2 ? c.integers(2) : Dims{}, x.rank(), true))));
}

// self, p, dim, maxnorm: each slice along dim, made as long as is allowed where it is longer. torch adds
// 1e-7.
void renorm(Context& c) {
  const Value x = wide(c), a = is_complex(x.dtype()) ? hlo::abs(x) : x;
  const Dims axis = wrapped({c.integer(2)}, x.rank());
  const double most = c.number(3);
  const Value n = norm_of(a, c.number(1), others(axis, x.rank()));
  const Value factor = hlo::select(hlo::compare(n, like(n, most), Direction::gt),
                                   hlo::divide(like(n, most), hlo::add(n, like(n, 1e-7))), like(n, 1));
  c.result(mul(x, to(spread(factor, x.dims(), axis), x.dtype())));
}

struct Moments {
  Value mean, variance;
};
Moments moments(Value x, const Dims& axes, double correction) {
  double n = 1;
  for (int64_t a : axes) n *= static_cast<double>(x.dim(a));
  const Value mean = mean_over(x, axes);
  const Value d = hlo::subtract(x, spread(mean, x.dims(), others(axes, x.rank())));
  const Value s = sum(hlo::multiply(d, d), axes);
  return {mean, hlo::divide(s, like(s, std::max(n - correction, 0.0)))};
}
Moments moments(const Context& c) {
  const Value x = wide(c);
  return moments(x, wrapped(c.integers(1), x.rank(), true), c.has(2) ? c.number(2) : 1);
}
void var(Context& c) { c.result(kept(c, moments(c).variance)); }
void std_(Context& c) { c.result(kept(c, hlo::sqrt(moments(c).variance))); }
void var_mean(Context& c) {
  const Moments m = moments(c);
  c.result(kept(c, m.variance), 0);
  c.result(kept(c, m.mean, 1), 1);
}
void std_mean(Context& c) {
  const Moments m = moments(c);
  c.result(kept(c, hlo::sqrt(m.variance)), 0);
  c.result(kept(c, m.mean, 1), 1);
}
Dims without_axes(const Call& c, bool keep) {
  const Dims axes = wrapped(c.integers(1), static_cast<int64_t>(c.dims(0).size()), true);
  Dims dims = c.dims(0);
  for (size_t i = axes.size(); i-- > 0;) {
    if (keep)
      dims[static_cast<size_t>(axes[i])] = 1;
    else
      dims.erase(dims.begin() + axes[i]);
  }
  return dims;
}
// Others are torch's errors, which the CPU gives.
bool has_axes(const Call& c) { return are_axes(c.integers(1), static_cast<int64_t>(c.dims(0).size())); }
std::vector<Shape> reduced(const Call& c, size_t keepdim, size_t count) {
  if (!is_float(c.shape(0).dtype) || !has_axes(c)) return {};
  return std::vector<Shape>(count, Shape{c.shape(0).dtype, without_axes(c, c.flag(keepdim))});
}
DType summed_type(DType t) { return is_float(t) || is_complex(t) ? t : DType::s64; }

// A scalar; the extreme of nothing is torch's error, which the CPU gives.
std::vector<Shape> scalar_of_some(const Call& c) {
  if (product(c.dims(0)) == 0) return {};
  return {Shape{c.shape(0).dtype, {}}};
}

template <hlo::Reducer R>
void scan(Context& c) {
  const Value x = wide(c);
  c.result(x.rank() == 0 ? x : running(x, wrapped({c.integer(1)}, x.rank())[0], R));
}

void logcumsumexp(Context& c) {
  const Value x = wide(c);
  const Value none = hlo::constant(c.b, x.dtype(), -std::numeric_limits<double>::infinity());
  c.result(x.rank() == 0 ? x : running(x, wrapped({c.integer(1)}, x.rank())[0], none, logaddexp));
}

void logsumexp(Context& c) {
  const Value x = wide(c);
  const Dims axes = wrapped(c.integers(1), x.rank(), true), rest = others(axes, x.rank());
  const Value top = max(x, axes);
  // Infinite maxima would give inf − inf.
  const Value shift = hlo::select(hlo::is_finite(top), top, like(top, 0));
  const Value s = sum(hlo::exponential(hlo::subtract(x, spread(shift, x.dims(), rest))), axes);
  c.result(kept(c, hlo::add(hlo::log(s), shift)));
}

}  // namespace

std::span<const Row> reduction_rows() {
  static const Row rows[] = {
      {{"sum.dim_IntList"}, sum_dim},
      {{"mean.dim"}, mean_dim},
      {{"nansum"},
       nansum,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const DType t = c.dtype(3).value_or(summed_type(c.shape(0).dtype));
         if (is_complex(c.shape(0).dtype) || is_complex(t) || !has_axes(c)) return {};
         return {Shape{t, without_axes(c, c.flag(2))}};
       }},
      {{"count_nonzero.dim_IntList"},
       count_nonzero,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (!has_axes(c)) return {};
         return {Shape{DType::s64, without_axes(c, false)}};
       }},
      {{"trace"},
       trace,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (c.dims(0).size() != 2) return {};
         return {Shape{summed_type(c.shape(0).dtype), {}}};
       }},
      {{"_logcumsumexp"},
       logcumsumexp,
       plain,
       [](const Call& c) {
         const bool fits =
             is_float(c.shape(0).dtype) && are_axes({c.integer(1)}, static_cast<int64_t>(c.dims(0).size()));
         return fits ? like_first(c) : std::vector<Shape>();
       }},
      {{"amax"}, extreme<max>},
      {{"amin"}, extreme<min>},
      {{"max"}, extreme<max>, plain, scalar_of_some},
      {{"min"}, extreme<min>, plain, scalar_of_some},
      {{"max.dim"}, extreme_dim<true>},
      {{"min.dim"}, extreme_dim<false>},
      {{"argmax"}, arg_extreme<true>},
      {{"argmin"}, arg_extreme<false>},
      {{"any"}, logical<any_of>},
      {{"any.dim"}, logical<any_of>},
      {{"any.dims"}, logical<any_of>},
      {{"all"}, logical<all_of>},
      {{"all.dim"}, logical<all_of>},
      {{"all.dims"}, logical<all_of>},
      {{"prod"},
       prod_all,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const DType t = c.shape(0).dtype;
         return {Shape{c.dtype(1).value_or(is_float(t) || is_complex(t) ? t : DType::s64), {}}};
       }},
      {{"prod.dim_int"}, prod_dim},
      {{"norm.Scalar"},
       norm,
       bake | composite,
       [](const Call& c) -> std::vector<Shape> {
         if (!is_float(c.shape(0).dtype)) return {};
         return {Shape{c.shape(0).dtype, {}}};
       }},
      {{"linalg_vector_norm"}, norm, bake},
      {{"norm.ScalarOpt_dim"}, norm, bake},
      {{"norm.ScalarOpt_dim_dtype"}, norm, bake},
      {{"renorm"}, renorm, bake},
      {{"var.correction"}, var, bake, [](const Call& c) { return reduced(c, 3, 1); }},
      {{"std.correction"}, std_, bake, [](const Call& c) { return reduced(c, 3, 1); }},
      {{"var_mean.correction"}, var_mean, bake, [](const Call& c) { return reduced(c, 3, 2); }},
      {{"std_mean.correction"}, std_mean, bake, [](const Call& c) { return reduced(c, 3, 2); }},
      {{"logsumexp"}, logsumexp, composite, [](const Call& c) { return reduced(c, 2, 1); }},
      {{"cumsum"}, scan<hlo::Reducer::add>},
      {{"cumprod"}, scan<hlo::Reducer::multiply>},
  };
  return rows;
}

}  // namespace tpubridge::lower
