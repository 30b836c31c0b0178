// What the trainer costs over a bare loop: the same model, data and compiled step, with the batches copied to
// the device in the loop itself and nothing else around it.
#include <benchmark/benchmark.h>

#include "examples/models/gpt.h"
#include "tpubridge/tpubridge.h"
#include "tpubridge/train/datasets.h"
#include "tpubridge/train/trainer.h"

namespace {

using tpubridge::Batch;
constexpr int64_t kSteps = 60, kSettled = 10, kVocabulary = 64, kBatch = 8;
const models::GptConfig kShape{kVocabulary, 64, 2, 4, 128};

struct Setup {
  Setup() {
    torch::manual_seed(1);
    std::vector<int64_t> tokens(20000);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i * i % kVocabulary);
    data = std::make_unique<tpubridge::TextData>(tokens, kShape.context, kBatch);
    model->to(torch::Device("tpu"));
    optimizer = std::make_unique<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(1e-3));
  }
  torch::Tensor loss(const Batch& b) {
    return torch::cross_entropy_loss(model->forward(b[0]).flatten(0, 1), b[1].flatten());
  }
  std::unique_ptr<tpubridge::TextData> data;
  std::shared_ptr<models::GptImpl> model = std::make_shared<models::GptImpl>(kShape);
  std::unique_ptr<torch::optim::AdamW> optimizer;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void bare_loop(benchmark::State& state) {
  Setup s;
  auto step = tpubridge::compile(
      [&](const Batch& b) {
        s.optimizer->zero_grad();
        const auto loss = s.loss(b);
        loss.backward();
        tpubridge::clip_grad_norm_(s.model->parameters(), 1.0);
        s.optimizer->step();
        return loss.detach();
      },
      {.modules = {s.model}, .optimizers = {s.optimizer.get()}});
  for (auto _ : state) {
    double began = 0;
    torch::Tensor loss;
    for (int64_t i = 0; i < kSteps; ++i) {
      if (i == kSettled) (void)loss.item<float>(), began = now();
      auto batch = s.data->next();
      if (!batch) batch = s.data->next();
      for (auto& t : *batch) t = t.to(torch::Device("tpu"));
      loss = step(*batch);
    }
    benchmark::DoNotOptimize(loss.item<float>());
    state.SetIterationTime((now() - began) / (kSteps - kSettled));
  }
}
BENCHMARK(bare_loop)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(3);

void trainer_loop(benchmark::State& state) {
  for (auto _ : state) {
    Setup s;
    double began = 0;
    tpubridge::Trainer trainer(
        s.model, [&](const Batch& b) { return s.loss(b); }, *s.optimizer,
        {.steps = kSteps, .clip_norm = 1, .log_every = kSettled, .on_progress = [&](const auto& p) {
           if (p.step < kSettled) began = now();
         }});
    const auto result = trainer.train(*s.data);
    benchmark::DoNotOptimize(result.loss);
    state.SetIterationTime((now() - began) / (kSteps - kSettled));
  }
}
BENCHMARK(trainer_loop)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(3);

}  // namespace
