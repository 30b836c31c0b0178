// Convolution in any number of dimensions, transposed too, and its gradients.
#include "tpubridge/hlo/convolution.h"

#include <algorithm>

#include "tpubridge/lower/host_convolution.h"
#include "tpubridge/lower/precision.h"

namespace tpubridge::lower {
namespace {

Dims per_dimension(Dims v, int64_t spatial) {
  if (v.size() == 1) v.resize(static_cast<size_t>(spatial), v[0]);
  return v;
}

// input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups. `at`: the argument of
// the strides; the others follow it.
Conv conv_of(const Call& c, size_t input, size_t at) {
  Conv v;
  v.spatial = static_cast<int64_t>(c.dims(input).size()) - 2;
  v.stride = per_dimension(c.integers(at), v.spatial);
  v.padding = per_dimension(c.integers(at + 1), v.spatial);
  v.dilation = per_dimension(c.integers(at + 2), v.spatial);
  v.transposed = c.flag(at + 3);
  v.output_padding = per_dimension(c.integers(at + 4), v.spatial);
  v.groups = c.integer(at + 5);
  return v;
}

// For its program.
Conv conv_in(const Context& c, size_t input, size_t at) {
  Conv v = conv_of(c, input, at);
  v.precision = precision_of(c, c.shape(input).dtype);
  v.platform = c.platform;
  return v;
}

// What the CPU's kernel has words for otherwise.
bool makes_sense(const Conv& v) {
  auto all = [&](const Dims& d, int64_t least) {
    return d.size() == static_cast<size_t>(v.spatial) &&
           std::all_of(d.begin(), d.end(), [&](int64_t n) { return n >= least; });
  };
  if (v.groups < 1 || !all(v.stride, 1) || !all(v.dilation, 1) || !all(v.padding, 0)) return false;
  if (!v.transposed) return true;
  if (!all(v.output_padding, 0)) return false;
  for (size_t i = 0; i < v.stride.size(); ++i)
    if (v.output_padding[i] >= std::max(v.stride[i], v.dilation[i])) return false;
  return true;
}

int64_t out_size(const Conv& v, size_t i, int64_t in, int64_t kernel) {
  const int64_t reach = v.dilation[i] * (kernel - 1) + 1;
  if (v.transposed) return (in - 1) * v.stride[i] - 2 * v.padding[i] + reach + v.output_padding[i];
  return (in + 2 * v.padding[i] - reach) / v.stride[i] + 1;
}

hlo::ConvOptions options_for(DType t, const Conv& v) {
  hlo::ConvOptions o;
  o.feature_groups = v.groups;
  o.lhs_precision = o.rhs_precision = v.precision;
  // cuDNN has no such kernel: XLA would compute all of it in f32. It adds in f32 all the same.
  if ((t == DType::bf16 || t == DType::f16) && v.platform != Platform::cuda) o.result = DType::f32;
  return o;
}

// XLA's CPU wants [window…, i, o] and transposes by itself, each part of the window's first dimension by one
// thread; three of them are badly shared by two. All places of the window as one dimension are not.
Value window_first(Value w, hlo::ConvDims& d) {
  const int64_t outputs = w.dim(0), inputs = w.dim(1), spatial = w.rank() - 2;
  Dims dims(w.dims().begin() + 2, w.dims().end());
  const int64_t places = product(dims);
  dims.insert(dims.end(), {inputs, outputs});
  for (int64_t i = 0; i < spatial; ++i) d.kernel_spatial[static_cast<size_t>(i)] = i;
  d.kernel_input = spatial;
  d.kernel_output = spatial + 1;
  return reshaped(hlo::transpose(reshaped(w, {outputs, inputs, places}), {2, 1, 0}), dims);
}

Value with_bias(Value y, Value bias) { return hlo::add(y, spread(to(bias, y.dtype()), y.dims(), {1})); }

// x [n, g·i, …] ⊛ w [o, i, …] + b [o]
Value forward(Value x, Value w, std::optional<Value> bias, const Conv& v) {
  Dims dims{x.dim(0), w.dim(0)};
  for (size_t i = 0; i < v.stride.size(); ++i) {
    const auto at = static_cast<int64_t>(i) + 2;
    dims.push_back((x.dim(at) + 2 * v.padding[i] - v.dilation[i] * (w.dim(at) - 1) - 1) / v.stride[i] + 1);
  }
  if (const auto y = host_convolution(ConvPart::forward, x, w, bias, dims, v)) return *y;
  auto o = options_for(x.dtype(), v);
  o.strides = v.stride;
  o.rhs_dilation = v.dilation;
  for (int64_t p : v.padding) o.padding.emplace_back(p, p);
  hlo::ConvDims d = hlo::conv_dims(v.spatial);
  if (v.platform == Platform::cpu) w = window_first(w, d);
  const Value y = hlo::convolution(x, w, d, o);
  return bias ? with_bias(y, *bias) : y;
}

void reverse_kernel(Value& w) {
  Dims flipped;  // as an op of its own: XLA's CPU has no fast convolution with a reversed window
  for (int64_t i = 2; i < w.rank(); ++i)
    if (w.dim(i) > 1) flipped.push_back(i);
  if (!flipped.empty()) w = hlo::reverse(w, flipped);
}

// The adjoint of `forward` in its input: y [n, o, …], w [o, i, …] → [n, g·i, sizes…].
Value adjoint(Value y, Value w, const Conv& v, const Dims& sizes) {
  Dims dims{y.dim(0), w.dim(1) * v.groups};
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  if (const auto x = host_convolution(ConvPart::input_gradient, y, w, {}, dims, v)) return *x;
  // Within each group the roles of input and output channels are swapped, and the kernel is turned round.
  const int64_t g = v.groups, out = w.dim(0) / g, in = w.dim(1);
  Dims split{g, out, in}, order{0, 2, 1}, merged{g * in, out};
  for (int64_t i = 2; i < w.rank(); ++i) {
    split.push_back(w.dim(i));
    order.push_back(i + 1);
    merged.push_back(w.dim(i));
  }
  Value turned = reshaped(transposed(reshaped(w, split), order), merged);
  reverse_kernel(turned);
  auto o = options_for(y.dtype(), v);
  o.lhs_dilation = v.stride;
  o.rhs_dilation = v.dilation;
  for (size_t i = 0; i < static_cast<size_t>(v.spatial); ++i) {
    const int64_t reach = v.dilation[i] * (w.dim(static_cast<int64_t>(i) + 2) - 1);
    const int64_t low = reach - v.padding[i];
    const int64_t dilated = (y.dim(static_cast<int64_t>(i) + 2) - 1) * v.stride[i] + 1;
    o.padding.emplace_back(low, sizes[i] - dilated - low + reach);
  }
  return hlo::convolution(y, turned, hlo::conv_dims(v.spatial), o);
}

// XLA's CPU computes [batch, …, features] whatever is asked for: with y as the image and x as the window,
// which gives the kernel turned round, output channels come first as torch wants them, and putting the kernel
// in order stays within one of them. (For 512 × 512 × 3 × 3 that takes 1.6 ms, and 17 the other way round.)
bool output_first(const Conv& v, const Dims& kernel) {
  for (size_t i = 0; i < kernel.size(); ++i)
    if (v.stride[i] != 1 || v.dilation[i] != 1 || v.padding[i] >= kernel[i]) return false;
  return v.platform == Platform::cpu && v.groups == 1;
}
Value kernel_gradient_output_first(Value x, Value y, const Conv& v, const Dims& kernel) {
  hlo::ConvDims d = hlo::conv_dims(v.spatial);
  d.input_batch = d.kernel_output = d.output_feature = 1;
  d.input_feature = d.kernel_input = d.output_batch = 0;
  auto o = options_for(x.dtype(), v);
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t edge = kernel[i] - 1 - v.padding[i];
    o.padding.emplace_back(edge, edge);
  }
  Value turned = hlo::convolution(y, x, d, o);
  reverse_kernel(turned);
  return turned;
}

// The adjoint of `forward` in its kernel: x [n, g·i, …], y [n, o, …] → [o, i, kernel…].
Value kernel_gradient(Value x, Value y, const Conv& v, const Dims& kernel) {
  Dims dims{y.dim(1), x.dim(1) / v.groups};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  if (const auto w = host_convolution(ConvPart::kernel_gradient, x, y, {}, dims, v)) return *w;
  if (output_first(v, kernel)) return kernel_gradient_output_first(x, y, v, kernel);
  // The batch is summed over: it takes the place of the features, and channels that of the batch.
  hlo::ConvDims d = hlo::conv_dims(v.spatial);
  d.input_batch = 1;
  d.input_feature = 0;
  d.kernel_output = 1;
  d.kernel_input = 0;
  d.output_batch = 1;
  d.output_feature = 0;
  auto o = options_for(x.dtype(), v);
  o.feature_groups = 1;
  o.batch_groups = v.groups;
  o.strides = v.dilation;
  o.rhs_dilation = v.stride;
  for (size_t i = 0; i < static_cast<size_t>(v.spatial); ++i) {
    const int64_t in = x.dim(static_cast<int64_t>(i) + 2), out = y.dim(static_cast<int64_t>(i) + 2);
    const int64_t reach = (out - 1) * v.stride[i] + (kernel[i] - 1) * v.dilation[i] + 1;
    o.padding.emplace_back(v.padding[i], reach - in - v.padding[i]);
  }
  return hlo::convolution(x, y, d, o);
}

Dims spatial_of(const Dims& dims) { return {dims.begin() + 2, dims.end()}; }

void convolution(Context& c) {
  const Conv v = conv_in(c, 0, 3);
  const Value x = c.in(0), w = c.in(1);
  const auto bias = c.has(2) ? std::optional(c.in(2)) : std::nullopt;
  if (!v.transposed) return c.result(forward(x, w, bias, v));
  const Value y = adjoint(x, w, v, spatial_of(c.out().dims));
  c.result(bias ? with_bias(y, *bias) : y);
}

std::vector<Shape> convolution_shape(const Call& c) {
  const Dims &x = c.dims(0), &w = c.dims(1);
  const DType t = c.shape(0).dtype;
  if (x.size() < 3 || x.size() != w.size() || !is_float(t) || c.shape(1).dtype != t) return {};
  const Conv v = conv_of(c, 0, 3);
  if (!makes_sense(v)) return {};
  if (x[1] != (v.transposed ? w[0] : w[1] * v.groups)) return {};  // the CPU kernel says what is wrong
  Dims out{x[0], v.transposed ? w[1] * v.groups : w[0]};
  for (size_t i = 0; i < static_cast<size_t>(v.spatial); ++i) {
    out.push_back(out_size(v, i, x[i + 2], w[i + 2]));
    if (out.back() <= 0) return {};
  }
  return {Shape{t, out}};
}

// The gradient of a transposed convolution's input, [n, c, sizes…]. Output padding of a stride or more (it
// may be up to the dilation) leaves room for windows that no element of the input made: they are cut off.
Value transposed_gradient(Value g, Value w, const Conv& v, const Dims& dims) {
  const Value y = forward(g, w, {}, v);
  return y.dims() == dims ? y : hlo::slice(y, Dims(dims.size(), 0), dims);
}

// grad_output, input, weight, bias_sizes?, stride, padding, dilation, transposed, output_padding, groups,
// output_mask
void convolution_backward(Context& c) {
  const Conv v = conv_in(c, 1, 4);
  const Value g = c.in(0), x = c.in(1), w = c.in(2);
  const Dims mask = c.integers(10), kernel = spatial_of(w.dims());
  auto unwanted = [&](size_t i) { return fill(c.b, c.out(i).dtype, c.out(i).dims, 0); };
  if (mask[0])
    c.result(v.transposed ? transposed_gradient(g, w, v, x.dims()) : adjoint(g, w, v, spatial_of(x.dims())),
             0);
  else
    c.result(unwanted(0), 0);
  if (mask[1])
    c.result(v.transposed ? kernel_gradient(g, x, v, kernel) : kernel_gradient(x, g, v, kernel), 1);
  else
    c.result(unwanted(1), 1);
  if (mask[2])
    c.result(sum(to(g, opmath_of(g.dtype())), others({1}, g.rank())), 2);
  else
    c.result(unwanted(2), 2);
}

std::vector<Shape> convolution_backward_shape(const Call& c) {
  const Dims mask = c.integers(10);
  const DType t = c.shape(0).dtype;
  if (c.dims(1).size() < 3) return {};
  return {wanted_or_absent(mask[0], t, c.dims(1)), wanted_or_absent(mask[1], t, c.dims(2)),
          wanted_or_absent(mask[2], t, {c.dims(0)[1]})};
}

}  // namespace

std::span<const Row> convolution_rows() {
  static const Row rows[] = {
      {{"convolution"}, convolution, composite | precise | keep_format, convolution_shape},
      {{"convolution_backward"},
       convolution_backward,
       composite | precise | keep_format,
       convolution_backward_shape},
  };
  return rows;
}

}  // namespace tpubridge::lower
