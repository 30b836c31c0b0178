#include "tpubridge/lower/host_convolution.h"

#include <utility>

#include "tpubridge/hlo/host_call.h"
#include "tpubridge/lower/runs_here.h"

namespace tpubridge::lower {
namespace {

struct Sizes {
  Dims x, w, y;
  [[nodiscard]] double multiplications() const {
    return static_cast<double>(product(y)) * static_cast<double>(product(w)) / static_cast<double>(w[0]);
  }
};

// What was measured (docs/performance.md): from so many multiplications on libtorch's kernels take less time
// than XLA's. Groups are a loop in XLA's; with few input channels libtorch's gradient of the input is slow.
constexpr double kLeast = 5e6, kLeastOfGroups = 5e5;
constexpr int64_t kLeastInputs = 8;

bool pays(ConvPart part, const Sizes& s, const Conv& v, DType dtype) {
  if (!kMeasuredHere) return false;
  if (dtype != DType::f32) return false;
  if (v.groups > 1) return s.multiplications() >= kLeastOfGroups;
  if (part == ConvPart::input_gradient && s.w[1] < kLeastInputs) return false;
  return s.multiplications() >= kLeast;
}

// With output padding of a stride or more some elements of x belong to no window.
bool fit(const Sizes& s, const Conv& v) {
  for (size_t i = 0; i < v.stride.size(); ++i) {
    const int64_t reach = v.dilation[i] * (s.w[i + 2] - 1) + 1, room = s.x[i + 2] + 2 * v.padding[i] - reach;
    if (room < 0 || room / v.stride[i] + 1 != s.y[i + 2]) return false;
  }
  return s.x[0] == s.y[0] && s.x[1] == s.w[1] * v.groups && s.y[1] == s.w[0] && s.w[0] % v.groups == 0;
}

Sizes sizes_of(ConvPart part, const Dims& first, const Dims& second, const Dims& made) {
  if (part == ConvPart::forward) return {first, second, made};
  if (part == ConvPart::input_gradient) return {made, second, first};
  return {first, made, second};
}

thread_local bool here = false;

std::string_view name_of(ConvPart part) {
  if (part == ConvPart::forward) return "tpubridge::convolution";
  return part == ConvPart::input_gradient ? "tpubridge::convolution_input_gradient"
                                          : "tpubridge::convolution_kernel_gradient";
}

}  // namespace

RunsHere::RunsHere(bool it) : before_(std::exchange(here, it)) {}
RunsHere::~RunsHere() { here = before_; }
bool runs_here() { return here; }

std::optional<Value> host_convolution(ConvPart part, Value first, Value second, std::optional<Value> bias,
                                      const Dims& dims, const Conv& v) {
  if (!runs_here() || v.platform != Platform::cpu || v.spatial < 1 || v.spatial > 3) return std::nullopt;
  const Sizes s = sizes_of(part, first.dims(), second.dims(), dims);
  if (product(s.x) == 0 || product(s.w) == 0 || product(s.y) == 0 || !fit(s, v)) return std::nullopt;
  if (!pays(part, s, v, first.dtype()) || second.dtype() != first.dtype()) return std::nullopt;
  if (bias && bias->shape() != Shape{first.dtype(), {s.w[0]}}) return std::nullopt;
  hlo::Values operands{first, second};
  if (bias) operands.push_back(*bias);
  return hlo::host_call(
      first.builder(), name_of(part), operands, {Shape{first.dtype(), dims}},
      {{"stride", v.stride}, {"padding", v.padding}, {"dilation", v.dilation}, {"groups", v.groups}})[0];
}

}  // namespace tpubridge::lower
