// `tpubridge generate`: the tokens of transformers, as text and as JSON; folders and options that are wrong.
#include "tests/tools/command.h"
#include "tpubridge/base/json.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

const Environment kOnCpu = {{"TPUBRIDGE_PLUGIN", CPU_PLUGIN}};

std::string model_folder(const std::string& family) { return std::string(TEST_DATA) + "/models/" + family; }

class GenerateCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(Path(BUILD_DIR) / "bin/tpubridge-generate"))
      GTEST_SKIP() << "built without torch";
  }
  static Ran generate(const std::string& folder, std::vector<std::string> more) {
    std::vector<std::string> words{"generate", folder};
    words.insert(words.end(), more.begin(), more.end());
    return tpubridge(words, kOnCpu);
  }
};

TEST_F(GenerateCommand, JsonHoldsTheTokensOfTransformers) {
  const auto want = parse_json_file(model_folder("llama") + "/reference.json");
  const Ran ran =
      generate(model_folder("llama"), {"--prompt", want["prompts"][0], "--prompt", want["prompts"][1],
                                       "--tokens", "20", "--greedy", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const auto json = ran.json();
  ASSERT_EQ(json["texts"].size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(json["texts"][i]["tokens"], want["greedy"][i]);
    EXPECT_EQ(json["texts"][i]["ended_by"], "length");
  }
  EXPECT_GT(json["seconds_to_first_token"].get<double>(), 0);
  EXPECT_GT(json["tokens_per_second"].get<double>(), 0);
}

TEST_F(GenerateCommand, TextComesAsItIsMade) {
  const auto json =
      generate(model_folder("gemma2"), {"--prompt", "The fox", "--tokens", "8", "--json"}).json();
  const Ran ran = generate(model_folder("gemma2"), {"--prompt", "The fox", "--tokens", "8"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, json["texts"][0]["text"].get<std::string>() + "\n");
  EXPECT_EQ(json["text"], json["texts"][0]["text"]);
  EXPECT_EQ(json["tokens"], json["texts"][0]["tokens"]);
  EXPECT_EQ(json["tokens"].size(), 8U);
}

TEST_F(GenerateCommand, ASeedIsHeard) {
  const auto text = [](const std::string& seed) {
    return generate(model_folder("gpt2"),
                    {"--prompt", "The", "--tokens", "16", "--temperature", "1.5", "--top-k", "50", "--top-p",
                     "0.95", "--seed", seed, "--device", "cpu"})
        .out;
  };
  EXPECT_EQ(text("1"), text("1"));
  EXPECT_NE(text("1"), text("2"));
}

TEST_F(GenerateCommand, OptionsThatMakeNoSense) {
  const std::string llama = model_folder("llama");
  EXPECT_EQ(generate(llama, {}).code, 64);
  EXPECT_EQ(generate(llama, {"--prompt", "a", "--tokens", "0"}).code, 64);
  EXPECT_EQ(generate(llama, {"--prompt", "a", "--temperature", "nan"}).code, 64);
  EXPECT_EQ(generate(llama, {"--prompt", "a", "--temperature", "1", "--greedy"}).code, 64);
  EXPECT_EQ(generate(llama, {"--prompt", "a", "--top-p", "0.5"}).code, 64);
  EXPECT_EQ(generate(llama, {"--prompt", "a", "--dtype", "f7"}).code, 64);
}

TEST_F(GenerateCommand, WhatCannotBeDoneIsAnErrorInWords) {
  const auto said = [](const std::string& folder, std::vector<std::string> more) {
    more.emplace_back("--json");
    const Ran ran = generate(folder, std::move(more));
    EXPECT_EQ(ran.code, 1);
    return ran.error().dump();
  };
  EXPECT_THAT(said("/nowhere", {"--prompt", "a"}), HasSubstr("/nowhere"));
  EXPECT_THAT(said(std::string(TEST_DATA), {"--prompt", "a"}), HasSubstr("tokenizer.json"));
  EXPECT_THAT(said(model_folder("llama"), {"--prompt", "a", "--tokens", "5000"}), HasSubstr("128"));
  EXPECT_THAT(said(model_folder("gpt2"), {"--prompt", ""}), HasSubstr("no tokens"));
  TempFolder folder;
  write_file(folder.path() / "tokenizer.json", read_file(model_folder("llama") + "/tokenizer.json"));
  write_file(folder.path() / "config.json", R"({"model_type": "mamba"})");
  EXPECT_THAT(said(folder.path().string(), {"--prompt", "a"}),
              testing::AllOf(HasSubstr("mamba"), HasSubstr("llama")));
}

}  // namespace
}  // namespace tpubridge::tools_test
