// The two models, their data, and the trainer around them.
#include "tools/train/train.h"

#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "examples/models/gpt.h"
#include "tools/interrupt.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"
#include "tpubridge/base/text.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/train/datasets.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge::tools {
namespace {

struct MlpImpl : torch::nn::Module {
  MlpImpl(int64_t features, const std::vector<int64_t>& hidden, int64_t classes) {
    layers = register_module("layers", torch::nn::Sequential());
    int64_t width = features;
    for (const int64_t next : hidden) {
      layers->push_back(torch::nn::Linear(width, next));
      layers->push_back(torch::nn::ReLU());
      width = next;
    }
    layers->push_back(torch::nn::Linear(width, classes));
  }
  torch::nn::Sequential layers{nullptr};
};

// A model, what it learns from, and how.
struct Task {
  std::shared_ptr<torch::nn::Module> model;
  LossFunction loss;
  std::unique_ptr<DataSource> data, evaluation;
  std::string about;
};

Task gpt_task(const TrainOptions& o) {
  if (o.width % o.heads != 0)
    throw ArgumentError("--width must be a multiple of --heads",
                        {{"width", std::to_string(o.width)}, {"heads", std::to_string(o.heads)}});
  const Tokens tokens(read_file(o.data));
  const auto held = static_cast<int64_t>(static_cast<double>(tokens.all.size()) * o.hold_out);
  std::vector<int64_t> rest(tokens.all.end() - held, tokens.all.end()),
      first(tokens.all.begin(), tokens.all.end() - held);
  auto model = std::make_shared<models::GptImpl>(models::GptConfig{
      static_cast<int64_t>(tokens.characters.size()), o.context, o.layers, o.heads, o.width});
  Task task{model,
            [model](const Batch& b) {
              return torch::cross_entropy_loss(model->forward(b[0]).flatten(0, 1), b[1].flatten());
            },
            std::make_unique<TextData>(std::move(first), o.context, o.batch, o.seed), nullptr,
            std::to_string(tokens.all.size()) + " characters"};
  if (held > o.context)
    task.evaluation = std::make_unique<TextData>(std::move(rest), o.context, o.batch, o.seed);
  return task;
}

Task mlp_task(const TrainOptions& o) {
  const Batch all = read_examples(o.data);
  const int64_t rows = all[0].size(0), held = static_cast<int64_t>(static_cast<double>(rows) * o.hold_out);
  // Files are often sorted by class: which rows are held out is drawn.
  auto generator = at::make_generator<at::CPUGeneratorImpl>(o.seed);
  const auto order = torch::randperm(rows, generator, torch::kLong);
  const auto take = [&](int64_t from, int64_t to) {
    Batch out;
    for (const auto& t : all) out.push_back(t.index_select(0, order.slice(0, from, to)));
    return out;
  };
  const int64_t classes = all[1].max().item<int64_t>() + 1;
  auto model = std::make_shared<MlpImpl>(all[0].size(1), o.hidden, classes);
  const BatchOptions batches{.batch = std::min(o.batch, rows - held), .seed = o.seed};
  Task task{model,
            [model](const Batch& b) { return torch::cross_entropy_loss(model->layers->forward(b[0]), b[1]); },
            std::make_unique<TensorData>(take(held, rows), batches), nullptr,
            std::to_string(rows) + " examples of " + std::to_string(classes) + " classes"};
  if (held > 0)
    task.evaluation = std::make_unique<TensorData>(
        take(0, held), BatchOptions{.batch = o.batch, .shuffle = false, .drop_last = false});
  return task;
}

TrainerOptions trainer_options(const TrainOptions& o, int64_t batches_per_epoch,
                               std::optional<double>& first_loss) {
  int64_t total = o.steps;
  if (o.epochs > 0) {
    const int64_t by_epochs = std::max<int64_t>(1, o.epochs * batches_per_epoch / o.accumulate);
    total = total == 0 ? by_epochs : std::min(total, by_epochs);
  }
  if (total == 0) throw ArgumentError("there is nothing to do: give --steps or --epochs");
  const int64_t warmup = std::min(total, o.warmup >= 0 ? o.warmup : total / 25);
  TrainerOptions t{.steps = o.steps,
                   .epochs = o.epochs,
                   .accumulate = o.accumulate,
                   .clip_norm = o.clip,
                   .schedule = schedule::warmup_cosine(warmup, total, 0.1),
                   .log_every = o.log_every,
                   .evaluate_every = o.evaluate_every,
                   .patience = o.patience,
                   .checkpoint_every = o.checkpoint.empty() ? 0 : o.checkpoint_every,
                   .checkpoints = o.checkpoint,
                   .keep = static_cast<size_t>(o.keep),
                   .metrics = o.metrics,
                   .tensorboard = o.tensorboard};
  const bool live = isatty(STDERR_FILENO) != 0, quiet = o.json;
  t.on_progress = [live, quiet, &first_loss](const Progress& p) {
    if (!first_loss) first_loss = p.loss;
    if (!quiet) std::fprintf(stderr, live ? "\r\033[K%s" : "%s\n", to_string(p).c_str());
    if (live && !quiet) std::fflush(stderr);
  };
  return t;
}

const char* name_of(TrainResult::End end) {
  return end == TrainResult::End::finished     ? "finished"
         : end == TrainResult::End::early_stop ? "early_stop"
                                               : "interrupted";
}

// Without a word for it, checkpoints of another training are neither used nor written over.
void refuse_used_folder(const TrainOptions& o) {
  if (o.checkpoint.empty() || o.resume || o.restart) return;
  if (const auto there = CheckpointStore(o.checkpoint).latest())
    throw ArgumentError(
        "the folder holds checkpoints of a training, up to step " + std::to_string(there->step),
        {{"folder", o.checkpoint}},
        "--resume goes on from there; --restart moves them aside and starts from the "
        "beginning.",
        Code::already_exists);
}

// Either all of the folder's checkpoints are moved or none.
std::optional<Path> set_aside(const TrainOptions& o, Trainer& trainer) {
  if (!o.restart) return std::nullopt;
  const NoInterrupts whole;
  return trainer.restart();
}

TrainReport report_of(const TrainOptions& o, const TrainResult& r, std::optional<double> first_loss) {
  TrainReport out;
  out.signal = r.signal;
  out.json = {
      {"model", o.model}, {"device", o.device}, {"end", name_of(r.end)}, {"step", r.step},
      {"epoch", r.epoch}, {"loss", r.loss},     {"parts", r.parts},      {"compiles", metrics().compiles}};
  if (first_loss) out.json["first_loss"] = *first_loss;
  if (r.evaluation) out.json["evaluation"] = *r.evaluation;
  if (r.best_evaluation) out.json["best_evaluation"] = *r.best_evaluation;
  if (!o.checkpoint.empty()) out.json["checkpoint"] = CheckpointStore(o.checkpoint).path_of(r.step).string();
  return out;
}

}  // namespace

TrainReport train_model(const TrainOptions& o) {
  if ((o.resume || o.restart) && o.checkpoint.empty())
    throw ArgumentError(std::string(o.resume ? "--resume" : "--restart") +
                        " needs the folder: give --checkpoint DIR");
  refuse_used_folder(o);
  torch::manual_seed(o.seed);
  Task task = o.model == "gpt" ? gpt_task(o) : mlp_task(o);
  task.model->to(torch::Device(o.device));
  torch::optim::AdamW optimizer(task.model->parameters(),
                                torch::optim::AdamWOptions(o.rate).weight_decay(o.weight_decay));
  std::optional<double> first_loss;
  Trainer trainer(task.model, task.loss, optimizer,
                  trainer_options(o, task.data->batches_per_epoch(), first_loss));
  int64_t parameters = 0;
  for (const auto& p : task.model->parameters()) parameters += p.numel();
  const bool resumed = o.resume && trainer.resume();
  const auto aside = set_aside(o, trainer);
  if (!o.json) {
    std::printf("%s with %ld parameters learns %s (%s) on %s%s\n", o.model.c_str(), parameters,
                printable(o.data).c_str(), task.about.c_str(), o.device.c_str(),
                resumed ? (", from step " + std::to_string(trainer.step())).c_str() : "");
    std::fflush(stdout);
  }
  const int64_t from = trainer.step();
  const auto began = std::chrono::steady_clock::now();
  const TrainResult result = trainer.train(*task.data, task.evaluation.get());
  TrainReport report = report_of(o, result, first_loss);
  report.json["parameters"] = parameters;
  report.json["resumed_from"] = resumed ? nlohmann::ordered_json(from) : nlohmann::ordered_json();
  if (aside) report.json["set_aside"] = aside->string();
  report.json["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (!o.json) {
    if (isatty(STDERR_FILENO) != 0) std::fputc('\n', stderr);
    std::printf("%s at step %ld, loss %.4f", name_of(result.end), result.step, result.loss);
    if (result.evaluation) std::printf(", evaluation %.4f", *result.evaluation);
    if (report.json.contains("checkpoint"))
      std::printf(", checkpoint %s", printable(report.json["checkpoint"].get<std::string>()).c_str());
    std::printf("\n");
  }
  return report;
}

}  // namespace tpubridge::tools
