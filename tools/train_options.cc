#include "tools/train_options.h"

#include "tools/finite.h"

namespace tpubridge::tools {
namespace {

void add_common(CLI::App& app, TrainOptions& o) {
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 40);
  const auto count = CLI::Range(int64_t{0}, int64_t{1} << 40);
  app.add_option("--steps", o.steps, "Steps to train; 0: as many as --epochs says")->check(count);
  app.add_option("--epochs", o.epochs, "Times through the data; 0: as many as --steps needs")->check(count);
  app.add_option("--batch", o.batch, "Examples of a batch")->check(positive);
  app.add_option("--accumulate", o.accumulate, "Batches of a step")->check(positive);
  app.add_option("--lr", o.rate, "Largest learning rate")->check(CLI::PositiveNumber)->check(must_be_finite);
  app.add_option("--warmup", o.warmup, "Steps in which the rate grows; it then falls along half a cosine")
      ->check(count);
  app.add_option("--clip", o.clip, "Largest norm of the gradients; 0: as they are")
      ->check(CLI::NonNegativeNumber)
      ->check(must_be_finite);
  app.add_option("--weight-decay", o.weight_decay, "Of AdamW")
      ->check(CLI::NonNegativeNumber)
      ->check(must_be_finite);
  app.add_option("--seed", o.seed, "Of the weights, the order of the data and dropout");
  app.add_option("--device", o.device, "tpu (whatever plugin is found), or cpu: libtorch's own kernels")
      ->check(CLI::IsMember({"tpu", "cpu"}));
  app.add_option("--checkpoint", o.checkpoint, "Folder of checkpoints");
  app.add_option("--checkpoint-every", o.checkpoint_every, "Steps between them")->check(positive);
  app.add_option("--keep", o.keep, "How many of the newest are kept; 0: all")->check(count);
  auto* resume = app.add_flag("--resume", o.resume, "Go on from the newest good checkpoint of --checkpoint");
  app.add_flag("--restart", o.restart, "Start from the beginning; checkpoints that are there are moved aside")
      ->excludes(resume);
  app.add_option("--hold-out", o.hold_out, "Part of the data that is kept for evaluation")
      ->check(CLI::Range(0.0, 0.9))
      ->check(must_be_finite);
  app.add_option("--evaluate-every", o.evaluate_every, "Steps between evaluations; 0: only at the end")
      ->check(count);
  app.add_option("--patience", o.patience, "Stop after so many evaluations without a better one; 0: never")
      ->check(count);
  app.add_option("--log-every", o.log_every, "Steps between figures")->check(positive);
  app.add_option("--metrics", o.metrics, "File of figures as JSON lines, appended to");
  app.add_option("--tensorboard", o.tensorboard, "Folder of TensorBoard event files");
  app.add_flag("--json", o.json, "Print one JSON document instead of text (keys: docs/train.md)");
}

}  // namespace

void add_train_options(CLI::App& app, TrainOptions& o) {
  app.require_subcommand(1);
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 20);
  CLI::App* gpt = app.add_subcommand("gpt", "A GPT that learns a text, byte by byte");
  gpt->add_option("--data", o.data, "The text")->required();
  gpt->add_option("--layers", o.layers, "Blocks")->check(positive);
  gpt->add_option("--width", o.width, "Size of the vectors; a multiple of --heads")->check(positive);
  gpt->add_option("--heads", o.heads, "Attention heads")->check(positive);
  gpt->add_option("--context", o.context, "Tokens that it sees")->check(positive);
  CLI::App* mlp = app.add_subcommand("mlp", "A network of linear layers that learns classes");
  mlp->add_option("--data", o.data,
                  "A .csv file whose last column is the class, or images of MNIST's format "
                  "(…images-idx3-ubyte) with their labels beside them")
      ->required();
  mlp->add_option("--hidden", o.hidden, "Widths of the hidden layers")->delimiter(',')->check(positive);
  for (CLI::App* sub : {gpt, mlp}) {
    add_common(*sub, o);
    sub->callback([sub, &o] { o.model = sub->get_name(); });
  }
  gpt->footer(
      "Examples:\n  tpubridge train gpt --data text.txt --steps 2000 --checkpoint run\n"
      "  tpubridge train gpt --data text.txt --steps 4000 --checkpoint run --resume");
  mlp->footer(
      "Examples:\n  tpubridge train mlp --data iris.csv --epochs 50 --steps 0\n"
      "  tpubridge train mlp --data mnist/train-images-idx3-ubyte --hidden 256,128 --batch 64");
}

}  // namespace tpubridge::tools
