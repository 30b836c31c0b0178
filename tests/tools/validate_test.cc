// `tpubridge validate`.
#include "tests/tools/command.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

const Environment kCpu = {{"TPUBRIDGE_PLUGIN", CPU_PLUGIN}};

TEST(Validate, AGoodFile) {
  const File file("run.json", R"({"mode": "training", "hardware": {"tpu": {"memory_fraction": 0.8}}})");
  const Ran ran = tpubridge({"validate", file.str()}, kCpu);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("memory fraction valid: 0.8"));
  // No TPU, and level 2 of the mode on what is taken for a v5e.
  EXPECT_THAT(ran.out, HasSubstr("10 checks, 8 passed, 2 warnings, 0 failed\n"));
  const auto json = tpubridge({"validate", file.str(), "--json"}, kCpu).json();
  EXPECT_EQ(json["good"], true);
  EXPECT_EQ(json["is_valid"], true);
  EXPECT_EQ(json["total_tests"], 10);
  EXPECT_EQ(json["warnings"], 2);
  EXPECT_EQ(json["config"]["mode"], "training");
  EXPECT_EQ(json["config"]["hardware"]["tpu"]["memory_fraction"], 0.8);
  EXPECT_EQ(json["config"]["hardware"]["tpu"]["version"], "v5e");
}

TEST(Validate, StrictCountsWarnings) {
  const File file("run.json", "{}");
  EXPECT_EQ(tpubridge({"validate", file.str()}, kCpu).code, 0);
  const Ran strict = tpubridge({"validate", file.str(), "--strict", "--json"}, kCpu);
  EXPECT_EQ(strict.code, 1);
  EXPECT_EQ(strict.json()["good"], false);
  EXPECT_EQ(strict.json()["is_valid"], true);
  const Ran tpu = tpubridge({"validate", file.str(), "--strict", "--json"},
                            {{"TPUBRIDGE_PLUGIN", FAKE_PLUGIN}, {"FAKE_PJRT", "generation=v6e,chips=4"}});
  EXPECT_EQ(tpu.code, 0) << tpu.out << tpu.err;
  EXPECT_EQ(tpu.json()["total_tests"], 11);
  EXPECT_EQ(tpu.json()["config"]["hardware"]["tpu"]["version"], "v6e");
  EXPECT_EQ(tpu.json()["config"]["hardware"]["tpu"]["memory_fraction"], 0.95);
}

TEST(Validate, EverythingWrongIsToldAtOnce) {
  const File file("run.json",
                  R"({"mode": "fast", "hardware": {"tpu": {"memory_fracton": 1, "cache_max_size": "big"}}})");
  const Ran ran = tpubridge({"validate", file.str()}, kCpu);
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("did you mean hardware.tpu.memory_fraction?"));
  EXPECT_THAT(ran.out, HasSubstr("'hardware.tpu.cache_max_size': \"big\""));
  EXPECT_THAT(ran.out, HasSubstr("'mode': \"fast\""));
  EXPECT_THAT(ran.out, HasSubstr("3 failed"));
  const Ran json = tpubridge({"validate", file.str(), "--json"}, kCpu);
  EXPECT_EQ(json.code, 1);
  EXPECT_EQ(json.json()["failed"], 3);
  EXPECT_TRUE(json.json()["config"].is_null());
}

TEST(Validate, WhatIsNoConfiguration) {
  const File half("run.json", R"({"mode": "trai)");
  const Ran ran = tpubridge({"validate", half.str(), "--json"}, kCpu);
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.error()["error_type"], "TPUConfigurationError");
  EXPECT_EQ(ran.error()["details"]["line"], "1");
  EXPECT_EQ(tpubridge({"validate", "/no/such.json", "--json"}, kCpu).error()["error_type"], "FileError");
  EXPECT_EQ(tpubridge({"validate"}, kCpu).code, 64);
}

TEST(Validate, HelpAndCompletion) {
  EXPECT_THAT(tpubridge({"validate", "--help"}).out, HasSubstr("Examples:"));
  EXPECT_THAT(tpubridge({"completion", "bash"}).out, HasSubstr("validate) options='--help --strict --json"));
}

}  // namespace
}  // namespace tpubridge::tools_test
