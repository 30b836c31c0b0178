#include <tpubridge/hlo/hlo.h>
#include <tpubridge/pjrt/discovery.h>

#include <cstdio>

int main() {
  using namespace tpubridge;
  hlo::Builder b;
  const auto x = b.parameter({DType::f32, {3}});
  const auto program = pjrt::open("cpu");
  const auto run = program->compile({b.finish({hlo::multiply(x, x)})});
  const auto in = program->to_device(std::vector<float>{1, 2, 3}, {DType::f32, {3}}, program->devices()[0]);
  const pjrt::Buffer* args[] = {&in};
  const auto out = run.execute(args)[0].to_vector<float>();
  std::printf("%g %g %g from %s\n", out[0], out[1], out[2], program->plugin().path().c_str());
  return out == std::vector<float>{1, 4, 9} ? 0 : 1;
}
