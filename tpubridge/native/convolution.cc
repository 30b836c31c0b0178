// A call is cut into parts: images, or channels. Each is computed by one of the plugin's own threads, in
// memory of its own, and copied to its place. Where libtorch fails (memory for what it puts in order first),
// the result is computed by plain loops: a program never fails of it.
#include "tpubridge/native/convolution.h"

#include <atomic>

#include "tpubridge/base/log.h"
#include "tpubridge/native/plain_convolution.h"
#include "tpubridge/native/scope.h"
#include "tpubridge/pjrt/ffi.h"

namespace tpubridge::native {
namespace {

using at::Tensor;

std::atomic<int64_t> calls{0}, plain_calls{0};

// Tensors over the memory of the program, of two or three spatial dimensions. The one that is to be computed
// holds nothing yet.
struct Convolution {
  ConvPart part;
  ConvWindow window;
  Tensor x, w, y, bias;

  [[nodiscard]] const Tensor& result() const {
    return part == ConvPart::forward ? y : part == ConvPart::input_gradient ? x : w;
  }
};

ConvWindow window_of(const ffi::Call& call) {
  return {call.integers("stride"), call.integers("padding"), call.integers("dilation"),
          call.integer("groups")};
}

struct Buffers {
  ffi::Buffer x, w, y, bias;
};
Buffers buffers_of(const ffi::Call& call, ConvPart part) {
  const ffi::Buffer &a = call.input(0), &b = call.input(1), &out = call.output();
  if (part == ConvPart::input_gradient) return {out, b, a, {}};
  if (part == ConvPart::kernel_gradient) return {a, out, b, {}};
  return {a, b, out, call.inputs().size() > 2 ? call.input(2) : ffi::Buffer{}};
}

Tensor tensor_over(const ffi::Buffer& b) {
  if (!b.data) return {};
  Dims dims(b.dims.begin(), b.dims.end());
  if (dims.size() == 3) dims.insert(dims.begin() + 2, 1);  // oneDNN's have two spatial dimensions or three
  return at::from_blob(b.data, dims, at::kFloat);
}

Convolution over(const Buffers& b, ConvPart part, ConvWindow window) {
  if (window.stride.size() == 1) {
    window.stride.insert(window.stride.begin(), 1);
    window.padding.insert(window.padding.begin(), 0);
    window.dilation.insert(window.dilation.begin(), 1);
  }
  return {part, std::move(window), tensor_over(b.x), tensor_over(b.w), tensor_over(b.y), tensor_over(b.bias)};
}

// ---- One part ----

int64_t plane(const Tensor& t) { return t.numel() / (t.size(0) * t.size(1)); }

// Few places and many weights: a product of matrices reads each weight once, as it lies, where oneDNN first
// writes all of them in an order of its own.
bool as_columns(const Convolution& c) {
  if (c.window.groups != 1 || c.x.dim() != 4) return false;
  const int64_t columns = c.y.size(0) * plane(c.y);
  if (c.part == ConvPart::kernel_gradient) return columns <= 256 && c.w.numel() >= 1 << 17;
  return columns <= 64 && c.w.numel() >= 1 << 19;
}

// [channels, images × places]
Tensor channels_first(const Tensor& t) { return t.transpose(0, 1).reshape({t.size(1), -1}); }
Tensor images_first(const Tensor& t, const Tensor& like) {
  return t.view({like.size(1), like.size(0), like.size(2), like.size(3)}).transpose(0, 1);
}

Tensor columns_of(const Convolution& c) {
  const ConvWindow& v = c.window;
  const Tensor columns =
      at::im2col(c.x, c.w.sizes().slice(2), v.dilation, v.padding, v.stride);  // [n, i·window, places]
  return columns.transpose(0, 1).reshape({columns.size(1), -1});
}

void compute_by_columns(const Convolution& c) {
  const ConvWindow& v = c.window;
  const Tensor w = c.w.flatten(1);  // of some inputs: rows that lie apart
  if (c.part == ConvPart::forward) {
    const Tensor y = at::mm(w, columns_of(c));
    if (c.bias.defined()) y.add_(c.bias.unsqueeze(1));
    c.y.copy_(images_first(y, c.y));
  } else if (c.part == ConvPart::input_gradient) {
    const Tensor columns = at::mm(w.t(), channels_first(c.y));
    const Tensor by_image = columns.view({columns.size(0), c.x.size(0), -1}).transpose(0, 1).contiguous();
    c.x.copy_(
        at::col2im(by_image, c.x.sizes().slice(2), c.w.sizes().slice(2), v.dilation, v.padding, v.stride));
  } else {
    Tensor out = w;
    at::mm_out(out, channels_first(c.y), columns_of(c).t());
  }
}

Tensor gradient(const Convolution& c) {
  const ConvWindow& v = c.window;
  const bool of_input = c.part == ConvPart::input_gradient;
  const Dims none(v.stride.size(), 0);
  const auto all = at::convolution_backward(c.y, c.x, c.w, std::nullopt, v.stride, v.padding, v.dilation,
                                            false, none, v.groups, {of_input, !of_input, false});
  return of_input ? std::get<0>(all) : std::get<1>(all);
}

Tensor computed(const Convolution& c) {
  if (c.part != ConvPart::forward) return gradient(c);
  const ConvWindow& v = c.window;
  const std::optional<Tensor> bias = c.bias.defined() ? std::optional(c.bias) : std::nullopt;
  if (at::hasMKLDNN() && at::globalContext().userEnabledMkldnn())
    return at::mkldnn_convolution(c.x, c.w, bias, v.padding, v.stride, v.dilation, v.groups);
  const Dims none(v.stride.size(), 0);
  return at::convolution(c.x, c.w, bias, v.stride, v.padding, v.dilation, false, none, v.groups);
}

void compute(const Convolution& c) {
  if (as_columns(c)) return compute_by_columns(c);
  c.result().copy_(computed(c));
}

// ---- Parts ----

// What a part reads and writes stays in a cache, where there are enough images.
constexpr int64_t kPartBytes = 1 << 20;
constexpr int64_t kGrain = 16;              // channels that oneDNN keeps together
constexpr int64_t kWorthAThread = 1 << 21;  // multiplications

int64_t threads_for(const ffi::Call& call, const Convolution& c) {
  const int64_t multiplications = c.y.numel() * (c.w.numel() / c.w.size(0));
  return std::clamp(multiplications / kWorthAThread, int64_t{1}, call.threads());
}

struct Range {
  int64_t from, count;
};
Range range(int64_t size, int64_t parts, int64_t i, int64_t grain = 1) {
  const int64_t grains = (size + grain - 1) / grain;
  const int64_t from = std::min(size, grains * i / parts * grain);
  return {from, std::min(size, grains * (i + 1) / parts * grain) - from};
}

Convolution images(const Convolution& c, Range r) {
  Convolution out = c;
  out.x = c.x.narrow(0, r.from, r.count);
  out.y = c.y.narrow(0, r.from, r.count);
  return out;
}

Convolution channels(const Convolution& c, Range r) {
  Convolution out = c;
  if (c.window.groups > 1) {  // r: of groups
    const int64_t inputs = c.w.size(1), outputs = c.w.size(0) / c.window.groups;
    out.window.groups = r.count;
    out.x = c.x.narrow(1, r.from * inputs, r.count * inputs);
    r = {r.from * outputs, r.count * outputs};
  } else if (c.part == ConvPart::input_gradient) {
    out.x = c.x.narrow(1, r.from, r.count);
    out.w = c.w.narrow(1, r.from, r.count);
    return out;
  }
  out.w = c.w.narrow(0, r.from, r.count);
  out.y = c.y.narrow(1, r.from, r.count);
  if (c.bias.defined()) out.bias = c.bias.narrow(0, r.from, r.count);
  return out;
}

void by_channels(const ffi::Call& call, const Convolution& c) {
  const bool groups = c.window.groups > 1;
  const int64_t size = groups                               ? c.window.groups
                       : c.part == ConvPart::input_gradient ? c.w.size(1)
                                                            : c.w.size(0);
  const int64_t grain = groups ? 1 : kGrain,
                parts = std::min(threads_for(call, c), (size + grain - 1) / grain);
  call.parallel(parts, [&](int64_t i) {
    const KernelScope scope;
    compute(channels(c, range(size, parts, i, grain)));
  });
}

int64_t parts_of_images(const ffi::Call& call, const Convolution& c) {
  const int64_t bytes = 4 * (c.x.numel() + c.y.numel());
  return std::min(std::max(threads_for(call, c), bytes / kPartBytes), c.x.size(0));
}

void by_images(const ffi::Call& call, const Convolution& c) {
  const int64_t size = c.x.size(0), parts = parts_of_images(call, c);
  call.parallel(parts, [&](int64_t i) {
    const KernelScope scope;
    compute(images(c, range(size, parts, i)));
  });
}

// The kernel's gradient is the sum of those of the images, in their order.
void by_images_summed(const ffi::Call& call, const Convolution& c) {
  const int64_t size = c.x.size(0), parts = parts_of_images(call, c);
  std::vector<Tensor> sums(static_cast<size_t>(parts));
  call.parallel(parts, [&](int64_t i) {
    const KernelScope scope;
    sums[static_cast<size_t>(i)] = gradient(images(c, range(size, parts, i)));
  });
  c.w.copy_(sums[0]);
  for (size_t i = 1; i < sums.size(); ++i) c.w.add_(sums[i]);
}

void run(const ffi::Call& call, const Convolution& c) {
  const int64_t weights = c.w.numel(), values = c.x.numel() + c.y.numel();
  if (c.x.size(0) < threads_for(call, c) || (weights >= values && c.part != ConvPart::kernel_gradient))
    return by_channels(call, c);
  if (c.part != ConvPart::kernel_gradient) return by_images(call, c);
  return 8 * weights <= values ? by_images_summed(call, c) : by_channels(call, c);
}

template <ConvPart part>
std::string called(const ffi::Call& call) {
  const ConvWindow window = window_of(call);
  const Buffers b = buffers_of(call, part);
  ++calls;
  try {
    const KernelScope scope;
    run(call, over(b, part, window));
  } catch (const std::exception& e) {
    ++plain_calls;
    log::warn("convolution.plain", {{"why", e.what()}, {"effect", "it is computed slowly"}});
    const auto dims = [](const ffi::Buffer& f) { return Dims(f.dims.begin(), f.dims.end()); };
    const auto data = [](const ffi::Buffer& f) { return static_cast<float*>(f.data); };
    PlainConvolution<float>{dims(b.x), dims(b.w), dims(b.y), window,
                            data(b.x), data(b.w), data(b.y), data(b.bias)}
        .run(part);
  }
  return {};
}

[[maybe_unused]] const bool registered = [] {
  ffi::add("tpubridge::convolution", called<ConvPart::forward>);
  ffi::add("tpubridge::convolution_input_gradient", called<ConvPart::input_gradient>);
  ffi::add("tpubridge::convolution_kernel_gradient", called<ConvPart::kernel_gradient>);
  return true;
}();

}  // namespace

ConvolutionCalls convolution_calls() { return {calls, plain_calls}; }

}  // namespace tpubridge::native
