#include "tools/generate/text.h"

#include <nlohmann/json.hpp>

#include "tpubridge/models/generate.h"
#include "tpubridge/tpubridge.h"

namespace tpubridge::tools {
namespace {

std::optional<at::ScalarType> type_of(const std::string& name) {
  if (name == "f32") return at::kFloat;
  if (name == "bf16") return at::kBFloat16;
  if (name == "f16") return at::kHalf;
  return std::nullopt;
}

nlohmann::ordered_json speed_of(const Generated& made) {
  return {{"seconds_to_first_token", made.first_seconds}, {"tokens_per_second", made.tokens_per_second}};
}

std::optional<QuantizeOptions> quantizing(const TextOptions& o) {
  if (o.weights == "file") return std::nullopt;
  return QuantizeOptions{.weights = o.weights == "int8" ? QuantType::int8 : QuantType::int4,
                         .group = o.group};
}

}  // namespace

nlohmann::ordered_json generate_text(const TextOptions& o,
                                     const std::function<void(std::string_view)>& show) {
  const auto tokenizer = Tokenizer::of_file(Path(o.folder) / "tokenizer.json");
  const auto model = CausalLM::of_folder(
      o.folder, {.device = at::Device(o.device), .type = type_of(o.type), .quantize = quantizing(o)});
  GenerateOptions options{.tokens = o.tokens,
                          .sampling = {.temperature = o.temperature,
                                       .top_k = o.top_k,
                                       .top_p = o.top_p,
                                       .repetition_penalty = o.repetition_penalty,
                                       .seed = o.seed},
                          .stop = o.stop,
                          .tokens_per_call = o.tokens_per_call};
  if (show)
    options.show = [&](size_t row, std::string_view text) {
      if (row == 0) show(text);
    };
  const Generated made = generate(*model, tokenizer, o.prompts, options);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array(), repeats = rows;
  for (size_t i = 0; i < made.rows.size(); ++i) {
    const GeneratedText& row = made.rows[i];
    rows.push_back({{"prompt", o.prompts[i]},
                    {"text", row.text},
                    {"tokens", row.ids},
                    {"prompt_tokens", row.prompt_tokens},
                    {"ended_by", row.why}});
  }
  options.show = {};
  for (int64_t i = 0; i < o.repeat; ++i)
    repeats.push_back(speed_of(generate(*model, tokenizer, o.prompts, options)));
  nlohmann::ordered_json out;
  if (rows.size() == 1) out = {{"text", rows[0]["text"]}, {"tokens", rows[0]["tokens"]}};
  out["texts"] = rows;
  out.update(speed_of(made));
  out["family"] = model->config().family;
  if (o.repeat > 0) out["repeats"] = repeats;
  return out;
}

}  // namespace tpubridge::tools
