// A training step of a GPT (6 layers, 384 wide, 4×128 tokens, AdamW), the same code four ways: libtorch eager
// on the CPU, traced on the device, replayed on the device, and how long the device takes to trace it.
#include <benchmark/benchmark.h>

#include "tpubridge/tpubridge.h"

namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kLayers = 6, kWidth = 384, kHeads = 6, kVocabulary = 512, kBatch = 4, kLength = 128;

struct BlockImpl : nn::Module {
  BlockImpl()
      : norm1(register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({kWidth})))),
        norm2(register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})))),
        qkv(register_module("qkv", nn::Linear(kWidth, 3 * kWidth))),
        out(register_module("out", nn::Linear(kWidth, kWidth))),
        up(register_module("up", nn::Linear(kWidth, 4 * kWidth))),
        down(register_module("down", nn::Linear(4 * kWidth, kWidth))) {}
  Tensor forward(Tensor x) {
    const auto parts =
        qkv(norm1(x)).view({kBatch, kLength, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const auto a = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
    x = x + out(a.transpose(1, 2).reshape({kBatch, kLength, kWidth}));
    return x + down(torch::gelu(up(norm2(x))));
  }
  nn::LayerNorm norm1, norm2;
  nn::Linear qkv, out, up, down;
};
TORCH_MODULE(Block);

struct Gpt : nn::Module {
  Gpt()
      : tokens(register_module("tokens", nn::Embedding(kVocabulary, kWidth))),
        places(register_module("places", nn::Embedding(kLength, kWidth))),
        norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})))),
        head(register_module("head", nn::Linear(nn::LinearOptions(kWidth, kVocabulary).bias(false)))) {
    for (int64_t i = 0; i < kLayers; ++i) blocks->push_back(Block());
    register_module("blocks", blocks);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = tokens(x) + places->weight;
    return head(norm(blocks->forward(h)));
  }
  nn::Embedding tokens, places;
  nn::LayerNorm norm;
  nn::Linear head;
  nn::Sequential blocks;
};

// A model, its optimizer, a batch, and a step on it.
struct Training {
  explicit Training(torch::Device device) {
    torch::manual_seed(1);
    model->to(device);
    optimizer = std::make_unique<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(1e-3));
    x = torch::randint(kVocabulary, {kBatch, kLength}, torch::kLong).to(device);
    y = torch::randint(kVocabulary, {kBatch, kLength}, torch::kLong).to(device);
  }
  Tensor step(const Tensor& input, const Tensor& target) {
    optimizer->zero_grad();
    const auto loss = torch::cross_entropy_loss(model->forward(input).flatten(0, 1), target.flatten());
    loss.backward();
    optimizer->step();
    return loss.detach();
  }
  std::shared_ptr<Gpt> model = std::make_shared<Gpt>();
  std::unique_ptr<torch::optim::AdamW> optimizer;
  Tensor x, y;
};

void gpt_step_libtorch_eager(benchmark::State& state) {
  Training t(torch::kCPU);
  (void)t.step(t.x, t.y);
  for (auto _ : state) benchmark::DoNotOptimize(t.step(t.x, t.y).item<float>());
}
BENCHMARK(gpt_step_libtorch_eager)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(5);

void gpt_step_traced(benchmark::State& state) {
  Training t(torch::Device("tpu"));
  for (int i = 0; i < 3; ++i) (void)t.step(t.x, t.y).item<float>();
  for (auto _ : state) benchmark::DoNotOptimize(t.step(t.x, t.y).item<float>());
}
BENCHMARK(gpt_step_traced)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(5);

void gpt_step_replayed(benchmark::State& state) {
  Training t(torch::Device("tpu"));
  auto step = tpubridge::compile([&](const Tensor& x, const Tensor& y) { return t.step(x, y); },
                                 {.modules = {t.model}, .optimizers = {t.optimizer.get()}});
  for (int i = 0; i < 4; ++i) (void)step(t.x, t.y).item<float>();
  for (auto _ : state) benchmark::DoNotOptimize(step(t.x, t.y).item<float>());
  if (step.report().replayed == 0) state.SkipWithError(step.report().why_traced.c_str());
}
BENCHMARK(gpt_step_replayed)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(5);

// What the host does for a traced step before the program runs; the trace is dropped, not computed.
void gpt_step_trace_alone(benchmark::State& state) {
  Training t(torch::Device("tpu"));
  for (int i = 0; i < 2; ++i) (void)t.step(t.x, t.y).item<float>();
  for (auto _ : state) {
    t.optimizer->zero_grad();
    const auto loss = torch::cross_entropy_loss(t.model->forward(t.x).flatten(0, 1), t.y.flatten());
    loss.backward();
  }
}
BENCHMARK(gpt_step_trace_alone)->Unit(benchmark::kMillisecond)->Iterations(10);

}  // namespace
