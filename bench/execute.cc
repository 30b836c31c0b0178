// What our layer costs over the raw C call: a tiny program, executed and awaited, both ways in one run.
#include <benchmark/benchmark.h>

#include "pjrt_c_api.h"
#include "tpubridge/pjrt/client.h"

namespace {

using namespace tpubridge;
using namespace tpubridge::pjrt;

const char* const kAdd = R"(func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.add %a, %b : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
})";

struct Setup {
  std::shared_ptr<Client> client =
      Client::create(Plugin::load(CPU_PLUGIN), {{"cpu_device_count", int64_t{1}}});
  LoadedExecutable program = client->compile({kAdd});
  Buffer a = client->to_device(std::vector<float>(64, 1.f), {DType::f32, {8, 8}}, client->devices()[0]);
  Buffer b = client->to_device(std::vector<float>(64, 2.f), {DType::f32, {8, 8}}, client->devices()[0]);
};
Setup& setup() {
  static Setup s;
  return s;
}

void wrapped_execute(benchmark::State& state) {
  const Setup& s = setup();
  const Buffer* args[] = {&s.a, &s.b};
  for (auto _ : state) {
    const auto out = s.program.execute(args);
    out[0].wait();
  }
}
BENCHMARK(wrapped_execute)->UseRealTime()->Repetitions(9)->ReportAggregatesOnly();

// The same five C calls with nothing checked: execute, ready event, await, destroy event, destroy buffer.
void raw_execute(benchmark::State& state) {
  const Setup& s = setup();
  const PJRT_Api* api = s.client->plugin().api();
  PJRT_Buffer* in[] = {s.a.raw(), s.b.raw()};
  PJRT_Buffer* out[] = {nullptr};
  PJRT_Buffer* const* in_lists[] = {in};
  PJRT_Buffer** out_lists[] = {out};
  for (auto _ : state) {
    PJRT_ExecuteOptions options{};
    options.struct_size = sizeof options;
    PJRT_LoadedExecutable_Execute_Args execute{};
    execute.struct_size = sizeof execute;
    execute.executable = s.program.raw();
    execute.options = &options;
    execute.argument_lists = in_lists;
    execute.num_devices = 1;
    execute.num_args = 2;
    execute.output_lists = out_lists;
    if (api->PJRT_LoadedExecutable_Execute(&execute)) state.SkipWithError("execute failed");
    PJRT_Buffer_ReadyEvent_Args ready{};
    ready.struct_size = sizeof ready;
    ready.buffer = out[0];
    api->PJRT_Buffer_ReadyEvent(&ready);
    PJRT_Event_Await_Args await{};
    await.struct_size = sizeof await;
    await.event = ready.event;
    api->PJRT_Event_Await(&await);
    PJRT_Event_Destroy_Args drop_event{};
    drop_event.struct_size = sizeof drop_event;
    drop_event.event = ready.event;
    api->PJRT_Event_Destroy(&drop_event);
    PJRT_Buffer_Destroy_Args drop{};
    drop.struct_size = sizeof drop;
    drop.buffer = out[0];
    api->PJRT_Buffer_Destroy(&drop);
  }
}
BENCHMARK(raw_execute)->UseRealTime()->Repetitions(9)->ReportAggregatesOnly();

// Asynchronous: the call alone, as a training loop sees it.
void wrapped_execute_async(benchmark::State& state) {
  const Setup& s = setup();
  const Buffer* args[] = {&s.a, &s.b};
  for (auto _ : state) benchmark::DoNotOptimize(s.program.execute(args));
}
BENCHMARK(wrapped_execute_async)->UseRealTime()->Repetitions(9)->ReportAggregatesOnly();

void host_to_device(benchmark::State& state) {
  const Setup& s = setup();
  const std::vector<float> values(static_cast<size_t>(state.range(0)), 1.f);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        s.client->to_device(values, {DType::f32, {state.range(0)}}, s.client->devices()[0]));
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}
BENCHMARK(host_to_device)->Arg(64)->Arg(1 << 20)->UseRealTime();

void device_to_host(benchmark::State& state) {
  const Setup& s = setup();
  std::vector<float> values(static_cast<size_t>(state.range(0)), 1.f);
  const Buffer b = s.client->to_device(values, {DType::f32, {state.range(0)}}, s.client->devices()[0]);
  for (auto _ : state) b.to_host(values.data(), values.size() * 4);
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}
BENCHMARK(device_to_host)->Arg(64)->Arg(1 << 20)->UseRealTime();

void compile_tiny(benchmark::State& state) {
  const Setup& s = setup();
  for (auto _ : state) benchmark::DoNotOptimize(s.client->compile({kAdd}));
}
BENCHMARK(compile_tiny)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
