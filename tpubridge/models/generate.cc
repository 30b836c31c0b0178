#include "tpubridge/models/generate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <chrono>

#include "tpubridge/models/stop_words.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

int64_t power_of_two(int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(least, 8))));
}

// One prompt and what becomes of it.
struct Row {
  std::vector<int64_t> all;  // the prompt's tokens, then the new ones
  size_t prompt = 0;
  TextStream stream;
  StopWords words;
  Sampler sampler;
  GeneratedText out = {};

  void show(size_t index, const std::string& text, const GenerateOptions& options) {
    out.text += text;
    if (!text.empty() && options.show) options.show(index, text);
  }
  void add(size_t index, int64_t token, const GenerateOptions& options, const std::vector<int64_t>& ends) {
    if (!out.why.empty()) return;
    all.push_back(token);
    out.ids.push_back(token);
    const bool end = std::ranges::find(ends, token) != ends.end();
    if (!end) show(index, words.add(stream.add(token)), options);
    if (end || static_cast<int64_t>(out.ids.size()) == options.tokens) {
      show(index, words.add(stream.finish()), options);
      show(index, words.finish(), options);
      out.why = end ? "end" : "length";
    }
    if (words.stopped()) out.why = "stop";
  }
};

class Generation {
 public:
  Generation(const CausalLM& model, const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
             const GenerateOptions& options)
      : model_(model), options_(options) {
    check(options.sampling);
    if (prompts.empty()) throw ArgumentError("there is no prompt");
    if (options.tokens < 1)
      throw ArgumentError("the number of tokens must be 1 or more",
                          {{"tokens", std::to_string(options.tokens)}});
    for (const std::string& prompt : prompts) add_row(tokenizer, prompt);
    size_places();
  }

  Generated run() {
    const at::NoGradGuard no_grad;
    const auto began = Clock::now();
    cache_ = model_.make_cache(batch(), places_);
    at::Tensor next = choose(prefill());
    Generated out;
    out.first_seconds = seconds_since(began);
    const auto first = Clock::now();
    decode(std::move(next));
    int64_t later = -batch();
    for (Row& row : rows_) {
      later += static_cast<int64_t>(row.out.ids.size());
      out.rows.push_back(std::move(row.out));
    }
    if (later > 0) out.tokens_per_second = static_cast<double>(later) / seconds_since(first);
    return out;
  }

 private:
  [[nodiscard]] int64_t batch() const { return static_cast<int64_t>(rows_.size()); }
  [[nodiscard]] bool on_device() const {
    return options_.sampling.greedy() && options_.sampling.repetition_penalty == 1;
  }

  void add_row(const Tokenizer& tokenizer, const std::string& prompt) {
    Row row{tokenizer.encode(prompt, options_.special), 0, TextStream(tokenizer), StopWords(options_.stop),
            Sampler(options_.sampling, rows_.size())};
    if (row.all.empty())
      throw ArgumentError("a prompt has no tokens", {{"prompt", std::to_string(rows_.size())}},
                          "Give it some text.");
    for (const int64_t id : row.all)
      if (id >= model_.config().vocabulary)
        throw ArgumentError(
            "the tokenizer gives a token that the model does not have",
            {{"token", std::to_string(id)}, {"vocabulary", std::to_string(model_.config().vocabulary)}},
            "The tokenizer is of another model.");
    row.prompt = row.all.size();
    row.out.prompt_tokens = static_cast<int64_t>(row.prompt);
    longest_ = std::max(longest_, static_cast<int64_t>(row.prompt));
    rows_.push_back(std::move(row));
  }

  void size_places() {
    const int64_t most = model_.config().positions;
    if (options_.tokens > most || longest_ + options_.tokens > most)
      throw ArgumentError("prompt and new tokens together are more than the model can be given",
                          {{"prompt", std::to_string(longest_)},
                           {"tokens", std::to_string(options_.tokens)},
                           {"positions", std::to_string(most)}},
                          "Ask for fewer tokens, or give a shorter prompt.");
    bucket_ = std::min(power_of_two(longest_), most);
    places_ = std::min(power_of_two(longest_ + options_.tokens), most);
  }

  // [batch, vocabulary], of the last token of each prompt.
  at::Tensor prefill() {
    at::Tensor tokens = at::zeros({batch(), bucket_}, at::kLong), last = at::zeros({batch()}, at::kLong);
    auto at_token = tokens.accessor<int64_t, 2>();
    for (int64_t r = 0; r < batch(); ++r) {
      const Row& row = rows_[static_cast<size_t>(r)];
      for (size_t i = 0; i < row.prompt; ++i) at_token[r][static_cast<int64_t>(i)] = row.all[i];
      last[r] = static_cast<int64_t>(row.prompt) - 1;
    }
    const at::Device device = model_.device();
    const at::Tensor positions = at::arange(bucket_, at::kLong).unsqueeze(0).repeat({batch(), 1}).to(device);
    const at::Tensor hidden = model_.hidden(tokens.to(device), positions, &cache_, true);
    const at::Tensor rows = at::arange(batch(), at::kLong).to(device);
    positions_ = (last + 1).unsqueeze(1).to(device);
    return model_.logits(hidden.index({rows, last.to(device)}));
  }

  // The next token of each row, [batch, 1] on the device, told to the rows. `given`: logits, or tokens where
  // the device chose.
  at::Tensor choose(const at::Tensor& given) {
    at::Tensor tokens;
    if (on_device()) {
      tokens = given.dim() == 2 && given.is_floating_point() ? given.argmax(-1, true) : given;
      const at::Tensor host = tokens.cpu();
      for (int64_t r = 0; r < batch(); ++r) tell(r, host[r][0].item<int64_t>());
      return tokens;
    }
    const at::Tensor host = given.to(at::kFloat).cpu().contiguous();
    tokens = at::zeros({batch(), 1}, at::kLong);
    for (int64_t r = 0; r < batch(); ++r) {
      Row& row = rows_[static_cast<size_t>(r)];
      const auto width = static_cast<size_t>(host.size(1));
      const int64_t token =
          row.sampler.next({host.const_data_ptr<float>() + static_cast<size_t>(r) * width, width}, row.all);
      tokens[r][0] = token;
      tell(r, token);
    }
    return tokens.to(model_.device());
  }

  void tell(int64_t r, int64_t token) {
    rows_[static_cast<size_t>(r)].add(static_cast<size_t>(r), token, options_, model_.config().ends);
  }
  [[nodiscard]] bool done() const {
    return std::ranges::all_of(rows_, [](const Row& row) { return !row.out.why.empty(); });
  }

  void decode(at::Tensor tokens) {
    const bool device_chooses = on_device();
    const auto one = [this, device_chooses](const at::Tensor& token, const at::Tensor& position) {
      const at::Tensor logits = model_.logits(model_.hidden(token, position, &cache_, false)).squeeze(1);
      // Rows that are done go on until all are; those at the end of the cache stay there.
      const at::Tensor after = at::clamp_max(position + 1, places_ - 1);
      return std::vector<at::Tensor>{device_chooses ? logits.argmax(-1, true) : logits, after};
    };
    auto compiled = compile(one, {.name = "generate"});
    while (!done()) {
      const auto out = model_.device().is_cpu() ? one(tokens, positions_) : compiled(tokens, positions_);
      positions_ = out[1];
      tokens = choose(out[0]);
    }
  }

  const CausalLM& model_;
  const GenerateOptions& options_;
  std::vector<Row> rows_;
  int64_t longest_ = 0, bucket_ = 0, places_ = 0;
  KeyValueCache cache_;
  at::Tensor positions_;
};

}  // namespace

Generated generate(const CausalLM& model, const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
                   const GenerateOptions& options) {
  return Generation(model, tokenizer, prompts, options).run();
}

Generated generate(const CausalLM& model, const Tokenizer& tokenizer, const std::string& prompt,
                   const GenerateOptions& options) {
  return generate(model, tokenizer, std::vector<std::string>{prompt}, options);
}

}  // namespace tpubridge
