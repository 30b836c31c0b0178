// Models through Google's TPU compiler: HBM by part against the compiler's own account, a search that goes on
// from what is stored, collectives of a mesh.
#include <cstdlib>

#include "tests/tools/command.h"

namespace tpubridge::tools_test {
namespace {

class FitModelForTpus : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(Path(BUILD_DIR) / "bin/tpubridge-plan"))
      GTEST_SKIP() << "built without torch";
    // Some twenty training steps for TPUs: longer than everything else together.
    if (!std::getenv("TPUBRIDGE_LONG_TESTS")) GTEST_SKIP() << "takes long: TPUBRIDGE_LONG_TESTS=1 runs it";
  }
  // A language model of this width: config.json is all of it.
  std::string model(int64_t width, int64_t layers) {
    const Path folder = folder_.path() / std::to_string(width);
    std::filesystem::create_directories(folder);
    write_file(folder / "config.json", nlohmann::json{{"model_type", "llama"},
                                                      {"architectures", {"LlamaForCausalLM"}},
                                                      {"hidden_size", width},
                                                      {"intermediate_size", 4 * width},
                                                      {"num_hidden_layers", layers},
                                                      {"num_attention_heads", width / 64},
                                                      {"num_key_value_heads", width / 64},
                                                      {"max_position_embeddings", 2048},
                                                      {"rms_norm_eps", 1e-5},
                                                      {"rope_theta", 10000.0},
                                                      {"hidden_act", "silu"},
                                                      {"vocab_size", 8192},
                                                      {"tie_word_embeddings", false},
                                                      {"dtype", "float32"}}
                                           .dump());
    return folder.string();
  }
  nlohmann::json fit(const std::string& file, std::vector<std::string> more) {
    Command command{{std::string(BUILD_DIR) + "/bin/tpubridge", "fit", file, "--json"}};
    command.argv.insert(command.argv.end(), more.begin(), more.end());
    command.environment = {{"TPUBRIDGE_CACHE", "1"},
                           {"TPUBRIDGE_CACHE_DIR", (folder_.path() / "cache").string()}};
    command.deadline = std::chrono::minutes(14);
    const Outcome end = run_command(command);
    EXPECT_TRUE(end.ok()) << end.str() << end.out << end.err;
    return nlohmann::json::parse(end.out);
  }
  static int64_t sum_of_parts(const nlohmann::json& point) {
    int64_t sum = 0;
    for (const auto& part : point["hbm"]) sum += part.get<int64_t>();
    return sum;
  }
  TempFolder folder_;
};

void expect_within(int64_t got, int64_t want, double share) {
  EXPECT_NEAR(static_cast<double>(got), static_cast<double>(want), share * static_cast<double>(want));
}

TEST_F(FitModelForTpus, PartsAddUpToTheCompilersPeak) {
  for (const std::string train : {"", "adamw", "sgd"}) {
    std::vector<std::string> words = {"--tpu", "v5e,v6e", "--batch", "4", "--length", "256"};
    if (!train.empty()) words.insert(words.end(), {"--train", train});
    const auto j = fit(model(512, 4), words);
    const auto parameters = j["parameters"].get<int64_t>();
    for (const auto& target : j["targets"]) {
      const auto& point = target["points"][0];
      SCOPED_TRACE(target["tpu"].get<std::string>() + " " + train);
      expect_within(sum_of_parts(point), point["needed_bytes"], 0.05);
      const auto& hbm = point["hbm"];
      expect_within(hbm["weights_bytes"], 4 * parameters, 0.01);
      const int64_t moments = train.empty() ? 0 : train == "sgd" ? 1 : 2;
      expect_within(hbm["optimizer_bytes"], 4 * parameters * moments, 0.01);
      // Layouts take little more than the elements.
      EXPECT_GE(hbm["layout_bytes"].get<int64_t>(), 0);
      EXPECT_LE(hbm["layout_bytes"].get<int64_t>(), hbm["weights_bytes"].get<int64_t>() / 20);
      // Six FLOPs a parameter and token for a step, two for a call; attention and embedding come on top.
      const double each = train.empty() ? 2 : 6;
      const double products = each * 4 * 256 * static_cast<double>(parameters - 8192 * 512);
      EXPECT_GT(point["flops"].get<double>(), 0.95 * products);
      EXPECT_LT(point["flops"].get<double>(), 1.5 * products);
      EXPECT_GT(point["tokens_per_second"].get<double>(), 0);
    }
  }
}

TEST_F(FitModelForTpus, ASearchAndItsSecondAnswer) {
  const std::vector<std::string> words = {"--tpu",    "v5e",  "--batch", "auto",
                                          "--length", "2048", "--train", "adamw"};
  const auto one = fit(model(512, 2), words);
  const auto& target = one["targets"][0];
  const auto largest = target["largest_batch"].get<int64_t>(),
             more = target["too_large_batch"].get<int64_t>();
  EXPECT_GT(largest, 4);
  EXPECT_LE(more - largest, std::max<int64_t>(1, largest / 8));
  EXPECT_LE(one["compiled"].get<int>(), 14);
  const auto two = fit(model(512, 2), words);
  EXPECT_EQ(two["compiled"], 0);
  EXPECT_EQ(two["traced"], 0);
  EXPECT_EQ(two["targets"][0]["largest_batch"], largest);
}

TEST_F(FitModelForTpus, AMeshHasItsCollectivesAndLessOnEach) {
  const std::string llama = model(512, 2);
  const auto whole = fit(llama, {"--tpu", "v5e", "--batch", "8", "--length", "128", "--train", "adamw"});
  const auto data = fit(
      llama, {"--tpu", "v5e:2x2", "--mesh", "data=4", "--batch", "8", "--length", "128", "--train", "adamw"});
  const auto fsdp = fit(
      llama, {"--tpu", "v5e:2x2", "--mesh", "fsdp=4", "--batch", "8", "--length", "128", "--train", "adamw"});
  const auto model2 = fit(llama, {"--tpu", "v5e:2x2", "--mesh", "data=2,model=2", "--batch", "8", "--length",
                                  "128", "--train", "adamw"});
  const auto point = [](const nlohmann::json& j) { return j["targets"][0]["points"][0]; };
  const auto moved = [&](const nlohmann::json& j, const std::string& kind) {
    int64_t bytes = 0;
    for (const auto& c : point(j).value("collectives", nlohmann::json::array()))
      if (c["kind"] == kind) bytes += c["bytes"].get<int64_t>();
    return bytes;
  };
  const int64_t weights = 4 * whole["parameters"].get<int64_t>();
  // Gradients of all parameters are summed, in f32.
  EXPECT_GE(moved(data, "all-reduce"), weights * 95 / 100);
  EXPECT_LE(moved(data, "all-reduce"), weights * 110 / 100);
  EXPECT_EQ(moved(data, "all-gather"), 0);
  EXPECT_GT(moved(fsdp, "all-gather"), weights / 2);
  EXPECT_GT(moved(model2, "all-reduce"), 0);
  const auto arguments = [&](const nlohmann::json& j) { return point(j)["arguments_bytes"].get<int64_t>(); };
  expect_within(arguments(data), arguments(whole), 0.02);
  EXPECT_LT(arguments(fsdp), arguments(whole) * 3 / 10);
  EXPECT_LT(arguments(model2), arguments(whole) * 6 / 10);
  for (const auto& j : {data, fsdp, model2})
    expect_within(sum_of_parts(point(j)), point(j)["needed_bytes"], 0.05);
}

}  // namespace
}  // namespace tpubridge::tools_test
