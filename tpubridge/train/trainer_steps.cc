// The trainer's parts one by one: a step, a prediction, figures, the model in a file.
#include <torch/nn/module.h>

#include "tpubridge/base/text.h"
#include "tpubridge/device/api.h"
#include "tpubridge/device/bytes.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/train/eval_scope.h"
#include "tpubridge/train/trainer_impl.h"

namespace tpubridge {
namespace {

using Json = nlohmann::ordered_json;

// {bytes, peak}; of the CPU nobody keeps an account.
DeviceMemory memory_of(const at::Device& device) {
  return device.is_cpu() ? DeviceMemory{} : device_memory(device.index());
}

// Everything that was asked of the device is done: programs run in order.
void wait_for(const at::Device& device) {
  if (device.is_cpu()) return;
  sync();
  sync({at::full({}, 1.5, at::TensorOptions(device)).neg()});
}

struct ModelBytes {
  int64_t parameters, buffers, gradients;
};
ModelBytes model_bytes(const torch::nn::Module& module) {
  std::vector<at::Tensor> gradients;
  for (const auto& p : module.parameters()) gradients.push_back(p.grad());
  return {bytes_of(module.parameters()), bytes_of(module.buffers()), bytes_of(gradients)};
}

}  // namespace

at::Tensor Trainer::training_step(const Batch& batch) {
  Impl& m = *impl_;
  if (batch.empty()) throw ArgumentError("training_step was given an empty batch");
  if (m.began == std::chrono::steady_clock::time_point{}) {
    m.began = std::chrono::steady_clock::now();
    m.begun_step = m.step;
    m.snapshots_left = 6;
  }
  m.module->train();
  (void)m.set_rate(m.step);
  std::vector<Fetched> one(1);
  one[0].host = batch;
  const train::StepResult result = m.run(one);
  ++m.step;
  m.examples += one[0].examples();
  return result.loss;
}

at::Tensor Trainer::prediction_step(const Batch& batch) {
  if (batch.empty()) throw ArgumentError("prediction_step was given an empty batch");
  const EvalScope scope(*impl_->module);
  return impl_->runner.evaluate(split(batch, 1, impl_->device)[0].batch);
}

std::unique_ptr<Prefetcher> Trainer::get_train_dataloader(DataSource& data) const {
  return std::make_unique<Prefetcher>(data, impl_->device, impl_->options.prefetch, impl_->parts);
}

TrainerMetrics Trainer::get_performance_metrics() const {
  const Impl& m = *impl_;
  const Metrics all = metrics();
  const DeviceMemory memory = memory_of(m.device);
  TrainerMetrics out;
  out.step = m.step;
  out.examples = m.examples;
  if (m.began != std::chrono::steady_clock::time_point{}) {
    out.steps = m.step - m.begun_step;
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - m.began).count();
  }
  if (out.seconds > 0) {
    out.steps_per_second = static_cast<double>(out.steps) / out.seconds;
    out.examples_per_second = static_cast<double>(out.examples) / out.seconds;
  }
  if (m.losses.step() > 0) out.loss = m.losses.loss();
  out.parts = m.parts;
  out.traced_steps = m.runner.traced();
  out.compiles = all.compiles;
  out.compile_seconds = all.compile_seconds;
  out.cpu_fallbacks = all.fallback_count();
  out.device_bytes = memory.live;
  out.peak_device_bytes = memory.peak;
  out.errors = m.handler.error_count();
  return out;
}

std::string TrainerMetrics::to_json() const {
  return Json{{"step", step},
              {"steps", steps},
              {"examples", examples},
              {"seconds", seconds},
              {"steps_per_second", steps_per_second},
              {"examples_per_second", examples_per_second},
              {"loss", loss},  // null where none was read
              {"parts", parts},
              {"traced_steps", traced_steps},
              {"compiles", compiles},
              {"compile_seconds", compile_seconds},
              {"cpu_fallbacks", cpu_fallbacks},
              {"device_bytes", device_bytes},
              {"peak_device_bytes", peak_device_bytes},
              {"errors", errors}}
      .dump(2);
}

std::string Trainer::get_model_memory_usage() const {
  const Impl& m = *impl_;
  const bool host = m.device.is_cpu();
  const ModelBytes b = model_bytes(*m.module);
  const DeviceMemory memory = memory_of(m.device);
  return Json{{"tpu_core",
               {{"rank", host ? 0 : exec::client().process_index()},
                {"world_size", host ? 1 : static_cast<int>(exec::client().devices().size())},
                {"device", m.device.str()}}},
              {"parameter_bytes", b.parameters},
              {"buffer_bytes", b.buffers},
              {"gradient_bytes", b.gradients},
              {"device_bytes", memory.live},
              {"peak_device_bytes", memory.peak},
              {"limit_bytes", memory.limit}}
      .dump(2);
}

std::string Trainer::print_memory_stats() const {
  const Impl& m = *impl_;
  const ModelBytes b = model_bytes(*m.module);
  const DeviceMemory memory = memory_of(m.device);
  std::string out = m.device.str() + ": parameters " + mb(b.parameters) + ", buffers " + mb(b.buffers) +
                    ", gradients " + mb(b.gradients);
  if (m.device.is_cpu()) return out;
  out += "; in use " + mb(memory.live) + ", peak " + mb(memory.peak);
  if (memory.limit > 0) out += " of " + mb(memory.limit);
  return out;
}

void Trainer::save_model(const Path& folder) const {
  const Impl& m = *impl_;
  wait_for(m.device);
  if (!m.device.is_cpu() && exec::client().process_index() != 0) return;
  write_checkpoint(folder, capture({m.module.get(), nullptr, /*generators=*/false}, {{"step", m.step}}));
}

void Trainer::cleanup() {
  Impl& m = *impl_;
  m.ahead.reset();
  m.losses.clear();
  if (m.store) m.store->wait();
  wait_for(m.device);
  m.runner.reset();
  m.snapshot.reset();
  m.began = {};
  m.examples = m.reported_examples = 0;
}

}  // namespace tpubridge
