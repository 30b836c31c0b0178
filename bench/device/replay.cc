// What replaying a compiled step costs over executing its program by PJRT's C++ layer alone: N state tensors
// that are read, overwritten and donated, and one argument.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include "tpubridge/device/api.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/step/compile.h"

namespace {

using tpubridge::DType;
using tpubridge::Shape;

// The same program by hand: state i + x, each state donated.
std::string program(int64_t n) {
  std::string head, body, results, types;
  for (int64_t i = 0; i < n; ++i) {
    const std::string k = std::to_string(i);
    head += "%s" + k + ": tensor<8xf32> {tf.aliasing_output = " + k + " : i32}, ";
    body += "  %r" + k + " = stablehlo.add %s" + k + ", %x : tensor<8xf32>\n";
    results += (i ? ", %r" : "%r") + k;
    types += i ? ", tensor<8xf32>" : "tensor<8xf32>";
  }
  return "func.func @main(" + head + "%x: tensor<8xf32>) -> (" + types + ") {\n" + body + "  return " +
         results + " : " + types + "\n}";
}

void raw_execute_of_state(benchmark::State& state) {
  const int64_t n = state.range(0);
  auto& client = tpubridge::exec::client();
  const auto exe = client.compile({program(n)});
  const std::vector<float> ones(8, 1);
  auto upload = [&] { return client.to_device(ones, Shape{DType::f32, {8}}, tpubridge::exec::device(0)); };
  std::vector<tpubridge::pjrt::Buffer> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(upload());
  const auto x = upload();
  std::vector<const tpubridge::pjrt::Buffer*> arguments;
  for (auto _ : state) {
    arguments.clear();
    for (const auto& v : values) arguments.push_back(&v);
    arguments.push_back(&x);
    values = exe.execute(arguments);
    values[0].wait();
  }
}
BENCHMARK(raw_execute_of_state)->Arg(1)->Arg(100)->Arg(400)->UseRealTime();

void replayed_step(benchmark::State& state) {
  at::NoGradGuard guard;
  const at::Device tpu("tpu");
  std::vector<at::Tensor> values;
  for (int64_t i = 0; i < state.range(0); ++i) values.push_back(at::ones({8}).to(tpu));
  const auto x = at::ones({8}).to(tpu);
  auto step = tpubridge::compile([&](const at::Tensor& add) {
    for (auto& v : values) v.add_(add);
  });
  for (int i = 0; i < 3; ++i) step(x);
  for (auto _ : state) {
    step(x);
    tpubridge::sync(values[0]);
  }
  if (step.report().replayed == 0) state.SkipWithError(step.report().why_traced.c_str());
}
BENCHMARK(replayed_step)->Arg(1)->Arg(100)->Arg(400)->UseRealTime();

}  // namespace
