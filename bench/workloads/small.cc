// Workloads of one call: a tiny program, a long chain of elementwise ops, transfers, tracing.
#include "bench/workloads/workload.h"

namespace workloads {
namespace {

using torch::Tensor;

// A function of one tensor, compiled or not.
Workload of(Mode mode, Tensor x, std::function<Tensor(const Tensor&)> f) {
  if (mode != Mode::replayed)
    return {[=] {
      torch::NoGradGuard quiet;
      wait(f(x));
    }};
  auto step = std::make_shared<tpubridge::CompiledStep<decltype(f)>>(tpubridge::compile(f));
  Workload w;
  w.call = [=] {
    torch::NoGradGuard quiet;
    wait((*step)(x));
  };
  w.many = [=](int64_t n) {
    torch::NoGradGuard quiet;
    Tensor last;
    for (int64_t i = 0; i < n; ++i) last = (*step)(x);
    wait(last);
  };
  return w;
}

}  // namespace

Workload tiny(Mode mode, const Params&) {
  const auto b = torch::ones({8, 8}).to(device_of(mode));
  return of(mode, torch::ones({8, 8}).to(device_of(mode)), [b](const Tensor& a) { return a + b; });
}

Workload chain(Mode mode, const Params& p) {
  const int64_t rounds = p.number("ops") / 4;
  const auto b = torch::full({p.number("size")}, 0.25).to(device_of(mode));
  return of(mode, torch::rand({p.number("size")}).to(device_of(mode)), [=](const Tensor& a) {
    Tensor x = a;
    for (int64_t i = 0; i < rounds; ++i) x = torch::maximum(x * b + a, x - b);
    return x;
  });
}

Workload to_device(Mode mode, const Params& p) {
  const auto x = torch::rand({p.number("size")});
  const auto device = device_of(mode);
  return {[=] { wait(x.to(device)); }};
}

Workload to_host(Mode mode, const Params& p) {
  const auto x = torch::rand({p.number("size")}).to(device_of(mode));
  wait(x);
  return {[=] { (void)x.to(torch::kCPU).data_ptr(); }};
}

// One call is one op; nothing is computed: the trace is dropped as it grows.
Workload trace(Mode mode, const Params&) {
  const auto a = torch::ones({64, 64}).to(device_of(mode)), b = torch::ones({64, 64}).to(device_of(mode));
  return {[=] {
    torch::NoGradGuard quiet;
    (void)(a + b);
  }};
}

}  // namespace workloads
