// Generated tokens beside those of transformers' greedy search, and what the options do.
#include "tpubridge/models/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "tpubridge/base/json.h"
#include "tpubridge/models/stop_words.h"
#include "tpubridge/tpubridge.h"

namespace tpubridge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Loaded {
  Path folder;
  std::shared_ptr<CausalLM> model;
  Tokenizer tokenizer;
  explicit Loaded(const std::string& family, const char* device = "tpu")
      : folder(Path(TEST_DATA) / "models" / family),
        model(CausalLM::of_folder(folder, {.device = torch::Device(device)})),
        tokenizer(Tokenizer::of_file(folder)) {}
};

struct Greedy {
  std::vector<std::string> prompts;
  std::vector<std::vector<int64_t>> ids;
  explicit Greedy(const Path& folder) {
    const auto json = parse_json_file(folder / "reference.json");
    prompts = json["prompts"].get<std::vector<std::string>>();
    ids = json["greedy"].get<std::vector<std::vector<int64_t>>>();
  }
};

class GreedySearch : public testing::TestWithParam<const char*> {};

TEST_P(GreedySearch, TokensAreThoseOfTransformers) {
  const Loaded with(GetParam());
  const Greedy want(with.folder);
  for (size_t i = 0; i < 3; ++i) {  // the others are in the batch
    const Generated got = generate(*with.model, with.tokenizer, want.prompts[i], {.tokens = 20});
    EXPECT_EQ(got.rows.at(0).ids, want.ids[i]) << want.prompts[i];
    const std::string text = with.tokenizer.decode(want.ids[i]);
    if (text.find("\xEF\xBF\xBD") == std::string::npos) {
      EXPECT_EQ(got.rows[0].text, text);
    }
    EXPECT_GT(got.first_seconds, 0);
  }
}

TEST_P(GreedySearch, ABatchOfDifferentLengthsGivesTheSame) {
  const Loaded with(GetParam());
  const Greedy want(with.folder);
  const Generated got = generate(*with.model, with.tokenizer, want.prompts, {.tokens = 20});
  ASSERT_EQ(got.rows.size(), want.prompts.size());
  for (size_t i = 0; i < want.prompts.size(); ++i) EXPECT_EQ(got.rows[i].ids, want.ids[i]) << want.prompts[i];
}

INSTANTIATE_TEST_SUITE_P(Each, GreedySearch,
                         testing::Values("llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3",
                                         "phi3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Generate, TheCpuGivesTheSame) {
  const Loaded with("llama", "cpu");
  const Greedy want(with.folder);
  EXPECT_EQ(generate(*with.model, with.tokenizer, want.prompts[0], {.tokens = 20}).rows[0].ids, want.ids[0]);
}

TEST(Generate, OneStepIsCompiledForAllTokens) {
  const Loaded with("qwen3");
  (void)generate(*with.model, with.tokenizer, "a b c", {.tokens = 6});
  const int64_t after_few = tpubridge_compile_count();
  (void)generate(*with.model, with.tokenizer, "a b", {.tokens = 6});  // another length of the same bucket
  EXPECT_EQ(tpubridge_compile_count(), after_few);
  const int64_t before = tpubridge_compile_count();
  (void)generate(*with.model, with.tokenizer, "a b c", {.tokens = 100});  // a larger cache
  EXPECT_LE(tpubridge_compile_count() - before, 3);
  const auto none = expect_no_compile();
  (void)generate(*with.model, with.tokenizer, "b c a", {.tokens = 100});
}

// Several tokens in one program: whatever the number, they are those that come one by one.
TEST(Generate, SeveralTokensInACallAreTheSame) {
  for (const char* family : {"llama", "gemma2", "gpt2"}) {
    const Loaded with(family);
    const Greedy want(with.folder);
    for (const int64_t n : {2, 3, 7, 19, 500})
      for (int64_t tokens : {1, 2, 20}) {
        const Generated got =
            generate(*with.model, with.tokenizer, want.prompts, {.tokens = tokens, .tokens_per_call = n});
        for (size_t i = 0; i < want.prompts.size(); ++i)
          EXPECT_EQ(got.rows[i].ids, std::vector<int64_t>(want.ids[i].begin(), want.ids[i].begin() + tokens))
              << family << ", " << n << " in a call, " << want.prompts[i];
      }
  }
}

TEST(Generate, SeveralTokensInACallAreOneProgram) {
  const Loaded with("qwen2");
  const SamplingOptions s{
      .temperature = 1.2, .top_k = 20, .top_p = 0.9, .repetition_penalty = 1.3, .seed = 4};
  const GenerateOptions single{.tokens = 49, .sampling = s};
  GenerateOptions eight = single;
  eight.tokens_per_call = 8;
  const auto ids = generate(*with.model, with.tokenizer, "The", single).rows[0].ids;
  (void)generate(*with.model, with.tokenizer, "The", eight);
  const Metrics before = metrics();
  std::string shown;
  eight.show = [&](size_t, std::string_view text) { shown += text; };
  const auto again = generate(*with.model, with.tokenizer, "The", eight);
  EXPECT_EQ(again.rows[0].ids, ids);
  EXPECT_EQ(again.rows[0].text, shown);
  EXPECT_LT(metrics().executions - before.executions, 40);  // of 48 steps the first ones alone are programs
  EXPECT_LE(metrics().compiles - before.compiles, 2);       // of a step that was traced once more
}

TEST(Generate, AnEndInTheMiddleOfSeveralTokens) {
  const Loaded with("llama"), host("llama", "cpu");
  const auto ids = generate(*with.model, with.tokenizer, "The", {.tokens = 40}).rows[0].ids;
  for (const size_t at : {0UL, 1UL, 10UL, 21UL, 32UL})
    for (const Loaded* loaded : {&with, &host}) {
      DecoderConfig config = loaded->model->config();
      config.ends = {ids[at]};
      const auto parameters = loaded->model->named_parameters();
      const CausalLM same(
          config, [&](const std::string& name, at::IntArrayRef) { return parameters[name].detach(); });
      const auto first = std::ranges::find(ids, ids[at]) - ids.begin();
      const auto out = generate(same, with.tokenizer, "The", {.tokens = 40, .tokens_per_call = 6});
      EXPECT_EQ(out.rows[0].ids, std::vector<int64_t>(ids.begin(), ids.begin() + first + 1));
      EXPECT_EQ(out.rows[0].why, "end");
    }
}

TEST(Generate, NothingIsComputedOnTheCpu) {
  const Loaded with("gemma2");
  const int64_t before = tpubridge_cpu_fallback_count();
  (void)generate(*with.model, with.tokenizer, "words", {.tokens = 8});
  EXPECT_EQ(tpubridge_cpu_fallback_count(), before);
}

TEST(Generate, ATextThatEndsEarlyNeedsNoMoreThanAStep) {
  const Loaded with("llama");
  const auto ids = generate(*with.model, with.tokenizer, "The", {.tokens = 40}).rows[0].ids;
  for (const size_t at : {0UL, 1UL, 2UL, 7UL}) {
    DecoderConfig config = with.model->config();
    config.ends = {ids[at]};
    const auto parameters = with.model->named_parameters();
    const CausalLM same(config,
                        [&](const std::string& name, at::IntArrayRef) { return parameters[name].detach(); });
    const size_t first = static_cast<size_t>(std::ranges::find(ids, ids[at]) - ids.begin());
    const auto out = generate(same, with.tokenizer, "The", {.tokens = 40});
    EXPECT_EQ(out.rows[0].ids,
              std::vector<int64_t>(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first) + 1));
  }
}

TEST(Generate, SampledTokensAreTheSameWithAndWithoutAudience) {
  const Loaded with("qwen2");
  const SamplingOptions s{
      .temperature = 1.2, .top_k = 20, .top_p = 0.9, .repetition_penalty = 1.3, .seed = 4};
  const auto ids = generate(*with.model, with.tokenizer, "The", {.tokens = 30, .sampling = s}).rows[0].ids;
  std::string shown;
  const auto again = generate(*with.model, with.tokenizer, "The",
                              {.tokens = 30, .sampling = s, .show = [&](size_t, std::string_view t) {
                                 torch::rand({2}, torch::Device("tpu"));  // other draws do not matter
                                 shown += t;
                               }});
  EXPECT_EQ(again.rows[0].ids, ids);
  EXPECT_EQ(again.rows[0].text, shown);
}

TEST(Generate, OtherNumbersCompileNothing) {
  const Loaded with("qwen3");
  const auto go = [&](const SamplingOptions& s) {
    return generate(*with.model, with.tokenizer, "a b c", {.tokens = 12, .sampling = s}).rows[0].ids;
  };
  (void)go({.temperature = 1.5, .top_p = 0.9, .repetition_penalty = 1.2, .seed = 3});
  const auto none = expect_no_compile();
  (void)go({.temperature = 0.7, .top_p = 0.5, .repetition_penalty = 1.1, .seed = 12345678901234ULL});
}

TEST(Generate, APenaltyIsThatOfTheHost) {
  const Loaded with("gpt2"), host("gpt2", "cpu");
  for (const double penalty : {1.3, 0.7, 5.0}) {
    const GenerateOptions options{.tokens = 20, .sampling = {.repetition_penalty = penalty}};
    EXPECT_EQ(generate(*with.model, with.tokenizer, "The quick", options).rows[0].ids,
              generate(*host.model, host.tokenizer, "The quick", options).rows[0].ids);
  }
}

TEST(Generate, ASeedGivesTheSameTextAndAnotherAnother) {
  const Loaded with("llama");
  const auto text = [&](uint64_t seed) {
    return generate(*with.model, with.tokenizer, "The",
                    {.tokens = 24, .sampling = {.temperature = 1.5, .seed = seed}})
        .rows[0]
        .ids;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Generate, RowsOfABatchDrawForThemselves) {
  const Loaded with("llama");
  const auto out = generate(*with.model, with.tokenizer, std::vector<std::string>{"The", "The"},
                            {.tokens = 24, .sampling = {.temperature = 1.5}});
  EXPECT_NE(out.rows[0].ids, out.rows[1].ids);
}

TEST(Generate, TopKOfOneIsGreedy) {
  const Loaded with("gpt2");
  const Greedy want(with.folder);
  for (const SamplingOptions& s :
       {SamplingOptions{.temperature = 3, .top_k = 1}, SamplingOptions{.temperature = 3, .top_p = 1e-9}})
    EXPECT_EQ(
        generate(*with.model, with.tokenizer, want.prompts[0], {.tokens = 20, .sampling = s}).rows[0].ids,
        want.ids[0]);
}

TEST(Generate, WhatIsShownIsTheText) {
  const Loaded with("mistral");
  std::vector<std::string> shown(2);
  const auto out =
      generate(*with.model, with.tokenizer, std::vector<std::string>{"The fox", "日月"},
               {.tokens = 24, .show = [&](size_t row, std::string_view text) { shown[row] += text; }});
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(shown[i], out.rows[i].text);
    EXPECT_EQ(out.rows[i].why, "length");
    EXPECT_EQ(out.rows[i].ids.size(), 24U);
  }
}

TEST(Generate, AWordStopsIt) {
  const Loaded with("qwen3");
  const std::string all = generate(*with.model, with.tokenizer, "The quick", {.tokens = 20}).rows[0].text;
  ASSERT_GT(all.size(), 12U);
  size_t at = all.size() / 2;
  while ((all[at] & 0xC0) == 0x80) ++at;
  const std::string word = all.substr(at, 4);
  std::string shown;
  const auto out = generate(
      *with.model, with.tokenizer, "The quick",
      {.tokens = 20, .stop = {"never this", word}, .show = [&](size_t, std::string_view t) { shown += t; }});
  EXPECT_EQ(out.rows[0].text, all.substr(0, all.find(word)));
  EXPECT_EQ(shown, out.rows[0].text);
  EXPECT_EQ(out.rows[0].why, "stop");
}

TEST(Generate, ATokenThatEndsTheTextEndsIt) {
  const Loaded with("llama");
  const auto ids = generate(*with.model, with.tokenizer, "The", {.tokens = 12}).rows[0].ids;
  DecoderConfig config = with.model->config();
  config.ends = {ids[5]};
  const auto parameters = with.model->named_parameters();
  const CausalLM same(config,
                      [&](const std::string& name, at::IntArrayRef) { return parameters[name].detach(); });
  const auto out = generate(same, with.tokenizer, "The", {.tokens = 12});
  const auto first = std::ranges::find(ids, ids[5]) - ids.begin();
  EXPECT_EQ(out.rows[0].ids, std::vector<int64_t>(ids.begin(), ids.begin() + first + 1));
  EXPECT_EQ(out.rows[0].why, "end");
}

TEST(Generate, WhatMakesNoSenseIsNamed) {
  const Loaded with("gpt2", "cpu");
  const auto said = [&](const std::string& prompt, const GenerateOptions& options) -> std::string {
    try {
      (void)generate(*with.model, with.tokenizer, prompt, options);
    } catch (const ArgumentError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(said("", {}), HasSubstr("no tokens"));
  EXPECT_THAT(said("a", {.tokens = 0}), HasSubstr("tokens"));
  EXPECT_THAT(said("a", {.tokens_per_call = 0}), HasSubstr("tokens_per_call"));
  EXPECT_THAT(said("a", {.tokens = 128}), HasSubstr("128"));
  EXPECT_THAT(said("a", {.tokens = INT64_MAX}), HasSubstr("positions"));
  EXPECT_EQ(said("a", {.tokens = 127}), "");
  EXPECT_THAT(said("a", {.sampling = {.temperature = -1}}), HasSubstr("temperature"));
  EXPECT_THAT(said("a", {.sampling = {.top_p = 0}}), HasSubstr("top_p"));
  EXPECT_THAT(said("a", {.sampling = {.top_k = -2}}), HasSubstr("top_k"));
  EXPECT_THAT(said("a", {.sampling = {.repetition_penalty = 0}}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(said("\xFF", {}), HasSubstr("UTF-8"));
}

TEST(StopWords, BeginningsAreHeldBack) {
  StopWords words({"<end>", "\n\n"});
  EXPECT_EQ(words.add("a<"), "a");
  EXPECT_EQ(words.add("en"), "");
  EXPECT_EQ(words.add("x\n"), "<enx");
  EXPECT_FALSE(words.stopped());
  EXPECT_EQ(words.add("\nb"), "");
  EXPECT_TRUE(words.stopped());
  EXPECT_EQ(words.add("more"), "");
  EXPECT_EQ(words.finish(), "");
  StopWords never({"zz", ""});
  EXPECT_EQ(never.add("az"), "a");
  EXPECT_EQ(never.finish(), "z");
}

}  // namespace
}  // namespace tpubridge
