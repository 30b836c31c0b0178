// The configuration as JSON: round trips, and every way in which a document can be wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tpubridge/base/errors.h"
#include "tpubridge/config/config.h"

namespace tpubridge {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// What from_json throws; nothing where it does not.
std::shared_ptr<TPUConfigurationError> refusal(const std::string& text) {
  try {
    (void)Config::from_json(text, "run.json");
  } catch (const TPUConfigurationError& e) {
    return std::make_shared<TPUConfigurationError>(e);
  }
  return nullptr;
}
std::shared_ptr<TPUConfigurationError> refused_tpu(const std::string& inner) {
  return refusal("{\"hardware\": {\"tpu\": {" + inner + "}}}");
}

TEST(ConfigJson, HasEveryFieldUnderItsName) {
  const json out = json::parse(Config().to_json());
  EXPECT_EQ(out, json::parse(R"({
    "mode": "none", "seed": 42, "optimization_level": "balanced",
    "validation": {"enabled": true, "strict": false},
    "runtime": {"plugin": "", "cpu_devices": 1, "cache_dir": "", "cache_size_mb": 4096, "fallback": "warn",
                "graph_limit": 20000, "log_level": "warn"},
    "hardware": {"tpu": {
      "enabled": true, "version": "auto", "topology": "auto", "compilation_mode": "torch_xla", "xla_flags": "",
      "precision": "bfloat16", "mixed_precision": true, "memory_fraction": 0.9, "gradient_checkpointing": true,
      "xla_optimization_level": 2, "enable_xla_dynamic_shapes": true, "enable_jax_integration": false, "jax_backend": "tpu", "cache_max_size": 100,
      "compilation_timeout_seconds": 300, "allocation_history_retention_seconds": 3600,
      "monitoring_interval_seconds": 1, "monitoring_duration_seconds": 60, "v6e_memory_gb": null, "v7_memory_gb": null,
      "enable_strict_validation": false, "enable_xla_cache": true}}})"));
}

TEST(ConfigJson, OnlyWhatTheUserChose) {
  Config c(Mode::inference);
  c.hardware.tpu.memory_fraction = 0.8;
  EXPECT_EQ(json::parse(c.to_json(Fields::chosen)), json::parse(R"({"mode": "inference", "validation": {},
    "runtime": {}, "hardware": {"tpu": {"memory_fraction": 0.8}}})"));
  const Config back = Config::from_json(c.to_json(Fields::chosen));
  EXPECT_EQ(back, c);
  EXPECT_TRUE(back.hardware.tpu.memory_fraction.is_set());
  EXPECT_FALSE(back.hardware.tpu.cache_max_size.is_set());
  EXPECT_EQ(back.hardware.tpu.cache_max_size, 200);
  EXPECT_TRUE(Config::from_json(c.to_json()).hardware.tpu.cache_max_size.is_set())
      << "all: every value is pinned";
}

TEST(ConfigJson, FieldsInTheDocumentWinOverItsMode) {
  const Config c = Config::from_json(R"({"hardware": {"tpu": {"cache_max_size": 7}}, "mode": "inference"})");
  EXPECT_EQ(c.mode(), Mode::inference);
  EXPECT_EQ(c.hardware.tpu.cache_max_size, 7);
  EXPECT_FALSE(c.validation.enabled);
}

TEST(ConfigJson, TheTPUConfigAlone) {
  TPUConfig c{.version = TPUVersion::v5p, .v7_memory_gb = 128.5};
  const TPUConfig back = TPUConfig::from_json(c.to_json());
  EXPECT_EQ(back, c);
  EXPECT_EQ(back.version, TPUVersion::v5p);
  EXPECT_EQ(json::parse(c.to_json(Fields::chosen)), (json{{"version", "v5p"}, {"v7_memory_gb", 128.5}}));
  EXPECT_THROW((void)TPUConfig::from_json(R"({"mode": "training"})"), TPUConfigurationError);
}

TEST(ConfigJson, Files) {
  const TempFolder folder;
  const Path path = folder.path() / "run.json";
  Config c(Mode::training);
  c.runtime.plugin = "/a \"quoted\" päth";
  c.save(path);
  EXPECT_EQ(Config::from_file(path), c);
  c.hardware.tpu.save(path);
  EXPECT_EQ(TPUConfig::from_file(path), c.hardware.tpu);
  EXPECT_THROW((void)Config::from_file(folder.path() / "none.json"), FileError);
  c.seed = -1;
  EXPECT_THROW(c.save(path), TPUConfigurationError);
  EXPECT_EQ(TPUConfig::from_file(path), c.hardware.tpu) << "the old file stays";
}

TEST(ConfigJson, UnknownFieldsNameTheNearest) {
  const auto near = refused_tpu("\"memory_fracton\": 0.5");
  ASSERT_TRUE(near);
  EXPECT_EQ(near->detail("parameter"), "hardware.tpu.memory_fracton");
  EXPECT_EQ(near->detail("nearest"), "hardware.tpu.memory_fraction");
  EXPECT_EQ(near->detail("source"), "run.json");
  EXPECT_THAT(near->message(), HasSubstr("did you mean hardware.tpu.memory_fraction"));
  EXPECT_EQ(refusal(R"({"memory_fraction": 0.5})")->detail("nearest"), "hardware.tpu.memory_fraction");
  EXPECT_EQ(refusal(R"({"sed": 1})")->detail("nearest"), "seed");
  EXPECT_EQ(refusal(R"({"hardwear": {}})")->detail("nearest"), "hardware");
  EXPECT_EQ(refusal(R"({"hardware": {"tpus": {}}})")->detail("nearest"), "hardware.tpu");
  EXPECT_EQ(refusal(R"({"runtime": {"plugins": ""}})")->detail("nearest"), "runtime.plugin");
  EXPECT_EQ(refusal(R"({"validation": {"strickt": true}})")->detail("nearest"), "validation.strict");
}

TEST(ConfigJson, EveryFieldOfAWrongType) {
  const json whole = json::parse(Config().to_json());
  int fields = 0;
  const auto spoil = [&](const json::json_pointer& at) {
    const json good = whole[at];
    for (const json& bad :
         {json::array(), json::object(), json("nonsense"), json(true), json(1.5), json(7)}) {
      const bool text = at.back() == "xla_flags" || at.back() == "plugin" || at.back() == "cache_dir";
      const bool number =
          good.is_number_float() || at.back().ends_with("_gb") || at.back().starts_with("monitoring_");
      if ((text && bad.is_string()) ||
          (good.is_boolean() && bad.is_boolean() && at.back() != "enable_jax_integration") ||
          (number && bad.is_number()) || (good.is_number_integer() && bad.is_number_integer()))
        continue;
      json document = whole;
      document[at] = bad;
      const auto e = refusal(document.dump());
      ASSERT_TRUE(e) << at << " = " << bad;
      std::string name = at.to_string().substr(1);
      std::ranges::replace(name, '/', '.');
      EXPECT_EQ(e->detail("parameter"), name);
      EXPECT_EQ(e->detail("value"), bad.dump());
      EXPECT_NE(e->detail("allowed"), "");
    }
    ++fields;
  };
  for (const auto& [key, value] : whole.items())
    if (!value.is_object()) spoil(json::json_pointer("/" + key));
  for (const char* section : {"/validation", "/runtime", "/hardware/tpu"})
    for (const auto& [key, value] : whole[json::json_pointer(section)].items())
      spoil(json::json_pointer(std::string(section) + "/" + key));
  EXPECT_EQ(fields, 3 + 2 + 7 + 22);
}

TEST(ConfigJson, OutOfRangeNamesFieldValueAndRange) {
  const auto e = refused_tpu("\"memory_fraction\": 1.5");
  ASSERT_TRUE(e);
  EXPECT_EQ(e->message(),
            "Invalid configuration for 'hardware.tpu.memory_fraction': 1.5 - it must be a number, 0.1 to 1");
  EXPECT_EQ(refused_tpu("\"version\": \"v9\"")->detail("allowed"), "one of auto, v4, v5e, v5p, v6e, v7");
  EXPECT_EQ(refused_tpu("\"xla_optimization_level\": 18446744073709551615")->detail("value"),
            "18446744073709551615");
  EXPECT_EQ(refused_tpu("\"xla_optimization_level\": 2.0")->detail("value"), "2.0");
  EXPECT_TRUE(refused_tpu("\"v7_memory_gb\": 1e400"));
  EXPECT_EQ(refusal(R"({"mode": "fast"})")->detail("allowed"),
            "one of none, inference, training, development");
}

TEST(ConfigJson, SectionsMustBeObjects) {
  for (const char* text :
       {R"([])", R"("x")", R"(3)", R"(null)", R"({"hardware": 1})", R"({"hardware": {"tpu": []}})",
        R"({"runtime": null})", R"({"validation": true})"}) {
    const auto e = refusal(text);
    ASSERT_TRUE(e) << text;
    EXPECT_EQ(e->detail("allowed"), "an object") << text;
  }
}

TEST(ConfigJson, AKeyMayNotStandTwice) {
  EXPECT_THAT(refusal(R"({"seed": 1, "seed": 2})")->message(), HasSubstr("stands twice"));
}

TEST(ConfigJson, HalfWrittenAtEveryByte) {
  const TempFolder folder;
  const Path path = folder.path() / "run.json";
  const std::string whole = Config(Mode::training).to_json();
  ASSERT_TRUE(whole.ends_with("}\n"));
  for (size_t n = 0; n + 1 < whole.size(); ++n) {
    const auto e = refusal(whole.substr(0, n));
    ASSERT_TRUE(e) << n << " bytes are no configuration";
    ASSERT_NE(e->detail("line"), "") << n;
  }
  EXPECT_EQ(Config::from_json(whole.substr(0, whole.size() - 1)), Config(Mode::training));
  write_file(path, std::string_view(whole).substr(0, 100));
  try {
    (void)Config::from_file(path);
    FAIL() << "half a file was read";
  } catch (const TPUBackendError& e) {
    EXPECT_EQ(e.detail("source"), path.string());
    EXPECT_THAT(e.what(), HasSubstr("Is the file whole?"));
  }
}

Config random_config(std::mt19937& random) {
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  Config c(static_cast<Mode>(below(4)));
  TPUConfig& t = c.hardware.tpu;
  if (below(2)) t.enabled = below(2) == 1;
  if (below(2)) t.version = static_cast<TPUVersion>(below(6));
  if (below(2)) t.topology = static_cast<TPUTopology>(below(4));
  if (below(2)) t.precision = static_cast<TPUPrecision>(below(4));
  if (below(2)) t.memory_fraction = std::uniform_real_distribution(0.1, 1.0)(random);
  if (below(2)) t.xla_optimization_level = below(4);
  if (below(2)) t.cache_max_size = below(1000000);
  if (below(2)) t.v6e_memory_gb = std::uniform_real_distribution(1.0, 4096.0)(random);
  if (below(2)) t.v7_memory_gb = std::nullopt;
  if (below(2)) c.seed = below(1u << 31);
  if (below(2)) c.runtime.log_level = static_cast<log::Level>(below(6));
  std::string text;
  for (int64_t i = below(20); i > 0; --i) text += static_cast<char>(below(128));  // with quotes and controls
  if (below(2)) t.xla_flags = text;
  if (below(2)) c.runtime.cache_dir = text + "\xc3\xa9";
  return c;
}

TEST(ConfigJson, RoundTripsGiveAnEqualConfig) {
  std::mt19937 random(20260101);
  for (int i = 0; i < 300; ++i) {
    const Config c = random_config(random);
    const std::string all = c.to_json(), chosen = c.to_json(Fields::chosen);
    ASSERT_EQ(Config::from_json(all), c) << all;
    ASSERT_EQ(Config::from_json(chosen), c) << chosen;
    ASSERT_EQ(Config::from_json(all).to_json(), all);
    ASSERT_EQ(Config::from_json(chosen).to_json(Fields::chosen), chosen);
    ASSERT_EQ(TPUConfig::from_json(c.hardware.tpu.to_json()), c.hardware.tpu);
  }
}

// Bytes changed, cut out and put in: a configuration that is sound, or the one error.
TEST(ConfigJson, SpoiltTextsAreRefusedOrSound) {
  std::mt19937 random(7);
  const std::string whole = Config(Mode::development).to_json();
  int sound = 0, bad = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = whole;
    for (auto n = random() % 3 + 1; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8 + 1);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 8));
      }
    }
    if (refusal(text)) {
      ++bad;
    } else {
      ASSERT_NO_THROW(Config::from_json(text).check()) << text;
      ++sound;
    }
  }
  EXPECT_GT(bad, 1000);
  EXPECT_GT(sound, 10);
}

}  // namespace
}  // namespace tpubridge
