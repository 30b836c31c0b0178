// A model of two layers, the same on the host, and the process as it was after each test.
#pragma once

#include "tests/backend/net.h"
#include "tests/backend/process.h"
#include "tpubridge/backend/xla_compiler.h"

namespace tpubridge {

struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(int64_t wide = 16) {
    first = register_module("first", torch::nn::Linear(8, wide));
    last = register_module("last", torch::nn::Linear(wide, 4));
  }
  torch::Tensor forward(torch::Tensor x) { return last(torch::relu(first(std::move(x)))); }
  torch::nn::Linear first{nullptr}, last{nullptr};
};
TORCH_MODULE(Mlp);

// The same on the host, before the model goes away.
inline torch::Tensor on_host(const Mlp& m, const torch::Tensor& x) {
  const torch::NoGradGuard no_grad;
  const auto f = [](const torch::nn::Linear& l, const torch::Tensor& t) {
    return torch::linear(t, l->weight.cpu(), l->bias.cpu());
  };
  return f(m->last, torch::relu(f(m->first, x)));
}

inline TPUConfig in_mode(CompilationMode mode, bool strict = false) {
  return TPUConfig{.compilation_mode = mode, .enable_strict_validation = strict};
}

class TestXLACompiler : public RestoresTheProcess {
 protected:
  void SetUp() override {
    RestoresTheProcess::SetUp();
    torch::manual_seed(5);
  }
};
class Compiler : public TestXLACompiler {};

}  // namespace tpubridge
