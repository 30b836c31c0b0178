// Text from a language model.
//
//   const auto model = tpubridge::CausalLM::of_folder(folder);
//   const auto tokenizer = tpubridge::Tokenizer::of_file(folder);
//   const auto out = tpubridge::generate(*model, tokenizer, "Once upon a time", {.tokens = 100});
//   std::cout << out.rows[0].text;
//
// The prompts go through the model at once, filled up to a power of two, so that few lengths are compiled;
// then every token is one run of one compiled step over a cache of a fixed size.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/models/causal_lm.h"
#include "tpubridge/models/sampling.h"
#include "tpubridge/text/tokenizer.h"

namespace tpubridge {

struct GenerateOptions {
  int64_t tokens = 64;  // at most, of each prompt
  SamplingOptions sampling = {};
  std::vector<std::string> stop = {};  // a text ends before such a word
  bool special = true;                 // prompts with the tokens that the model wants around them
  // Tokens after the first are made so many at a time, by one program: for devices that wait for the host.
  // The tokens are the same; those that were made beyond an end are dropped.
  int64_t tokens_per_call = 1;
  // Called with new text as it comes, in whole characters.
  std::function<void(size_t row, std::string_view text)> show = {};
};

struct GeneratedText {
  std::string text;          // without the prompt
  std::vector<int64_t> ids;  // all that were generated, one that ends the text among them
  int64_t prompt_tokens = 0;
  std::string why;  // it ended: "length", "end" (a token that says so), "stop" (a word)
};

struct Generated {
  std::vector<GeneratedText> rows;  // one for each prompt
  double first_seconds = 0;         // until the first token was there
  double tokens_per_second =
      0;  // of all rows together, after the first token; the compile of the step counts
};

// Throws ArgumentError where a prompt has no tokens, or with what is asked for is longer than the model can.
[[nodiscard]] Generated generate(const CausalLM& model, const Tokenizer& tokenizer,
                                 const std::vector<std::string>& prompts,
                                 const GenerateOptions& options = {});
[[nodiscard]] Generated generate(const CausalLM& model, const Tokenizer& tokenizer, const std::string& prompt,
                                 const GenerateOptions& options = {});

}  // namespace tpubridge
