#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/aot/fake_child.h"
#include "tpubridge/aot/aot.h"
#include "tpubridge/base/json.h"

namespace tpubridge::aot {
namespace {

using std::chrono::milliseconds;

const FitRequest kRequest{.program = "func.func @main() { return }", .tpu = "v5e"};

TEST(Fit, AWholeAnswer) {
  const FakeChild child(answering(kFits));
  const FitResult r = fit(kRequest);
  EXPECT_EQ(r.verdict, Verdict::fits);
  EXPECT_EQ(r.tpu, "v5e:1x1");
  EXPECT_EQ(r.needed, 578560);
  EXPECT_EQ(r.peak_flops, 197e12);
  EXPECT_EQ(r.executable, "");
}

TEST(Fit, TheChildGetsTheProgramAndTheRequest) {
  const FakeChild child(
      "cp \"$1\" \"$(dirname \"$0\")/request.json\"\n"
      "cp \"$(dirname \"$1\")/program.mlir\" \"$(dirname \"$0\")/seen.mlir\"\n" +
      answering(kFits));
  FitRequest request = kRequest;
  request.tpu = "ironwood";
  request.partitions = 8;
  request.shardy = true;
  request.executable = child.folder() / "out.tpu";
  const FitResult r = fit(request);
  EXPECT_EQ(r.executable, child.folder() / "out.tpu");
  const auto j = parse_json_file(child.folder() / "request.json");
  EXPECT_EQ(j["topology"], "tpu7x:2x2x1");
  EXPECT_EQ(j["partitions"], 8);
  EXPECT_EQ(j["shardy"], true);
  EXPECT_EQ(j["executable"], (child.folder() / "out.tpu").string());
  EXPECT_EQ(j["libtpu"], (child.folder() / "libtpu.so").string());
  EXPECT_EQ(read_file(child.folder() / "seen.mlir"), request.program);
  EXPECT_FALSE(std::filesystem::exists(Path(j["program"].get<std::string>()).parent_path()));  // cleaned up
}

TEST(Fit, AChildThatDies) {
  const FakeChild child("kill -ABRT $$");
  const FitResult r = fit(kRequest);
  EXPECT_EQ(r.verdict, Verdict::crashed);
  EXPECT_NE(r.message.find("died of signal 6"), r.message.npos) << r.message;
}

TEST(Fit, AChildThatIsKilledMayHaveRunOutOfMemory) {
  const FakeChild child("kill -KILL $$");
  const FitResult r = fit(kRequest);
  EXPECT_EQ(r.verdict, Verdict::crashed);
  EXPECT_NE(r.hint.find("memory"), r.hint.npos) << r.hint;
}

TEST(Fit, TheLastWordsOfTheCompilerAreTold) {
  const FakeChild child(
      "echo 'I1115 03:59:59.1 7 a.cc:1] all is well' >&2\n"
      "echo 'F1115 03:59:59.270518   16334 shape_util.cc:1039] Check failed: !count_overflow' >&2\n"
      "echo '*** Check failure stack trace: ***' >&2\nkill -ABRT $$");
  FitRequest request = kRequest;
  EXPECT_TRUE(fit(request).message.ends_with(": shape_util.cc:1039] Check failed: !count_overflow"))
      << fit(request).message;
  EXPECT_EQ(fit(request).hint, "");
  request.program = "func.func @main(%a: tensor<?xf32>) { return }";
  EXPECT_NE(fit(request).hint.find("dynamic shapes"), std::string::npos);
}

TEST(Fit, AChildThatFails) {
  const FakeChild child("echo 'cannot open shared object' >&2; exit 127");
  const FitResult r = fit(kRequest);
  EXPECT_EQ(r.verdict, Verdict::crashed);
  EXPECT_EQ(r.message, "the TPU compiler exited with code 127: cannot open shared object");
}

TEST(Fit, AChildThatWritesNothing) {
  const FakeChild child("exit 0");
  const FitResult r = fit(kRequest);
  EXPECT_EQ(r.verdict, Verdict::crashed);
  EXPECT_NE(r.message.find("it left no answer"), r.message.npos) << r.message;
  EXPECT_EQ(r.tpu, "v5e:1x1");
}

TEST(Fit, AChildThatWritesHalf) {
  const FakeChild child(answering(kFits.substr(0, kFits.size() / 2)));
  const FitResult r = fit(kRequest);
  EXPECT_EQ(r.verdict, Verdict::crashed);
  EXPECT_NE(r.message.find("the answer of tpubridge-aot"), r.message.npos) << r.message;
  EXPECT_EQ(r.arguments, 0);  // nothing half-read
}

TEST(Fit, AChildThatHangsIsEndedAtTheDeadline) {
  const FakeChild child("echo $$ > \"$(dirname \"$0\")/pid\"; sleep 1000");
  FitRequest request = kRequest;
  request.deadline = milliseconds(300);
  const FitResult r = fit(request);
  EXPECT_EQ(r.verdict, Verdict::timed_out);
  EXPECT_EQ(r.status, Code::deadline_exceeded);
  EXPECT_NE(r.message.find("deadline"), r.message.npos) << r.message;
  EXPECT_EQ(::kill(std::stoi(read_file(child.folder() / "pid")), 0), -1);  // it is gone
}

TEST(Fit, CancellingEndsChildrenAndStartsNoMore) {
  const FakeChild child("echo x >> \"$(dirname \"$0\")/started\"; sleep 1000");
  std::atomic<bool> cancel{false};
  FitControl control{.workers = 2, .cancel = &cancel};
  std::atomic<int> started{0};
  control.progress = [&](size_t, Phase phase, const FitResult&) {
    if (phase == Phase::started && ++started == 2) cancel = true;
  };
  const std::vector<FitRequest> requests(5, kRequest);
  const auto results = fit(requests, control);
  ASSERT_EQ(results.size(), 5U);
  for (const auto& r : results) {
    EXPECT_EQ(r.verdict, Verdict::cancelled);
    EXPECT_EQ(r.tpu, "v5e:1x1");
  }
  EXPECT_EQ(started, 2);
}

TEST(Fit, ResultsStandInTheOrderOfTheRequests) {
  // The first takes longest.
  const FakeChild child("case $(cat \"$1\") in *v4:*) sleep 0.5;; esac\n" + answering(kFits));
  std::vector<FitRequest> requests(5, kRequest);
  const std::vector<std::string> names = {"v4:2x2x1", "v5e:1x1", "v5p:2x2x1", "v6e:1x1", "v7:2x2x1"};
  for (size_t i = 0; i < names.size(); ++i) requests[i].tpu = names[i];
  std::multiset<size_t> seen;
  FitControl control{.workers = 3};
  control.progress = [&](size_t i, Phase, const FitResult& r) {
    seen.insert(i);
    EXPECT_EQ(r.tpu, names[i]);
  };
  const auto results = fit(requests, control);
  ASSERT_EQ(results.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(results[i].tpu, names[i]);
    EXPECT_EQ(results[i].verdict, Verdict::fits);
    EXPECT_EQ(seen.count(i), 2U);  // started and finished
  }
}

TEST(Fit, WrongUseIsAnException) {
  const FakeChild child(answering(kFits));
  const auto with = [](auto change) {
    FitRequest r = kRequest;
    change(r);
    return r;
  };
  EXPECT_THROW(static_cast<void>(fit(with([](auto& r) { r.tpu = "v9"; }))), ArgumentError);
  EXPECT_THROW(static_cast<void>(fit(with([](auto& r) { r.program.clear(); }))), ArgumentError);
  EXPECT_THROW(static_cast<void>(fit(with([](auto& r) { r.replicas = 0; }))), ArgumentError);
  EXPECT_THROW(static_cast<void>(fit(with([](auto& r) { r.partitions = -1; }))), ArgumentError);
  EXPECT_THROW(static_cast<void>(fit(with([](auto& r) { r.replicas = 2; }))), ArgumentError);  // one chip
  EXPECT_NO_THROW(static_cast<void>(fit(with([](auto& r) { r.replicas = 8, r.tpu = "v7"; }))));
  EXPECT_TRUE(fit(std::span<const FitRequest>()).empty());
}

TEST(Fit, ALibtpuThatDoesNotLoadIsAnException) {
  const FakeChild child(answering(R"({"stage": "load", "error": {"message": "the file is cut off"}})"));
  try {
    static_cast<void>(fit(std::vector<FitRequest>(4, kRequest)));
    FAIL() << "no exception";
  } catch (const PluginError& e) {
    EXPECT_NE(e.message().find("the file is cut off"), std::string::npos) << e.what();
  }
}

TEST(Fit, MissingFilesNameTheVariable) {
  const FakeChild child(answering(kFits));
  for (const char* variable : {"TPUBRIDGE_AOT_CHILD", "TPUBRIDGE_LIBTPU"}) {
    const ScopedEnv missing(variable, "/nowhere/at/all");
    try {
      static_cast<void>(fit(kRequest));
      FAIL() << variable;
    } catch (const PluginError& e) {
      EXPECT_NE(e.message().find(variable), std::string::npos) << e.what();
    }
  }
}

TEST(Fit, AChildThatCannotBeStarted) {
  const FakeChild child("");
  ::chmod((child.folder() / "child").c_str(), 0644);
  EXPECT_THROW(static_cast<void>(fit(kRequest)), FileError);
}

}  // namespace
}  // namespace tpubridge::aot
