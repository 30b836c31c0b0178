// Max pooling with places, and sums at places in planes (the gradients of pools), as loops over rows of
// memory: XLA's CPU compiler has a window of two values, and a scatter, for which it takes many times as
// long.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tpubridge/pjrt/ffi.h"

namespace tpubridge::native {
namespace {

constexpr int64_t kElementsWorthAThread = 1 << 14;  // elements

// The planes part by part, on as many threads as the work is worth.
template <class F>
void each_plane(const ffi::Call& call, int64_t planes, int64_t work, F f) {
  const int64_t parts = std::min(planes, std::clamp(work / kElementsWorthAThread, int64_t{1}, call.threads()));
  call.parallel(parts, [&](int64_t part) {
    for (int64_t i = planes * part / parts; i < planes * (part + 1) / parts; ++i) f(i);
  });
}

struct Axis {
  int64_t in = 1, out = 1, window = 1, stride = 1, padding = 0, dilation = 1;
  struct Range {
    int64_t from, to;
  };
  // Places of the input that lie under the window.
  [[nodiscard]] Range under(int64_t place) const {
    const int64_t from = place * stride - padding;
    const int64_t first = from < 0 ? from + (-from + dilation - 1) / dilation * dilation : from;
    return {first, std::min(in, from + (window - 1) * dilation + 1)};
  }
};

// The first of equals, but the last of those that are no number.
struct Largest {
  float value = -std::numeric_limits<float>::infinity();
  int64_t place = -1;
  void see(float v, int64_t at) {
    if (place < 0 || v > value || std::isnan(v)) value = v, place = at;
  }
};

struct Window {
  Axis axes[3];  // the last ones count

  explicit Window(const ffi::Call& call) {
    const auto& size = call.integers("window");
    const size_t n = size.size(), lead = call.input(0).dims.size() - n;
    for (size_t i = 0; i < n; ++i)
      axes[3 - n + i] = {
          call.input(0).dims[lead + i], call.output().dims[lead + i], size[i],
          call.integers("stride")[i],   call.integers("padding")[i],  call.integers("dilation")[i]};
  }
  [[nodiscard]] int64_t in() const { return axes[0].in * axes[1].in * axes[2].in; }
  [[nodiscard]] int64_t out() const { return axes[0].out * axes[1].out * axes[2].out; }
  [[nodiscard]] int64_t size() const { return axes[0].window * axes[1].window * axes[2].window; }

  void largest_of(const float* x, float* values, int64_t* places) const {
    const auto& [depth, height, width] = axes;
    for (int64_t d = 0; d < depth.out; ++d)
      for (int64_t h = 0; h < height.out; ++h)
        for (int64_t w = 0; w < width.out; ++w) {
          const Largest best = largest(x, depth.under(d), height.under(h), width.under(w));
          *values++ = best.value;
          *places++ = best.place;
        }
  }

 private:
  [[nodiscard]] Largest largest(const float* x, Axis::Range depth, Axis::Range height,
                                Axis::Range width) const {
    Largest best;
    for (int64_t d = depth.from; d < depth.to; d += axes[0].dilation)
      for (int64_t h = height.from; h < height.to; h += axes[1].dilation) {
        const int64_t row = (d * axes[1].in + h) * axes[2].in;
        for (int64_t w = width.from; w < width.to; w += axes[2].dilation) best.see(x[row + w], row + w);
      }
    return best;
  }
};

std::string max_pool(const ffi::Call& call) {
  const Window window(call);
  const auto* x = call.input(0).as<const float>().data();
  auto* values = call.output(0).as<float>().data();
  auto* places = call.output(1).as<int64_t>().data();
  const int64_t all = call.output(0).elements();
  each_plane(call, all / window.out(), all * window.size(), [&](int64_t plane) {
    const int64_t to = plane * window.out();
    window.largest_of(x + plane * window.in(), values + to, places + to);
  });
  return {};
}

// Zeros, and each element at its place of its plane; what lies outside is left out.
std::string add_in_planes(const ffi::Call& call) {
  const auto values = call.input(0).as<const float>();
  const auto places = call.input(1).as<const int64_t>();
  const auto out = call.output().as<float>();
  const int64_t plane = call.integer("plane"), planes = call.output().elements() / plane;
  const int64_t each = call.input(0).elements() / planes;
  each_plane(call, planes, call.output().elements(), [&](int64_t i) {
    float* const to = out.data() + i * plane;
    std::fill_n(to, plane, 0.0F);
    for (int64_t k = i * each; k < (i + 1) * each; ++k) {
      const auto from = static_cast<size_t>(k);
      if (places[from] >= 0 && places[from] < plane) to[places[from]] += values[from];
    }
  });
  return {};
}

[[maybe_unused]] const bool registered_pools = [] {
  ffi::add("tpubridge::max_pool", max_pool);
  ffi::add("tpubridge::add_in_planes", add_in_planes);
  return true;
}();

}  // namespace
}  // namespace tpubridge::native
