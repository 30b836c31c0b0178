// Layer, group and batch normalisation, with gradients.
#include <tuple>

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

Value mean_of(Value x, const Dims& axes) {
  double n = 1;
  for (int64_t a : axes) n *= static_cast<double>(x.dim(a));
  return scaled(sum(x, axes), 1 / n);
}

// x split into the axes that are normalised over (`inner`) and the others.
struct Split {
  Value x;
  Dims inner, outer;
  [[nodiscard]] Value over(Value v) const { return spread(v, x.dims(), outer); }    // from the outer axes
  [[nodiscard]] Value inside(Value v) const { return spread(v, x.dims(), inner); }  // from the inner axes
};

Dims range(int64_t from, int64_t to) {
  Dims out;
  for (int64_t i = from; i < to; ++i) out.push_back(i);
  return out;
}

void layer_norm(Context& c) {
  const Value x = c.in(0, opmath_of(c.shape(0).dtype));
  const int64_t normal = static_cast<int64_t>(c.integers(1).size()), rank = x.rank();
  const Split s{x, range(rank - normal, rank), range(0, rank - normal)};
  const Value mean = mean_of(x, s.inner);
  const Value d = hlo::subtract(x, s.over(mean));
  const Value variance = mean_of(mul(d, d), s.inner);
  const Value rstd = hlo::rsqrt(hlo::add(variance, like(variance, c.number(4))));
  Value y = mul(d, s.over(rstd));
  if (c.has(2)) y = mul(y, s.inside(c.in(2, x.dtype())));
  if (c.has(3)) y = hlo::add(y, s.inside(c.in(3, x.dtype())));
  c.result(y, 0);
  c.result(reshaped(mean, c.out(1).dims), 1);
  c.result(reshaped(rstd, c.out(2).dims), 2);
}

std::vector<Shape> layer_norm_shape(const Call& c) {
  const Dims normal = c.integers(1), &dims = c.dims(0);
  if (!is_float(c.shape(0).dtype) || normal.empty() || normal.size() > dims.size()) return {};
  for (size_t i = 0; i < normal.size(); ++i)
    if (dims[dims.size() - normal.size() + i] != normal[i]) return {};
  for (size_t arg : {2, 3})
    if (c.has(arg) && (c.dims(arg) != normal || c.shape(arg).dtype != c.shape(0).dtype)) return {};
  Dims stat = dims;
  for (size_t i = dims.size() - normal.size(); i < dims.size(); ++i) stat[i] = 1;
  return {c.shape(0), Shape{c.shape(0).dtype, stat}, Shape{c.shape(0).dtype, stat}};
}

// grad_out, input, normalized_shape, mean, rstd, weight?, bias?, output_mask
void layer_norm_backward(Context& c) {
  const DType t = opmath_of(c.shape(1).dtype);
  const Value g = c.in(0, t), x = c.in(1, t);
  const int64_t normal = static_cast<int64_t>(c.integers(2).size()), rank = x.rank();
  const Split s{x, range(rank - normal, rank), range(0, rank - normal)};
  Dims outer;
  for (int64_t a : s.outer) outer.push_back(x.dim(a));
  const Value mean = reshaped(c.in(3, t), outer), rstd = reshaped(c.in(4, t), outer);
  const Value normalised = mul(hlo::subtract(x, s.over(mean)), s.over(rstd));
  const Value gy = c.has(5) ? mul(g, s.inside(c.in(5, t))) : g;
  const Value a = mean_of(gy, s.inner), b = mean_of(mul(gy, normalised), s.inner);
  const Value dx = mul(hlo::subtract(hlo::subtract(gy, s.over(a)), mul(normalised, s.over(b))), s.over(rstd));
  const Dims mask = c.integers(7);
  c.result(mask[0] ? dx : fill(c.b, t, c.out(0).dims, 0), 0);
  c.result(
      mask[1] ? reshaped(sum(mul(g, normalised), s.outer), c.out(1).dims) : fill(c.b, t, c.out(1).dims, 0),
      1);
  c.result(mask[2] ? reshaped(sum(g, s.outer), c.out(2).dims) : fill(c.b, t, c.out(2).dims, 0), 2);
}

std::vector<Shape> layer_norm_backward_shape(const Call& c) {
  const DType t = c.shape(1).dtype;
  const Dims normal = c.integers(2), mask = c.integers(7);
  return {wanted_or_absent(mask[0], t, c.dims(1)), wanted_or_absent(mask[1], t, normal),
          wanted_or_absent(mask[2], t, normal)};
}

// w = v·g/‖v‖, a norm for each place along the axis: v, g, dim → w, norms
Split along(Value v, int64_t axis) { return {v, others({axis}, v.rank()), {axis}}; }

void weight_norm(Context& c) {
  const Value v = c.in(0, opmath_of(c.shape(0).dtype));
  const Split s = along(v, c.integer(2));
  const Value norms = hlo::sqrt(sum(mul(v, v), s.inner));
  const Value g = reshaped(c.in(1, v.dtype()), norms.dims());
  c.result(mul(v, s.over(hlo::divide(g, norms))), 0);
  c.result(reshaped(norms, c.out(1).dims), 1);
}

// As libtorch's kernels: the axis is the first or the last.
std::vector<Shape> weight_norm_shape(const Call& c) {
  const Dims &dims = c.dims(0), &g = c.dims(1);
  const int64_t axis = c.integer(2), last = static_cast<int64_t>(dims.size()) - 1;
  const DType t = c.shape(0).dtype;
  if (!is_float(t) || c.shape(1).dtype != t || (axis != 0 && axis != last) || last < 0) return {};
  if (Shape{t, g}.elements() != dims[static_cast<size_t>(axis)]) return {};
  return {c.shape(0), Shape{t == DType::bf16 ? DType::f32 : t, g}};
}

// grad_w, v, g, norms, dim → grad_v, grad_g
void weight_norm_backward(Context& c) {
  const DType t = opmath_of(c.shape(1).dtype);
  const Value grad = c.in(0, t), v = c.in(1, t);
  const Split s = along(v, c.integer(4));
  const Dims places{v.dim(c.integer(4))};
  const Value g = reshaped(c.in(2, t), places), norms = reshaped(c.in(3, t), places);
  const Value along_v = hlo::divide(sum(mul(grad, v), s.inner), norms);  // of the gradient, per place
  const Value rest = hlo::subtract(grad, mul(v, s.over(hlo::divide(along_v, norms))));
  c.result(mul(rest, s.over(hlo::divide(g, norms))), 0);
  c.result(reshaped(along_v, c.out(1).dims), 1);
}

// The channel is axis 1; statistics are over all others.
Split channels(Value x) { return {x, others({1}, x.rank()), {1}}; }

// Batch statistics are sums over very many elements. XLA's CPU code adds them one after the other, which made
// gradients ten times less exact than torch's, whose CPU kernels add in f64 as well; other hardware adds in a
// tree.
DType statistics_type(const Context& c, DType t) {
  return c.platform == Platform::cpu && t == DType::f32 ? DType::f64 : t;
}

// Mean and variance of each channel in one pass, which is what a batch norm costs on an accelerator. The sums
// are taken about the channel's first element: about zero, a mean far from it would leave no digits for the
// variance. For narrow floats, whose own rounding is far above what is lost; others are read twice.
std::pair<Value, Value> statistics_at_once(const Split& s, Value x) {
  Dims first(x.dims().size(), 1);
  first[1] = x.dim(1);
  const Value about = reshaped(hlo::slice(x, Dims(first.size(), 0), first), {x.dim(1)});
  const Value d = hlo::subtract(x, s.over(about));
  const Value mean = mean_of(d, s.inner);
  const Value variance = hlo::subtract(mean_of(mul(d, d), s.inner), mul(mean, mean));
  return {hlo::add(mean, about), hlo::maximum(variance, like(variance, 0))};
}

// input, weight?, bias?, running_mean?, running_var?, training, momentum, eps → output, mean, rstd, and the
// new running statistics (the device writes them back).
void batch_norm(Context& c) {
  const DType t = opmath_of(c.shape(0).dtype), st = statistics_type(c, t);
  const Value x = c.in(0, t);
  const Split s = channels(x);
  const double eps = c.number(7), momentum = c.number(6);
  const bool training = c.flag(5);
  Value mean, variance;
  if (training && c.platform != Platform::cpu && bits(c.shape(0).dtype) < 32 && x.elements() > 0) {
    std::tie(mean, variance) = statistics_at_once(s, x);
  } else if (training) {
    mean = mean_of(to(x, st), s.inner);
    const Value d = hlo::subtract(to(x, st), s.over(mean));
    variance = mean_of(mul(d, d), s.inner);
  } else {
    mean = c.in(3, st);
    variance = c.in(4, st);
  }
  const Value rstd = hlo::rsqrt(hlo::add(variance, like(variance, eps)));
  Value scale = rstd, shift = hlo::negate(mul(mean, rstd));
  if (c.has(1)) scale = mul(scale, c.in(1, st)), shift = mul(shift, c.in(1, st));
  if (c.has(2)) shift = hlo::add(shift, c.in(2, st));
  c.result(hlo::add(mul(x, s.over(to(scale, t))), s.over(to(shift, t))), 0);
  c.result(training ? mean : fill(c.b, t, {0}, 0), 1);
  c.result(training ? rstd : fill(c.b, t, {0}, 0), 2);
  if (c.results().size() < 5) return;
  const double n = static_cast<double>(x.elements()) / static_cast<double>(x.dim(1));
  auto moved = [&](size_t arg, Value fresh) {
    const Value old = c.in(arg, st);
    return hlo::add(scaled(old, 1 - momentum), scaled(fresh, momentum));
  };
  c.result(moved(3, mean), 3);
  c.result(moved(4, scaled(variance, n / (n - 1))), 4);
}

// grad_out, input, weight?, running_mean?, running_var?, save_mean?, save_invstd?, train, eps, output_mask
void batch_norm_backward(Context& c) {
  const DType t = opmath_of(c.shape(1).dtype), st = statistics_type(c, t);
  const Value g = c.in(0, t), x = c.in(1, t);
  const Split s = channels(x);
  const bool training = c.flag(7);
  Value mean, rstd;
  if (training) {
    mean = c.in(5, t);
    rstd = c.in(6, t);
  } else {
    mean = c.in(3, t);
    const Value variance = c.in(4, t);
    rstd = hlo::rsqrt(hlo::add(variance, like(variance, c.number(8))));
  }
  const Value normalised = mul(hlo::subtract(x, s.over(mean)), s.over(rstd));
  const Value sum_g = to(sum(to(g, st), s.inner), t);
  const Value sum_gx = to(sum(mul(to(g, st), to(normalised, st)), s.inner), t);
  const Dims mask = c.integers(9);
  if (mask[0]) {
    const Value scale = c.has(2) ? mul(rstd, c.in(2, t)) : rstd;
    Value inside = g;
    if (training) {
      const double n = static_cast<double>(x.elements()) / static_cast<double>(x.dim(1));
      inside = hlo::subtract(g, s.over(scaled(sum_g, 1 / n)));
      inside = hlo::subtract(inside, mul(normalised, s.over(scaled(sum_gx, 1 / n))));
    }
    c.result(mul(inside, s.over(scale)), 0);
  } else {
    c.result(fill(c.b, t, c.out(0).dims, 0), 0);
  }
  c.result(mask[1] ? sum_gx : fill(c.b, t, c.out(1).dims, 0), 1);
  c.result(mask[2] ? sum_g : fill(c.b, t, c.out(2).dims, 0), 2);
}

std::vector<Shape> batch_norm_backward_shape(const Call& c) {
  const Dims mask = c.integers(9), channel{c.dims(1)[1]};
  const DType t = c.has(2) ? c.shape(2).dtype : opmath_of(c.shape(1).dtype);
  return {wanted_or_absent(mask[0], c.shape(1).dtype, c.dims(1)), wanted_or_absent(mask[1], t, channel),
          wanted_or_absent(mask[2], t, channel)};
}

// input, weight?, bias?, N, C, HxW, group, eps
void group_norm(Context& c) {
  const DType t = opmath_of(c.shape(0).dtype);
  const int64_t n = c.integer(3), channel = c.integer(4), area = c.integer(5), groups = c.integer(6),
                per = channel / groups;
  const Value x = reshaped(c.in(0, t), {n, groups, per, area});
  const Split s{x, {2, 3}, {0, 1}};
  const Value mean = mean_of(x, s.inner), d = hlo::subtract(x, s.over(mean));
  const Value variance = mean_of(mul(d, d), s.inner);
  const Value rstd = hlo::rsqrt(hlo::add(variance, like(variance, c.number(7))));
  auto by_channel = [&](size_t arg) {
    return spread(reshaped(c.in(arg, t), {groups, per}), x.dims(), {1, 2});
  };
  Value y = mul(d, s.over(rstd));
  if (c.has(1)) y = mul(y, by_channel(1));
  if (c.has(2)) y = hlo::add(y, by_channel(2));
  c.result(reshaped(y, c.out().dims), 0);
  c.result(mean, 1);
  c.result(rstd, 2);
}

// grad_out, input, mean, rstd, weight?, N, C, HxW, group, output_mask
void group_norm_backward(Context& c) {
  const DType t = opmath_of(c.shape(1).dtype);
  const int64_t n = c.integer(5), channel = c.integer(6), area = c.integer(7), groups = c.integer(8),
                per = channel / groups;
  const Dims split{n, groups, per, area}, mask = c.integers(9);
  const Value g = reshaped(c.in(0, t), split), x = reshaped(c.in(1, t), split);
  const Split s{x, {2, 3}, {0, 1}};
  const Value rstd = reshaped(c.in(3, t), {n, groups});
  const Value normalised = mul(hlo::subtract(x, s.over(reshaped(c.in(2, t), {n, groups}))), s.over(rstd));
  const Value gy = c.has(4) ? mul(g, spread(reshaped(c.in(4, t), {groups, per}), split, {1, 2})) : g;
  const Value a = mean_of(gy, s.inner), b = mean_of(mul(gy, normalised), s.inner);
  const Value dx = mul(hlo::subtract(hlo::subtract(gy, s.over(a)), mul(normalised, s.over(b))), s.over(rstd));
  c.result(mask[0] ? reshaped(dx, c.out(0).dims) : fill(c.b, t, c.out(0).dims, 0), 0);
  c.result(
      mask[1] ? reshaped(sum(mul(g, normalised), {0, 3}), c.out(1).dims) : fill(c.b, t, c.out(1).dims, 0), 1);
  c.result(mask[2] ? reshaped(sum(g, {0, 3}), c.out(2).dims) : fill(c.b, t, c.out(2).dims, 0), 2);
}

}  // namespace

std::span<const Row> norm_rows() {
  static const Row rows[] = {
      {{"native_layer_norm"}, layer_norm, composite, layer_norm_shape},
      {{"native_layer_norm_backward"}, layer_norm_backward, plain, layer_norm_backward_shape},
      {{"_weight_norm_interface"}, weight_norm, plain, weight_norm_shape},
      {{"_weight_norm_interface_backward"},
       weight_norm_backward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         return {c.shape(1), c.shape(2)};
       }},
      {{"tpubridge::batch_norm"}, batch_norm},
      {{"native_batch_norm_backward"}, batch_norm_backward, plain, batch_norm_backward_shape},
      {{"native_group_norm"},
       group_norm,
       composite,
       [](const Call& c) -> std::vector<Shape> {
         const int64_t batch = c.integer(3), channels = c.integer(4), groups = c.integer(6);
         const bool fits = groups > 0 && channels % groups == 0 && batch >= 0 && c.dims(0).size() > 1 &&
                           c.dims(0)[0] == batch && c.dims(0)[1] == channels;
         if (!fits || !is_float(c.shape(0).dtype)) return {};
         const Shape stat{c.shape(0).dtype, {batch, groups}};
         return {c.shape(0), stat, stat};
       }},
      {{"native_group_norm_backward"},
       group_norm_backward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const Dims mask = c.integers(9), channel{c.integer(6)};
         const DType t = c.shape(1).dtype;
         return {wanted_or_absent(mask[0], t, c.dims(1)), wanted_or_absent(mask[1], t, channel),
                 wanted_or_absent(mask[2], t, channel)};
       }},
  };
  return rows;
}

}  // namespace tpubridge::lower
