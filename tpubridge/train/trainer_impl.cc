// A trainer's beginning, its learning rate, and its checkpoints.
#include "tpubridge/train/trainer_impl.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "tpubridge/base/json.h"
#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

TrainerOptions checked(TrainerOptions o) {
  const auto refuse = [](const std::string& field, int64_t value, const std::string& reason) {
    throw TPUConfigurationError(
        "Invalid configuration for '" + field + "': " + std::to_string(value) + " - " + reason,
        {{"parameter", field}, {"value", std::to_string(value)}});
  };
  const std::pair<const char*, int64_t> not_negative[] = {{"steps", o.steps},
                                                          {"epochs", o.epochs},
                                                          {"evaluate_every", o.evaluate_every},
                                                          {"patience", o.patience},
                                                          {"checkpoint_every", o.checkpoint_every},
                                                          {"search_steps", o.search_steps},
                                                          {"max_errors", o.max_errors}};
  for (const auto& [field, value] : not_negative)
    if (value < 0) refuse(field, value, "it must not be negative");
  if (o.steps == 0 && o.epochs == 0) refuse("steps", 0, "either steps or epochs must be given");
  if (o.accumulate < 1) refuse("accumulate", o.accumulate, "it must be at least 1");
  if (o.steps_per_call < 1) refuse("steps_per_call", o.steps_per_call, "it must be at least 1");
  if (o.steps_per_call > 1 && o.accumulate > 1)
    refuse("steps_per_call", o.steps_per_call, "steps of several batches (accumulate) are no one program");
  if (o.log_every < 1) refuse("log_every", o.log_every, "it must be at least 1");
  if (o.checkpoint_every > 0 && o.checkpoints.empty())
    refuse("checkpoint_every", o.checkpoint_every, "there is no folder: set checkpoints");
  if (!(o.clip_norm >= 0))
    throw TPUConfigurationError("Invalid configuration for 'clip_norm': " + std::to_string(o.clip_norm) +
                                    " - it must not be negative",
                                {{"parameter", "clip_norm"}});
  if (!o.schedule) throw TPUConfigurationError("Invalid configuration for 'schedule': it is empty");
  return o;
}

// What may be done about checkpoints that cannot be read.
std::string start_anew(const TPUCheckpointError& e) {
  return (is_damage(e) ? "No checkpoint of the folder can be read. " : e.hint() + " ") +
         "To start from the beginning and keep the checkpoints in a folder beside, use --restart "
         "(Trainer::restart()).";
}

at::Device device_of(const std::shared_ptr<torch::nn::Module>& module) {
  if (!module) throw ArgumentError("a trainer without a module");
  const auto parameters = module->parameters();
  if (parameters.empty()) throw ArgumentError("the module has no parameters: there is nothing to train");
  return parameters[0].device();
}

}  // namespace

Trainer::Impl::Impl(std::shared_ptr<torch::nn::Module> module_in, LossFunction loss,
                    torch::optim::Optimizer& optimizer_in, TrainerOptions options_in)
    : module(std::move(module_in)),
      optimizer(optimizer_in),
      options(checked(std::move(options_in))),
      device(device_of(module)),
      runner(module, std::move(loss), optimizer, options.clip_norm, options.host_reads),
      metrics(options.metrics, options.tensorboard),
      handler({.max_errors = options.max_errors}) {
  if (!options.checkpoints.empty())
    store = std::make_unique<CheckpointStore>(options.checkpoints, StoreOptions{.keep = options.keep});
  for (auto& group : optimizer.param_groups()) base_rates.push_back(group.options().get_lr());
}

void Trainer::Impl::begin(DataSource& data) {
  if (position.is_null())
    position = data.position();
  else
    data.seek(position);
  module->train();
  losses.clear();
  ahead = std::make_unique<Prefetcher>(data, device, options.prefetch, parts);
  start = LoadedCheckpoint{{step, {}}, capture(training_parts(), numbers())};
  snapshots_left = 6;
  began = reported = std::chrono::steady_clock::now();
  begun_step = reported_step = step;
  examples = reported_examples = 0;
}

double Trainer::Impl::set_rate(int64_t at) {
  const double factor = options.schedule(at);
  size_t i = 0;
  for (auto& group : optimizer.param_groups()) group.options().set_lr(base_rates[i++] * factor);
  return base_rates.empty() ? 0 : base_rates[0] * factor;
}

nlohmann::json Trainer::Impl::numbers() const {
  nlohmann::json n{{"step", step},   {"epoch", epoch},           {"position", position},
                   {"parts", parts}, {"base_rates", base_rates}, {"bad_evaluations", bad_evaluations}};
  if (best) n["best_evaluation"] = *best;
  return n;
}

void Trainer::Impl::save() {
  losses.read(0);  // a checkpoint is never made of a model that has become NaN
  settle();
  CheckpointData data = capture(training_parts(), numbers());
  checkpoint_bytes = 0;
  for (const auto& [name, tensors] : data.files)
    for (const HostTensor& t : tensors) checkpoint_bytes += t.bytes().size();
  store->save(step, std::move(data));
  saving = true;
}

bool Trainer::Impl::has_room() const {
  // A quota is not seen from here, so it may fail again: not at every step.
  if (std::chrono::steady_clock::now() - unsaved_since < std::chrono::seconds(10)) return false;
  std::error_code error;
  const auto space = std::filesystem::space(store->folder(), error);
  return error || space.available > checkpoint_bytes + checkpoint_bytes / 10;
}

void Trainer::Impl::settle() {
  if (!saving) return;
  saving = false;
  try {
    store->wait();
    start.reset();
    unsaved = false;
  } catch (const TPUCheckpointError& e) {
    if (e.code() != Code::resource_exhausted) throw;
    unsaved = true;
    unsaved_since = std::chrono::steady_clock::now();
    const auto kept = store->latest();
    log::warn("checkpoint.not_saved", {{"cause", e.what()}, {"kept", kept ? kept->path.string() : "none"}});
  }
}

void Trainer::Impl::finish_saving() {
  if (!store) return;
  settle();
  if (!unsaved) return;
  store->save(step, capture(training_parts(), numbers()));
  store->wait();
  unsaved = false;
}

void Trainer::Impl::load(const LoadedCheckpoint& from) {
  try {
    const JsonReader all(from.data.numbers, (from.path / "manifest.json").string());
    const JsonReader n = all.object("training");
    const auto rates = n.numbers("base_rates");
    if (rates.size() != base_rates.size())
      throw ConfigurationError("the optimizer has another number of groups");
    const auto new_step = n.integer("step"), new_epoch = n.integer("epoch"), new_parts = n.integer("parts"),
               new_bad = n.integer("bad_evaluations");
    const auto counted = [](int64_t n, int64_t least) { return n >= least && n <= kMaxStep; };
    if (!counted(new_step, 0) || !counted(new_epoch, 0) || !counted(new_parts, 1) || !counted(new_bad, 0))
      throw ConfigurationError("its numbers are of no training: step " + std::to_string(new_step) +
                               ", epoch " + std::to_string(new_epoch) + ", parts " +
                               std::to_string(new_parts) + ", bad_evaluations " + std::to_string(new_bad));
    if (new_step != from.step)  // every later checkpoint would count as older than it
      throw ConfigurationError("its name says step " + std::to_string(from.step) + ", but it is of step " +
                                   std::to_string(new_step) + ": it was copied or renamed",
                               {}, "Give it the name of its step, or move it out of the folder.");
    restore(training_parts(), from.data, from.path);
    step = new_step, epoch = new_epoch, parts = new_parts, bad_evaluations = new_bad;
    base_rates = rates;
    position = n.json().value("position", nlohmann::json());
    best = n.has("best_evaluation") ? std::optional(n.number("best_evaluation")) : std::nullopt;
  } catch (const ConfigurationError& e) {
    throw checkpoint_error("load", from.path, e.message(), e.details(),
                           e.hint().empty() ? "Resume with the trainer that wrote it." : e.hint(),
                           Code::invalid_argument);
  }
  losses.clear();
}

bool Trainer::Impl::resume() {
  if (!store) return false;
  store->claim();
  std::optional<LoadedCheckpoint> found;
  try {
    found = store->newest_good();
    if (const auto damaged = store->latest(); !found && damaged) (void)read_checkpoint(damaged->path);
  } catch (const TPUCheckpointError& e) {
    throw TPUCheckpointError(e.message(), e.details(), start_anew(e), e.code());
  }
  if (!found) return false;
  load(*found);
  log::info("trainer.resumed", {{"path", found->path.string()}, {"step", std::to_string(step)}});
  metrics.write(step, {{"event", "resumed"}});
  return true;
}

}  // namespace tpubridge
