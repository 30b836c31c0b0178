// What the backend costs where there is nothing to do: a model that was prepared before, waiting for an idle
// device.
#include "tpubridge/backend/tpu_backend.h"

#include <benchmark/benchmark.h>
#include <torch/torch.h>

namespace {

using namespace tpubridge;

TPUBackend& backend() {
  static auto* b = new TPUBackend;
  return *b;
}

void cached_prepare_model(benchmark::State& state) {
  const auto model = std::make_shared<torch::nn::LinearImpl>(64, 64);
  backend().prepare_model(model);
  for (auto _ : state) benchmark::DoNotOptimize(backend().prepare_model(model));
}
BENCHMARK(cached_prepare_model)->Repetitions(9)->ReportAggregatesOnly();

void idle_synchronize(benchmark::State& state) {
  backend().synchronize();
  for (auto _ : state) backend().synchronize();
}
BENCHMARK(idle_synchronize)->Repetitions(9)->ReportAggregatesOnly();

void allocate_tensor(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(backend().allocate_tensor({64, 64}));
}
BENCHMARK(allocate_tensor)->Repetitions(9)->ReportAggregatesOnly();

}  // namespace
