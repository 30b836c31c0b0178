// The inside of a trainer. For the sources of train/.
#pragma once

#include <chrono>

#include "tpubridge/train/error_handler.h"
#include "tpubridge/train/loss_log.h"
#include "tpubridge/train/metrics_log.h"
#include "tpubridge/train/state.h"
#include "tpubridge/train/step_runner.h"

namespace tpubridge {

struct Trainer::Impl {
  Impl(std::shared_ptr<torch::nn::Module> module, LossFunction loss, torch::optim::Optimizer& optimizer,
       TrainerOptions options);

  void begin(DataSource& data);
  TrainResult loop(DataSource& data, DataSource* evaluation);
  [[nodiscard]] bool finished() const;
  // What a step is made of.
  struct Gathered {
    std::vector<Fetched> batches;
    nlohmann::json position;  // of the first
    int64_t epoch = 0;
  };
  [[nodiscard]] std::optional<Gathered> gather();  // nothing where the data ended before a batch came
  bool one_step();
  void take(Gathered gathered);
  // Up to options.steps_per_call of them, not past the next evaluation or checkpoint.
  bool some_steps(bool evaluates);
  [[nodiscard]] int64_t window(bool evaluates) const;
  [[nodiscard]] bool loop_over(std::vector<Gathered>& steps);  // false: nothing has happened

  // One step over these batches; where memory is short, in smaller and smaller parts.
  train::StepResult run(std::vector<Fetched>& batches);
  Fetched fetch();
  double set_rate(int64_t at);  // of all groups; gives the first group's

  // Checkpoints.
  bool resume();
  void save();
  // Takes note of what became of the last save. Where the disk was full, training goes on with a warning.
  void settle();
  [[nodiscard]] bool has_room() const;  // for the checkpoint that could not be written, as it seems
  void finish_saving();                 // the last save is on the disk, or its error is thrown
  [[nodiscard]] nlohmann::json numbers() const;
  void load(const LoadedCheckpoint& from);
  [[nodiscard]] TrainingParts training_parts() const { return {module.get(), &optimizer}; }

  // Memory.
  // Takes the parts that are on the device out of the batches: nothing else should hold them.
  [[nodiscard]] std::vector<MicroBatch> micro_batches(std::vector<Fetched>& batches) const;
  void remember();
  void drop_values();
  void make_room(const TPUOutOfMemoryError& cause, bool half_way);
  // After an error that was told too late for make_room(): false where a batch cannot be split further.
  [[nodiscard]] bool split_further(const TPUBackendError& cause);
  [[nodiscard]] bool can_split() const;
  void tell_memory(const TPUBackendError& cause);

  // What happens every so many steps.
  void report(size_t keep);
  [[nodiscard]] double evaluate(DataSource& data);
  [[nodiscard]] double mean_loss(DataSource& data, int64_t in_parts);
  bool improve(double evaluation);  // false: time to stop

  // After an error of the device or the compiler: true where training goes on from a checkpoint.
  bool recover(const TPUBackendError& error, DataSource& data);
  void go_back(DataSource& data);

  [[noreturn]] void stop_for(const train::NonFinite& bad, DataSource& data);
  [[nodiscard]] std::string find_op(const train::NonFinite& bad, DataSource& data,
                                    const LoadedCheckpoint& from);

  std::shared_ptr<torch::nn::Module> module;
  torch::optim::Optimizer& optimizer;
  const TrainerOptions options;
  at::Device device;
  train::StepRunner runner;
  std::unique_ptr<CheckpointStore> store;
  MetricsLog metrics;
  std::unique_ptr<Prefetcher> ahead;
  train::LossLog losses;
  TPUErrorHandler handler;

  bool saving = false;   // the last save has not been settled
  bool unsaved = false;  // it failed for want of room
  std::chrono::steady_clock::time_point unsaved_since;
  size_t checkpoint_bytes = 0;
  int64_t step = 0, epoch = 0, parts = 1, bad_evaluations = 0;
  nlohmann::json position;         // of the batch that comes next; null before the first
  std::vector<double> base_rates;  // the optimizer's own, by group
  std::optional<double> best, last_evaluation;

  std::optional<LoadedCheckpoint> start;   // where this call of train() began, until there is a checkpoint
  std::optional<CheckpointData> snapshot;  // before a step that is not compiled
  int snapshots_left = 0;
  int64_t collected_at = -1;                                 // the step at which memory was last collected
  bool collected_late = false;                               // once for an error that was told late
  int64_t least_rows = std::numeric_limits<int64_t>::max();  // of a batch of the newest step

  int64_t examples = 0, reported_examples = 0, reported_step = 0, begun_step = 0;
  std::chrono::steady_clock::time_point began, reported;
};

}  // namespace tpubridge
