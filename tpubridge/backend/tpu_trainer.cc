#include "tpubridge/backend/tpu_trainer.h"

#include <torch/nn/module.h>

#include <nlohmann/json.hpp>

#include "tpubridge/backend/optimizer_passes.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/json.h"
#include "tpubridge/train/mapped_data.h"

namespace tpubridge {
namespace {

constexpr TPUPrecision kPrecisions[] = {TPUPrecision::bfloat16, TPUPrecision::float16, TPUPrecision::float32,
                                        TPUPrecision::float64};

[[noreturn]] void refuse(std::string_view key, const std::string& value, const std::string& why,
                         const std::string& hint) {
  throw TPUConfigurationError("Invalid configuration for '" + std::string(key) + "': " + value + " - " + why,
                              {{"parameter", std::string(key)}, {"value", value}}, hint);
}

// The reference's keys that a trainer of one device has no use for, and what does that work.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"num_shards", "TPUModelSharding places a model's layers on several cores."},
    {"shard_axis", "TPUModelSharding places a model's layers on several cores."},
    {"mesh_shape", "compilation_mode pjit and DataParallel split a batch over the devices."},
    {"enable_jax", "Programs are compiled by XLA without JAX."},
    {"enable_auto_scaling", "The devices of a run are those that it began with."},
    {"min_cores", "setup_multi_tpu() takes the number of cores."},
    {"max_cores", "setup_multi_tpu() takes the number of cores."}};

TPUPrecision precision_named(const std::string& name) {
  for (const TPUPrecision p : kPrecisions)
    if (to_string(p) == name) return p;
  refuse("precision", name, "it is no precision", "Precisions are bfloat16, float16, float32 and float64.");
}

TPUTrainerConfig checked(TPUTrainerConfig c) {
  if (c.max_length < 1) refuse("max_length", std::to_string(c.max_length), "it must be at least 1", "");
  if (c.bucket_size < 0)
    refuse("bucket_size", std::to_string(c.bucket_size), "it must not be negative", "0 pads nothing.");
  return c;
}

Config merged(Config config, const TPUTrainerConfig& tpu) {
  config.hardware.tpu.precision = tpu.precision;
  config.hardware.tpu.gradient_checkpointing = tpu.use_memory_efficient;
  return config;
}

}  // namespace

TPUTrainerConfig TPUTrainerConfig::from_json(std::string_view text, std::string_view source) {
  const JsonReader json = JsonReader::of_text(text, source);
  for (const auto& [key, hint] : kElsewhere)
    if (json.has(key))
      refuse(key, json.json()[std::string(key)].dump(), "nothing of a TPUTrainer would follow it",
             std::string(hint) + " Take it out.");
  json.only({"use_flash_attention", "use_memory_efficient", "max_length", "bucket_size", "pad_values",
             "enable_profiling", "precision"});
  TPUTrainerConfig out;
  out.use_flash_attention = json.flag("use_flash_attention", out.use_flash_attention);
  out.use_memory_efficient = json.flag("use_memory_efficient", out.use_memory_efficient);
  out.max_length = json.integer("max_length", out.max_length);
  out.bucket_size = json.integer("bucket_size", out.bucket_size);
  if (json.has("pad_values")) out.pad_values = json.numbers("pad_values");
  out.enable_profiling = json.flag("enable_profiling", out.enable_profiling);
  out.precision = precision_named(json.text("precision", to_string(out.precision)));
  return checked(std::move(out));
}

std::string TPUTrainerConfig::to_json() const {
  return nlohmann::ordered_json({{"use_flash_attention", use_flash_attention},
                                 {"use_memory_efficient", use_memory_efficient},
                                 {"max_length", max_length},
                                 {"bucket_size", bucket_size},
                                 {"pad_values", pad_values},
                                 {"enable_profiling", enable_profiling},
                                 {"precision", to_string(precision)}})
      .dump(2);
}

TPUTrainer::TPUTrainer(std::shared_ptr<torch::nn::Module> module, LossFunction loss,
                       torch::optim::Optimizer& optimizer, TrainerOptions options,
                       TPUTrainerConfig tpu_config, const Config& config)
    : config_(checked(std::move(tpu_config))), backend_(merged(config, config_)) {
  if (!module) throw ArgumentError("a TPUTrainer was given no model");
  backend_.prepare_model(module, OptimizationLevel::O2);
  module->train();
  (void)passes::set_checkpointing(*module, config_.use_memory_efficient);
  passes::set_fused_attention(*module, config_.use_flash_attention);
  if (config_.enable_profiling)
    options.on_progress = [this, told = std::move(options.on_progress)](const Progress& p) {
      profiler_.end_step();
      profiler_.record_step_metrics(p.step, p.loss);
      if (told) told(p);
      profiler_.start_step();
    };
  trainer_ = std::make_unique<Trainer>(std::move(module), std::move(loss), optimizer, std::move(options));
}

Batch TPUTrainer::prepared(const Batch& batch) const {
  if (config_.bucket_size == 0 || batch.empty() || batch[0].dim() != 2 ||
      !c10::isIntegralType(batch[0].scalar_type(), /*includeBool=*/false))
    return batch;
  return DynamicShapeManager({config_.max_length, config_.bucket_size, config_.pad_values})
      .optimize_batch(batch);
}

TrainResult TPUTrainer::train(DataSource& data, DataSource* evaluation) {
  const auto prepare = [this](const Batch& batch) { return prepared(batch); };
  MappedData training(data, prepare);
  std::optional<MappedData> other;
  if (evaluation) other.emplace(*evaluation, prepare);
  if (config_.enable_profiling) profiler_.start_step();
  return trainer_->train(training, other ? &*other : nullptr);
}

}  // namespace tpubridge
