#include "tpubridge/aot/protocol.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tests/aot/fake_child.h"

namespace tpubridge::aot {
namespace {

using nlohmann::json;

FitResult known() {
  FitResult out;
  out.tpu = "v5e:1x1";
  out.peak_flops = 200e12;
  return out;
}

FitResult read(const json& response) { return read_response(response.dump(), known()); }

json failed(const char* stage, const char* message, const char* xla_code = "") {
  return {
      {"stage", stage},
      {"topology", json::parse(kFits)["topology"]},
      {"error", {{"type", "X"}, {"message", message}, {"hint", ""}, {"code", 8}, {"xla_code", xla_code}}}};
}

TEST(Protocol, TheRequestNamesAll) {
  const FitRequest request{
      .program = "",
      .tpu = "v7",
      .replicas = 2,
      .partitions = 3,
      .shardy = true,
      .xla_options = {{"a", true}, {"b", int64_t{7}}, {"c", 0.5}, {"d", std::string("x")}}};
  const json j = json::parse(write_request(request, parse_slice("v4:4x4x4"), {"/p", "/l", "/e"}));
  const json expected = {{"program", "/p"},
                         {"libtpu", "/l"},
                         {"executable", "/e"},
                         {"topology", "v4:4x4x4"},
                         {"chip_config", "megacore"},
                         {"slices", 1},
                         {"replicas", 2},
                         {"partitions", 3},
                         {"shardy", true},
                         {"xla_options", {{"a", true}, {"b", 7}, {"c", 0.5}, {"d", "x"}}}};
  EXPECT_EQ(j, expected);
}

TEST(Protocol, AProgramThatFits) {
  const FitResult r = read_response(kFits, known());
  EXPECT_EQ(r.verdict, Verdict::fits);
  EXPECT_EQ(r.device_kind, "TPU v5 lite");
  EXPECT_EQ(r.chips, 1);
  EXPECT_EQ(r.hbm_bytes, 16909336064);
  EXPECT_EQ(r.arguments, 262144);
  EXPECT_EQ(r.outputs, 131072);
  EXPECT_EQ(r.temporaries, 4096);
  EXPECT_EQ(r.aliased, 65536);
  EXPECT_EQ(r.code, 54272);
  EXPECT_EQ(r.peak, 524288);
  EXPECT_EQ(r.needed, 524288 + 54272);
  EXPECT_EQ(r.flops, 33554432);
  EXPECT_EQ(r.bytes_accessed, 922112);
  EXPECT_EQ(r.compile_seconds, 3.5);
  EXPECT_EQ(r.optimal_seconds, 1.25e-6);
  EXPECT_EQ(r.unestimated, 0);
  ASSERT_TRUE(r.utilization());
  EXPECT_NEAR(*r.utilization(), 33554432 / 1.25e-6 / 200e12, 1e-12);
  EXPECT_EQ(r.message, "");
}

TEST(Protocol, NeededIsTheLargerOfPeakAndSum) {
  json j = json::parse(kFits);
  j["memory"]["peak"] = 0;  // the compiler does not tell
  EXPECT_EQ(read(j).needed, 262144 + 131072 - 65536 + 4096 + 54272);
}

TEST(Protocol, CompiledButTooLarge) {
  json j = json::parse(kFits);
  j["memory"]["peak"] = 16909336064;  // exactly all of it, and the code does not fit any more
  const FitResult r = read(j);
  EXPECT_EQ(r.verdict, Verdict::does_not_fit);
  EXPECT_EQ(r.needed, 16909336064 + 54272);
  EXPECT_EQ(r.status, Code::resource_exhausted);
  EXPECT_NE(r.message.find("16909390336"), r.message.npos) << r.message;
}

TEST(Protocol, OpsWithoutAnEstimateCountAsMinusOne) {
  json j = json::parse(kFits);
  j["cost"]["optimal_seconds"] = -2.999875;
  const FitResult r = read(j);
  EXPECT_EQ(r.unestimated, 3);
  ASSERT_TRUE(r.optimal_seconds);
  EXPECT_NEAR(*r.optimal_seconds, 125e-6, 1e-12);
  j["cost"]["optimal_seconds"] = -3.0;
  EXPECT_EQ(read(j).unestimated, 3);
  EXPECT_FALSE(read(j).optimal_seconds);
  EXPECT_FALSE(read(j).utilization());
  j["cost"].erase("optimal_seconds");
  EXPECT_FALSE(read(j).optimal_seconds);
}

TEST(Protocol, HbmOverflow) {
  const FitResult r =
      read(failed("compile",
                  "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO "
                  "temporaries (24.00G) exceeds available HBM (15.75G).",
                  "E1000"));
  EXPECT_EQ(r.verdict, Verdict::does_not_fit);
  EXPECT_EQ(r.needed, int64_t{24} << 30);
  EXPECT_EQ(r.hbm_bytes, 16909336064);  // the exact figure, not the rounded one
  EXPECT_EQ(r.xla_code, "E1000");
  EXPECT_EQ(r.status, Code::resource_exhausted);
  EXPECT_FALSE(r.hint.empty());
  EXPECT_EQ(r.peak, 0);
}

TEST(Protocol, ALimitThatAnOptionSet) {
  const FitResult r =
      read(failed("compile", "Ran out of memory in memory space hbm. Used 128.50M of 128.00M hbm.", "E1000"));
  EXPECT_EQ(r.verdict, Verdict::does_not_fit);
  EXPECT_EQ(r.needed, 257 << 19);
  EXPECT_EQ(r.hbm_bytes, 128 << 20);
}

TEST(Protocol, CountsThatTheCompilerDoesNotKnow) {
  json j = json::parse(kFits);
  j["cost"] = {{"flops", -1.0}, {"bytes accessed", nullptr}};
  const FitResult r = read(j);
  EXPECT_EQ(r.verdict, Verdict::fits);
  EXPECT_EQ(r.flops, 0);
  EXPECT_EQ(r.bytes_accessed, 0);
}

TEST(Protocol, HbmOverflowInWordsWeDoNotKnow) {
  const FitResult r = read(failed("compile", "E1000: the HBM is full", "E1000"));
  EXPECT_EQ(r.verdict, Verdict::does_not_fit);
  EXPECT_EQ(r.needed, 0);
}

TEST(Protocol, OtherMemoriesAreCompileErrors) {
  const FitResult r =
      read(failed("compile", "Ran out of memory in memory space vmem. Used 24M of 16M vmem.", "E1001"));
  EXPECT_EQ(r.verdict, Verdict::compile_error);
}

TEST(Protocol, ASliceThatLibtpuRefuses) {
  const FitResult r = read(failed("topology", "is not divisible"));
  EXPECT_EQ(r.verdict, Verdict::compile_error);
  EXPECT_EQ(r.message, "libtpu refuses the slice v5e:1x1: is not divisible");
}

TEST(Protocol, ALibraryThatDoesNotLoadIsWrongUse) {
  EXPECT_THROW(static_cast<void>(read(failed("load", "it exports no GetPjrtApi"))), PluginError);
  EXPECT_THROW(static_cast<void>(read(failed("request", "no such file"))), PluginError);
}

TEST(Protocol, NumbersThatCannotBe) {
  for (const char* key : {"arguments", "outputs", "temporaries", "aliased", "code", "peak"})
    for (const json& wrong : {json(-1), json(1.5), json("1"), json(int64_t{1} << 62), json(nullptr)}) {
      json j = json::parse(kFits);
      j["memory"][key] = wrong;
      EXPECT_THROW(static_cast<void>(read(j)), ConfigurationError) << key << " " << wrong;
    }
}

TEST(Protocol, AnAnswerThatStopsHalfWay) {
  for (const char* stage : {"request", "load", "topology", "compile", "report"})
    EXPECT_THROW(static_cast<void>(read({{"stage", stage}})), ConfigurationError) << stage;
}

// Whatever stands in the file, the outcome is a whole result or one of the two exceptions.
TEST(Protocol, AnyTextIsAResultOrATypedError) {
  std::mt19937 random(7);
  const std::string overflow =
      failed("compile", "HLO temporaries (24.00G) exceeds available HBM (15.75G)").dump();
  int results = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = i % 2 == 0 ? kFits : overflow;
    if (i % 5 == 0) text.resize(random() % text.size());
    for (unsigned n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 8);
      else
        text[at] = static_cast<char>(random() % 2 == 0 ? random() : "0123456789-{}[]\",:.e"[random() % 20]);
    }
    try {
      const FitResult r = read_response(text, known());
      ++results;
      EXPECT_TRUE(r.verdict == Verdict::fits || !r.message.empty()) << text;
      EXPECT_TRUE(r.verdict != Verdict::fits || r.needed <= r.hbm_bytes) << text;
      EXPECT_GE(r.needed, 0) << text;
    } catch (const PluginError&) {
      ++refused;
    } catch (const ConfigurationError&) {
      ++refused;
    }
  }
  EXPECT_GT(results, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tpubridge::aot
