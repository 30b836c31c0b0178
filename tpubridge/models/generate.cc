#include "tpubridge/models/generate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "tpubridge/models/decoding.h"
#include "tpubridge/models/stop_words.h"

namespace tpubridge {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// One prompt and what becomes of it.
struct Row {
  TextStream stream;
  StopWords words;
  GeneratedText out = {};

  void show(size_t index, const std::string& text, const GenerateOptions& options) {
    out.text += text;
    if (!text.empty() && options.show) options.show(index, text);
  }
  void add(size_t index, int64_t token, const GenerateOptions& options, const std::vector<int64_t>& ends) {
    if (!out.why.empty()) return;
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
    if (options.tokens_per_call < 1)
      throw ArgumentError("the number of tokens in a call must be 1 or more",
                          {{"tokens_per_call", std::to_string(options.tokens_per_call)}});
    for (const std::string& prompt : prompts) add_row(tokenizer, prompt);
  }

  Generated run() {
    const auto began = Clock::now();
    models::Decoding decoding(model_, prompts_, options_.tokens, options_.sampling,
                              std::min(options_.tokens_per_call, std::max<int64_t>(options_.tokens - 1, 1)));
    tell(decoding.next());
    Generated out;
    out.first_seconds = seconds_since(began);
    const auto then = Clock::now();
    decode(decoding);
    int64_t later = -static_cast<int64_t>(rows_.size());
    for (Row& row : rows_) {
      later += static_cast<int64_t>(row.out.ids.size());
      out.rows.push_back(std::move(row.out));
    }
    if (later > 0) out.tokens_per_second = static_cast<double>(later) / seconds_since(then);
    return out;
  }

 private:
  void add_row(const Tokenizer& tokenizer, const std::string& prompt) {
    prompts_.push_back(tokenizer.encode(prompt, options_.special));
    if (prompts_.back().empty())
      throw ArgumentError("a prompt has no tokens", {{"prompt", std::to_string(rows_.size())}},
                          "Give it some text.");
    rows_.push_back({TextStream(tokenizer), StopWords(options_.stop)});
    rows_.back().out.prompt_tokens = static_cast<int64_t>(prompts_.back().size());
  }

  // Waits for the tokens.
  void tell(const at::Tensor& tokens) {
    const at::Tensor host = tokens.cpu();
    const auto of_step = host.accessor<int64_t, 3>();
    for (int64_t i = 0; i < host.size(0); ++i)
      for (size_t r = 0; r < rows_.size(); ++r)
        rows_[r].add(r, of_step[i][static_cast<int64_t>(r)][0], options_, model_.config().ends);
  }
  [[nodiscard]] bool done() const {
    return std::ranges::all_of(rows_, [](const Row& row) { return !row.out.why.empty(); });
  }

  // Tokens are read one call behind, so that the device has its next one while they become text. What it
  // computed beyond an end is dropped. The CPU's kernels do not run ahead.
  void decode(models::Decoding& decoding) {
    const bool ahead = !model_.device().is_cpu();
    at::Tensor unread;
    for (int64_t made = 1; !done();) {
      at::Tensor latest;
      if (made < options_.tokens) latest = decoding.next(), made += latest.size(0);
      if (!ahead) unread = latest;
      if (unread.defined()) tell(unread);
      unread = latest;
    }
  }

  const CausalLM& model_;
  const GenerateOptions& options_;
  std::vector<std::vector<int64_t>> prompts_;
  std::vector<Row> rows_;
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
