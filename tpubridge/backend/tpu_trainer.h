// A Trainer on a model that was made ready for the TPU, by the keys of the reference's `tpu_config`.
//
//   TPUTrainer trainer(model, loss, optimizer, {.steps = 1000}, {.max_length = 512, .bucket_size = 64});
//   auto result = trainer.train(data);
//
// The model is brought to the device in place, in the types of the level balanced (docs/optimizer.md); its
// parameters stay the same objects, so an optimizer may be made before. Everything else is the Trainer's
// (train/trainer.h), which trainer() gives.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tpubridge/backend/tpu_backend.h"
#include "tpubridge/train/buckets.h"
#include "tpubridge/train/profiler.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge {

struct TPUTrainerConfig {
  bool use_flash_attention = true;   // FusedMultiheadAttention layers are one op (fused_attention.h)
  bool use_memory_efficient = true;  // gradient checkpointing (optimizer_passes.h)
  // Batches of whole numbers [rows, length] are padded to multiples of bucket_size, and get a mask behind
  // their other tensors; longer than max_length is an ArgumentError. Other batches stay as they are. 0: off.
  int64_t max_length = 2048, bucket_size = 64;
  std::vector<double> pad_values = {0, -100};  // of the i-th tensor; cross entropy ignores -100
  bool enable_profiling = false;               // profile() has the time of every log_every steps
  TPUPrecision precision = TPUPrecision::bfloat16;

  // Throws ConfigurationError for a key that is not known, with the nearest one, or of a wrong type;
  // TPUConfigurationError for a value that is none, and for the reference's keys that nothing here would
  // follow (num_shards, shard_axis, mesh_shape, enable_jax, enable_auto_scaling, min_cores, max_cores).
  [[nodiscard]] static TPUTrainerConfig from_json(std::string_view text, std::string_view source = "JSON");
  [[nodiscard]] std::string to_json() const;
};

class TPUTrainer {
 public:
  // `config`: of the backend; precision and gradient_checkpointing come from `tpu_config`. The optimizer must
  // outlive the trainer.
  TPUTrainer(std::shared_ptr<torch::nn::Module> module, LossFunction loss, torch::optim::Optimizer& optimizer,
             TrainerOptions options, TPUTrainerConfig tpu_config = {},
             const Config& config = Config(Mode::training));
  TPUTrainer(const TPUTrainer&) = delete;
  TPUTrainer& operator=(const TPUTrainer&) = delete;

  TrainResult train(DataSource& data, DataSource* evaluation = nullptr);
  // One batch as train() would have it.
  [[nodiscard]] Batch prepared(const Batch& batch) const;

  [[nodiscard]] Trainer& trainer() { return *trainer_; }
  [[nodiscard]] TPUBackend& backend() { return backend_; }
  [[nodiscard]] const TPUTrainerConfig& config() const { return config_; }
  [[nodiscard]] ProfilerMetrics profile() const { return profiler_.get_metrics(); }  // no steps without it

 private:
  TPUTrainerConfig config_;
  TPUBackend backend_;
  TPUPerformanceProfiler profiler_{/*enable_detailed=*/true};
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace tpubridge
