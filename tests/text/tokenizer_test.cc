// Tokenizers beside what the `tokenizers` package makes of the same files and texts
// (tests/python/make_tokenizers.py).
#include "tpubridge/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tpubridge/base/json.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge {
namespace {

constexpr size_t kWithSpecial = 120;  // texts that were decoded with special tokens, too

Path data(const std::string& name) { return Path(TEST_DATA) / "tokenizers" / (name + ".json"); }

class Tokenizers : public testing::TestWithParam<const char*> {
 protected:
  const Tokenizer tokenizer = Tokenizer::of_file(data(GetParam()));
  const nlohmann::json texts = parse_json_file(data("texts"));
  const nlohmann::json pairs = parse_json_file(data(std::string(GetParam()) + ".pairs"));
};

TEST_P(Tokenizers, EncodesAsThePackageDoes) {
  ASSERT_EQ(pairs.size(), texts.size());
  ASSERT_GT(texts.size(), 200U);
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(tokenizer.encode(texts[i].get<std::string>()), pairs[i][0].get<std::vector<int64_t>>())
        << texts[i];
}

TEST_P(Tokenizers, DecodesAsThePackageDoes) {
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<int64_t> ids = pairs[i][0];
    const std::string want = (pairs[i][1].is_null() ? texts[i] : pairs[i][1]).get<std::string>();
    EXPECT_EQ(tokenizer.decode(ids), want) << texts[i];
    if (i >= kWithSpecial) continue;
    EXPECT_EQ(tokenizer.decode(ids, false), pairs[i][2].is_null() ? want : pairs[i][2].get<std::string>());
  }
}

TEST_P(Tokenizers, AStreamGivesTheSameTextInWholeCharacters) {
  for (const auto& pair : pairs) {
    const std::vector<int64_t> ids = pair[0];
    TextStream stream(tokenizer);
    std::string all;
    for (const int64_t id : ids) {
      const std::string part = stream.add(id);
      EXPECT_EQ(text::first_invalid(part), std::string::npos);
      all += part;
    }
    all += stream.finish();
    EXPECT_EQ(all, tokenizer.decode(ids)) << pair[0];
  }
}

// A model may give any tokens: bytes that are no character, special tokens in a row.
TEST_P(Tokenizers, AStreamOfAnyTokens) {
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> ids;
    for (int i = 0; i < 30; ++i)
      ids.push_back(static_cast<int64_t>(random() % static_cast<uint32_t>(tokenizer.size())));
    TextStream stream(tokenizer);
    std::string all;
    for (const int64_t id : ids) {
      const std::string part = stream.add(id);
      ASSERT_EQ(text::first_invalid(part), std::string::npos);
      all += part;
    }
    all += stream.finish();
    const std::string want = tokenizer.decode(ids);
    const bool unmade = tokenizer.id("<0x41>") && want.find("\xEF\xBF\xBD") != std::string::npos;
    if (unmade) continue;
    EXPECT_EQ(all, want);
  }
}

TEST_P(Tokenizers, AStreamOfOneTokenForEver) {
  for (int64_t id = 0; id < tokenizer.size(); id += 7) {
    TextStream stream(tokenizer);
    std::string all;
    for (int i = 0; i < 100; ++i) all += stream.add(id);
    all += stream.finish();
    EXPECT_EQ(text::first_invalid(all), std::string::npos);
  }
}

TEST_P(Tokenizers, TokensAndIdsGoBothWays) {
  int64_t known = 0;
  for (int64_t id = 0; id < tokenizer.size(); ++id) {
    const auto token = tokenizer.token(id);
    if (!token) continue;
    ++known;
    EXPECT_EQ(tokenizer.id(*token), id) << *token;
  }
  EXPECT_GT(known, 100);
  EXPECT_FALSE(tokenizer.token(tokenizer.size()));
  EXPECT_FALSE(tokenizer.token(-1));
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{-1, 1 << 30}), "");
}

TEST_P(Tokenizers, LongTextsTakeTimeThatGrowsWithTheirLength) {
  std::string letters, marks, spaces(1 << 20, ' ');
  for (int i = 0; i < 1 << 19; ++i) letters += static_cast<char>('a' + i * i % 26);
  for (int i = 0; i < 1 << 18; ++i) marks += i % 2 ? "\xCC\x81" : "\xCC\xA3";  // two classes in turns
  for (const std::string& text : {letters, marks, spaces}) {
    const auto began = std::chrono::steady_clock::now();
    (void)tokenizer.encode(text);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Tokenizers,
                         testing::Values("gpt2", "roberta", "llama3", "qwen", "llama2", "mistral", "gemma",
                                         "bert", "bert_cased", "t5", "unigram_bytes", "digits", "clip",
                                         "words"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tpubridge
