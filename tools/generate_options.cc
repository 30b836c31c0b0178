#include "tools/generate_options.h"

#include "tools/finite.h"

namespace tpubridge::tools {

void add_generate_options(CLI::App& app, TextOptions& o) {
  app.add_option("MODEL", o.folder,
                 "Folder with config.json, model.safetensors (or its parts), tokenizer.json")
      ->required();
  app.add_option("--prompt", o.prompts, "Text to go on from; given several times, all are done at once")
      ->required()
      ->type_name("TEXT")
      ->take_all();
  app.add_option("--tokens", o.tokens, "Most new tokens of each prompt")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app.add_option("--tokens-per-call", o.tokens_per_call,
                 "Make so many tokens by one program: for devices that wait for the host")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}));
  auto* greedy = app.add_flag("--greedy", o.greedy, "Always the best token (the default)");
  auto* temperature =
      app.add_option("--temperature", o.temperature, "Draw tokens: 1 as the model says, less is tamer")
          ->check(CLI::PositiveNumber)
          ->check(must_be_finite)
          ->excludes(greedy);
  app.add_option("--top-k", o.top_k, "Draw among the best K")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->needs(temperature);
  app.add_option("--top-p", o.top_p, "Draw among the best that have this chance together")
      ->check(CLI::Range(1e-12, 1.0))
      ->check(must_be_finite)
      ->needs(temperature);
  app.add_option("--repetition-penalty", o.repetition_penalty,
                 "More than 1: tokens that were there come less")
      ->check(CLI::PositiveNumber)
      ->check(must_be_finite);
  app.add_option("--seed", o.seed, "The same seed draws the same tokens");
  app.add_option("--stop", o.stop, "End before this text; may be given several times")
      ->type_name("TEXT")
      ->take_all();
  app.add_option("--dtype", o.type, "What to compute in: as the file says, or f32, bf16, f16")
      ->check(CLI::IsMember({"file", "f32", "bf16", "f16"}));
  auto* weights =
      app.add_option("--weights", o.weights, "What weights are kept in: as --dtype says, or int8, int4")
          ->check(CLI::IsMember({"file", "int8", "int4"}));
  app.add_option("--group", o.group, "Of int8 and int4: how many numbers share a scale; 0: a whole row")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->needs(weights);
  app.add_option("--device", o.device, "tpu (whatever plugin is found), or cpu: libtorch's own kernels")
      ->check(CLI::IsMember({"tpu", "cpu"}));
  app.add_option("--repeat", o.repeat, "Do it N more times and tell how fast each was")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1000000}));
  app.add_flag("--json", o.json, "Print one JSON document instead of text (keys: docs/command.md)");
  app.footer(
      "Examples:\n"
      "  tpubridge generate Llama-3.2-1B --prompt 'Once upon a time' --tokens 100\n"
      "  tpubridge generate gpt2 --prompt Hello --temperature 0.8 --top-p 0.95 --seed 1 --json");
}

}  // namespace tpubridge::tools
