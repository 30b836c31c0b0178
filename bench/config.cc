// What a configuration costs: making one, and a round trip through JSON.
#include "tpubridge/config/config.h"

#include <benchmark/benchmark.h>

namespace {

using namespace tpubridge;

void config_create(benchmark::State& state) {
  for (auto _ : state) {
    TPUConfig config{.memory_fraction = 0.8};
    benchmark::DoNotOptimize(config);
  }
}
BENCHMARK(config_create)->Repetitions(9)->ReportAggregatesOnly();

void config_json_round_trip(benchmark::State& state) {
  TPUConfig config{.memory_fraction = 0.8};
  for (auto _ : state) {
    TPUConfig back = TPUConfig::from_json(config.to_json());
    benchmark::DoNotOptimize(back);
  }
}
BENCHMARK(config_json_round_trip)->Repetitions(9)->ReportAggregatesOnly();

}  // namespace
