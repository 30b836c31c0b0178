// A trainer: steps over data until enough, with everything that a long run needs around them.
//
//   Trainer trainer(model.ptr(), loss, optimizer, {.steps = 1000, .clip_norm = 1.0,
//                                                  .schedule = schedule::warmup_cosine(50, 1000),
//                                                  .checkpoint_every = 100, .checkpoints = "runs/a"});
//   trainer.resume();                       // from the newest good checkpoint, where there is one
//   auto result = trainer.train(data, &evaluation);
//
// - The step is compiled and replayed (docs/compile.md). Losses stay on the device and are read at every
//   log_every steps, never the newest one, so that the device does not wait for the host.
// - A run that was stopped and resumed gives the same bits as one that was not: model, optimizer, schedule,
//   generators and the place in the data are all in the checkpoint.
// - A disk that is full for a checkpoint or for figures ends no training: a warning tells of each, the last
//   checkpoint stays, and the next save tries again. Only the last one of a run must succeed.
// - SIGTERM and SIGINT end the run after the present step with a checkpoint; the handlers are put back.
// - A loss that is no finite number stops the run with NonFiniteLossError: the step, the batch, and the first
//   op that made it, found by going again from the last checkpoint. The model is then as it was there.
// - Where the device fails or a compile is not done in time, training goes back to the last checkpoint (or to
//   its beginning) and on from there, max_errors times at most.
// - Where the device has too little memory for a batch, the batch is split in halves whose gradients add up.
//   That gives the same step where the loss is a mean over the rows of the batch and no layer mixes rows
//   (batch norm does).
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/host_reads.h"
#include "tpubridge/train/checkpoint_store.h"
#include "tpubridge/train/data.h"
#include "tpubridge/train/schedule.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace tpubridge {

TPUBRIDGE_ERROR(NonFiniteLossError, public virtual TPUBackendError);  // details: step, epoch, batch, loss, op

using LossFunction = std::function<at::Tensor(const Batch&)>;  // the mean over the batch, a scalar

struct Progress {
  int64_t step = 0, steps = 0, epoch = 0;  // steps: of the whole run, 0 where it is not known
  double loss = 0, rate = 0, examples_per_second = 0, seconds = 0;
  std::optional<double> seconds_left = {}, evaluation = {};
};
[[nodiscard]] std::string to_string(const Progress& p);  // one line, for a terminal

struct TrainerOptions {
  int64_t steps = 0, epochs = 0;  // whichever comes first; 0: no such limit, but one of them is needed
  int64_t accumulate = 1;         // batches of the data for one step
  // So many steps are one program, where the device would wait for the host otherwise (small models). They
  // end where an evaluation, a checkpoint or the run does; a signal is seen after them.
  int64_t steps_per_call = 1;
  double clip_norm = 0;  // largest norm of all gradients together; 0: as they are
  Schedule schedule = schedule::constant();
  int64_t log_every = 10;
  int64_t evaluate_every = 0;  // steps; 0: only at the end
  int64_t patience = 0;        // stop after so many evaluations without a better one; 0: never
  int64_t checkpoint_every = 0;
  Path checkpoints = {};  // folder; empty: none are written
  size_t keep = 3;
  Path metrics = {};                    // JSON lines, appended to
  Path tensorboard = {};                // folder of event files
  std::optional<size_t> prefetch = {};  // batches that wait on the device; unset: by their size (data.h)
  HostReads host_reads = HostReads::trace;
  int64_t search_steps = 1000;  // how far back a checkpoint may be for the search of a NaN
  int64_t max_errors = 10;      // of the device, and as many of the compiler; at the last the run ends
  std::function<void(const Progress&)> on_progress = {};  // at every log_every steps
};

struct TrainResult {
  enum class End { finished, early_stop, interrupted };
  End end = End::finished;
  int64_t step = 0, epoch = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();  // of the last step
  std::optional<double> evaluation = {}, best_evaluation = {};
  int64_t parts = 1;  // into which a batch is split for want of memory
  int signal = 0;     // of `interrupted`
};

// How a trainer has gone so far.
struct TrainerMetrics {
  int64_t step = 0, steps = 0, examples = 0;  // steps and examples: since the run began, or cleanup()
  double seconds = 0, steps_per_second = 0, examples_per_second = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();  // the latest that was read
  int64_t parts = 1;                                       // into which a batch is split for want of memory
  int64_t traced_steps = 0;                                // calls that were not replayed; -1 on the CPU
  int64_t compiles = 0, cpu_fallbacks = 0;                 // of the process
  double compile_seconds = 0;
  int64_t device_bytes = 0, peak_device_bytes = 0;  // held by tensors of the device
  int64_t errors = 0;                               // of the device and the compiler, recovered

  [[nodiscard]] std::string to_json() const;
};

class Trainer {
 public:
  // The optimizer must outlive the trainer. Throws TPUConfigurationError for options that make no sense.
  Trainer(std::shared_ptr<torch::nn::Module> module, LossFunction loss, torch::optim::Optimizer& optimizer,
          TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Loads the newest good checkpoint of options.checkpoints; false where there is none at all. Throws
  // TPUCheckpointError where there are some and none can be read, where a newer one than the newest good may
  // be whole (a newer format, no permission, an error of the disk), and where another process trains there.
  bool resume();
  // Moves the checkpoints that are there into a folder of their own beside; gives its path. step() stays.
  std::optional<Path> restart();
  // Goes on from where it is. `evaluation` is gone through once from its beginning for each evaluation.
  TrainResult train(DataSource& data, DataSource* evaluation = nullptr);
  // The mean loss over one epoch of the data, without gradients and in eval mode.
  [[nodiscard]] double evaluate(DataSource& data);
  // Writes a checkpoint now and waits for it.
  void save();
  [[nodiscard]] int64_t step() const;

  // The parts of train(), for a loop of one's own. Each takes a batch on the host or on the device.
  // One optimizer step at the schedule's rate, split where memory is short; gives the loss, on the device and
  // read by nobody. An error of the device is thrown, not recovered: only train() knows its data.
  at::Tensor training_step(const Batch& batch);
  // The loss in eval mode, without gradients.
  [[nodiscard]] at::Tensor prediction_step(const Batch& batch);
  // Batches that are copied to the device ahead of time, as train() has them. The data must outlive it.
  [[nodiscard]] std::unique_ptr<Prefetcher> get_train_dataloader(DataSource& data) const;

  [[nodiscard]] TrainerMetrics get_performance_metrics() const;
  // JSON: `tpu_core` (rank, world_size, device) and the bytes of parameters, buffers, gradients and of all
  // that lives on the device.
  [[nodiscard]] std::string get_model_memory_usage() const;
  [[nodiscard]] std::string print_memory_stats() const;  // the same, for people; nothing is printed
  // The model alone as a checkpoint folder, which TPUBackend::load_model() reads. Waits first; of several
  // processes the first one writes.
  void save_model(const Path& folder) const;
  // Waits for the device and for checkpoints that are being written, and gives up compiled steps and
  // gradients. The trainer can go on.
  void cleanup();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tpubridge
