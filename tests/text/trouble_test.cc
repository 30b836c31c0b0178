// Tokenizer files that are wrong, or use what is not there; text that is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tpubridge/base/json.h"
#include "tpubridge/text/tokenizer.h"

namespace tpubridge {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json bpe() {
  return {{"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"c", 3}}},
            {"merges", json::array({json::array({"a", "b"})})}}}};
}

std::string refused(const json& file) {
  try {
    (void)Tokenizer::of_text(file.dump(), "tokenizer.json").encode("ab c");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(TokenizerTrouble, TheSmallestFileWorks) {
  const auto tokenizer = Tokenizer::of_text(bpe().dump(), "tokenizer.json");
  EXPECT_EQ(tokenizer.encode("abacb"), (std::vector<int64_t>{2, 0, 3, 1}));
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{2, 3}), "ab c");
}

TEST(TokenizerTrouble, KindsThatAreNotKnownAreNamedWithThoseThatAre) {
  for (const char* part : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    json file = bpe();
    file[part] = {{"type", "Telepathy"}};
    const std::string said = refused(file);
    EXPECT_THAT(said, HasSubstr("Telepathy"));
    EXPECT_THAT(said, HasSubstr(part));
    EXPECT_THAT(said, HasSubstr("Sequence"));
    file[part] = {{"kind", "Lowercase"}};
    EXPECT_THAT(refused(file), HasSubstr("type"));
  }
  json file = bpe();
  file["model"]["type"] = "Oracle";
  EXPECT_THAT(refused(file), HasSubstr("Oracle"));
  EXPECT_THAT(refused(file), HasSubstr("WordPiece"));
}

TEST(TokenizerTrouble, MergesOfTokensThatAreNotThere) {
  json file = bpe();
  file["model"]["merges"] = json::array({json::array({"a", "z"})});
  EXPECT_THAT(refused(file), HasSubstr("\"z\""));
  file["model"]["merges"] = json::array({"b c"});
  EXPECT_THAT(refused(file), HasSubstr("\"bc\""));
  file["model"]["merges"] = json::array({"a b c"});
  EXPECT_THAT(refused(file), HasSubstr("no pair"));
  file["model"]["merges"] = 3;
  EXPECT_THAT(refused(file), HasSubstr("merges"));
}

TEST(TokenizerTrouble, VocabulariesThatMakeNoSense) {
  json file = bpe();
  file["model"]["vocab"]["d"] = -4;
  EXPECT_THAT(refused(file), HasSubstr("\"d\""));
  file["model"]["vocab"]["d"] = 1e300;
  EXPECT_THAT(refused(file), HasSubstr("\"d\""));
  file["model"]["vocab"]["d"] = 4000000000000;
  EXPECT_THAT(refused(file), HasSubstr("\"d\""));
  file["model"]["vocab"] = "none";
  EXPECT_THAT(refused(file), HasSubstr("vocab"));
  file = {
      {"model", {{"type", "Unigram"}, {"unk_id", 9}, {"vocab", json::array({json::array({"a", -1.0})})}}}};
  EXPECT_THAT(refused(file), HasSubstr("unk_id"));
  file["model"].erase("unk_id");
  EXPECT_THAT(refused(file), HasSubstr("does not know"));
}

TEST(TokenizerTrouble, RegularExpressions) {
  const auto with = [](const std::string& regex) {
    json file = bpe();
    file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}};
    return refused(file);
  };
  EXPECT_EQ(with(R"(\s+)"), "");
  EXPECT_THAT(with("(ab"), HasSubstr("regular expression"));
  EXPECT_THAT(with("[a[bc]]"), HasSubstr("set within a set"));
  EXPECT_THAT(with("[a-z&&[^b]]"), HasSubstr("intersection"));
  EXPECT_THAT(with(""), HasSubstr("empty"));
  json file = bpe();
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Eaten"}};
  EXPECT_THAT(refused(file), HasSubstr("Eaten"));
}

TEST(TokenizerTrouble, APatternThatNeverEndsIsStopped) {
  json file = bpe();
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a+)+$"}}}, {"behavior", "Isolated"}};
  const auto tokenizer = Tokenizer::of_text(file.dump(), "tokenizer.json");
  EXPECT_THROW((void)tokenizer.encode(std::string(60, 'a') + "b"), ArgumentError);
}

TEST(TokenizerTrouble, DropoutAndCharsmaps) {
  json file = bpe();
  file["model"]["dropout"] = 0.1;
  EXPECT_THAT(refused(file), HasSubstr("dropout"));
  for (const char* map : {"!!", "AAAA", "/////w==", "BAAAAAAAAAA="}) {
    file = bpe();
    file["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", map}};
    if (std::string_view(map).starts_with("B")) {
      EXPECT_EQ(refused(file), "");  // a trie of one empty unit
    } else {
      EXPECT_THAT(refused(file), HasSubstr("charsmap"));
    }
  }
}

TEST(TokenizerTrouble, TextThatIsNotUtf8) {
  const auto tokenizer = Tokenizer::of_text(bpe().dump(), "tokenizer.json");
  for (const char* text : {"ab\xFF", "\xC3", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC0\x80"})
    EXPECT_THROW((void)tokenizer.encode(text), ArgumentError) << text;
}

TEST(TokenizerTrouble, FilesThatAreNotThereOrBroken) {
  EXPECT_THROW((void)Tokenizer::of_file("/nowhere/tokenizer.json"), FileError);
  EXPECT_THROW((void)Tokenizer::of_file(TEST_DATA), FileError);
  EXPECT_THROW((void)Tokenizer::of_text("{", "x"), Error);
  EXPECT_THROW((void)Tokenizer::of_text("[]", "x"), Error);
  EXPECT_THROW((void)Tokenizer::of_text("{}", "x"), Error);
  EXPECT_THROW((void)Tokenizer::of_text(std::string(100000, '['), "x"), Error);
}

}  // namespace
}  // namespace tpubridge
