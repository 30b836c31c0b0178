// What tracing an op costs over libtorch's own dispatch: the same schema through a kernel that does nothing
// (the null backend), and through ours. Nothing is executed inside the timed part: the trace is dropped as it
// grows.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <torch/library.h>

#include "tpubridge/device/api.h"

namespace {

// The null backend: gives its first argument back, for each result.
void null_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t n = op.schema().arguments().size();
  const at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
  torch::jit::drop(*stack, n);
  for (size_t i = 0; i < op.schema().returns().size(); ++i) stack->emplace_back(self);
}

TORCH_LIBRARY(tpubridge_bench, m) {
  m.def("add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  m.def("mm(Tensor self, Tensor mat2) -> Tensor");
  m.def(
      "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
      "-> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(tpubridge_bench, PrivateUse1, m) {
  for (const char* name : {"add", "mm", "native_layer_norm"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&null_kernel>());
}

at::Tensor on_device(at::IntArrayRef sizes) {
  auto t = at::ones(sizes).to(at::Device("tpu"));
  tpubridge::sync();
  return t;
}

// Ops of torch pass a kernel of autograd's first, which the null backend's have not: measured without it.
using Below = at::AutoDispatchBelowADInplaceOrView;

auto null_op(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

void null_add(benchmark::State& state) {
  Below guard;
  const auto a = on_device({64, 64}), b = on_device({64, 64});
  static const auto op = null_op("tpubridge_bench::add")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Scalar&)>();
  for (auto _ : state) benchmark::DoNotOptimize(op.call(a, b, 1));
}
BENCHMARK(null_add);

void traced_add(benchmark::State& state) {
  Below guard;
  const auto a = on_device({64, 64}), b = on_device({64, 64});
  for (auto _ : state) benchmark::DoNotOptimize(at::add(a, b));
}
BENCHMARK(traced_add);

// With a number that is an input of the program.
void traced_add_scalar(benchmark::State& state) {
  Below guard;
  const auto a = on_device({64, 64});
  for (auto _ : state) benchmark::DoNotOptimize(at::add(a, 0.5));
}
BENCHMARK(traced_add_scalar);

void null_mm(benchmark::State& state) {
  Below guard;
  const auto a = on_device({64, 64}), b = on_device({64, 64});
  static const auto op =
      null_op("tpubridge_bench::mm").typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  for (auto _ : state) benchmark::DoNotOptimize(op.call(a, b));
}
BENCHMARK(null_mm);

void traced_mm(benchmark::State& state) {
  Below guard;
  const auto a = on_device({64, 64}), b = on_device({64, 64});
  for (auto _ : state) benchmark::DoNotOptimize(at::mm(a, b));
}
BENCHMARK(traced_mm);

// One operand is a view that must be read.
void traced_mm_of_transposed(benchmark::State& state) {
  Below guard;
  const auto a = on_device({64, 64}), b = on_device({64, 64}).t();
  for (auto _ : state) benchmark::DoNotOptimize(at::mm(a, b));
}
BENCHMARK(traced_mm_of_transposed);

void null_layer_norm(benchmark::State& state) {
  Below guard;
  const auto x = on_device({32, 64});
  const std::optional<at::Tensor> w = on_device({64}), b = on_device({64});
  static const auto op = null_op("tpubridge_bench::native_layer_norm")
                             .typed<std::tuple<at::Tensor, at::Tensor, at::Tensor>(
                                 const at::Tensor&, c10::SymIntArrayRef, const std::optional<at::Tensor>&,
                                 const std::optional<at::Tensor>&, double)>();
  const c10::SymInt sizes[] = {64};
  for (auto _ : state) benchmark::DoNotOptimize(op.call(x, sizes, w, b, 1e-5));
}
BENCHMARK(null_layer_norm);

void traced_layer_norm(benchmark::State& state) {
  Below guard;
  const auto x = on_device({32, 64}), w = on_device({64}), b = on_device({64});
  for (auto _ : state) benchmark::DoNotOptimize(at::native_layer_norm(x, {64}, w, b, 1e-5));
}
BENCHMARK(traced_layer_norm);

}  // namespace
