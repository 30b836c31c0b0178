// The command `tpubridge fit`, with a child that answers without a compiler.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/aot/fake_child.h"
#include "tpubridge/base/subprocess.h"

namespace tpubridge::aot {
namespace {

struct Program {
  TempFolder folder{"fit"};
  Path path = folder.path() / "step.mlir";
  explicit Program(const std::string& text = "func.func @main() { return }") { write_file(path, text); }
};

Outcome tpubridge_fit(const Program& program, std::vector<std::string> more) {
  Command command{{BUILD_DIR "/bin/tpubridge", "fit", program.path.string()}};
  command.argv.insert(command.argv.end(), more.begin(), more.end());
  return run_command(command);
}

std::string overflow() {
  return answering(R"({"stage": "compile", "error": {"code": 8, "xla_code": "E1000", "message":
    "the total memory required for HLO temporaries (24.00G) exceeds available HBM (15.75G)."}})");
}

TEST(FitCommand, ATableAndExitCodeZero) {
  const FakeChild child(answering(kFits));
  const Outcome end = tpubridge_fit(Program(), {"--tpu", "v5e,v6e:2x2"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("v5e:1x1  yes   565 KiB of 15.7 GiB (0.0%)"), end.out.npos) << end.out;
  EXPECT_NE(end.out.find("v6e:2x2"), end.out.npos) << end.out;
  EXPECT_NE(end.out.find("33.6 M"), end.out.npos) << end.out;
  EXPECT_EQ(end.err, "");  // no terminal, no progress
}

TEST(FitCommand, TooLargeIsExitCodeTwo) {
  const FakeChild child(overflow());
  const Outcome end = tpubridge_fit(Program(), {"--tpu", "v5e"});
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.out.find("24.0 GiB of 15.7 GiB (152%)"), end.out.npos) << end.out;
}

TEST(FitCommand, AnErrorIsExitCodeOneAndShowsTheLine) {
  const FakeChild child(answering(
      R"({"stage": "compile", "error": {"code": 3, "message": "-:2:3: error: custom op 'x.y' is unknown"}})"));
  const Program program("func.func @main() {\n  x.y\n}\n");
  const Outcome end = tpubridge_fit(program, {"--tpu", "v5e,v4"});
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.out.find("step.mlir:2:3: error: custom op 'x.y' is unknown\n      x.y\n      ^"),
            end.out.npos)
      << end.out;
  EXPECT_NE(end.out.find("v5e:1x1, v4:2x2x1"), end.out.npos) << end.out;  // told once
}

TEST(FitCommand, Json) {
  const FakeChild child("case $(cat \"$1\") in *v4:*)\n" + overflow() + "\n;; *)\n" + answering(kFits) +
                        "\n;; esac");
  const Outcome end = tpubridge_fit(Program(), {"--all", "--json"});
  EXPECT_EQ(end.code, 2) << end.err;
  const auto j = nlohmann::json::parse(end.out);
  EXPECT_EQ(j["fits"], false);
  ASSERT_EQ(j["results"].size(), 5U);
  EXPECT_EQ(j["results"][0]["tpu"], "v4:2x2x1");
  EXPECT_EQ(j["results"][0]["verdict"], "does_not_fit");
  EXPECT_EQ(j["results"][0]["needed_bytes"], 25769803776);
  EXPECT_EQ(j["results"][4]["tpu"], "v7:2x2x1");
  EXPECT_EQ(j["results"][4]["verdict"], "fits");
  EXPECT_EQ(j["results"][4]["arguments_bytes"], 262144);
}

TEST(FitCommand, SavesUnderTheNameOfTheSlice) {
  const FakeChild child("cp \"$1\" \"$(dirname \"$0\")/request.json\"\n" + answering(kFits));
  const Program program;
  const Path folder = program.folder.path() / "new/compiled";
  EXPECT_EQ(tpubridge_fit(program, {"--tpu", "v5e", "--save", folder.string()}).code, 0);
  const auto j = nlohmann::json::parse(read_file(child.folder() / "request.json"));
  EXPECT_EQ(j["executable"], (folder / "step-v5e-1x1.tpu").string());
}

TEST(FitCommand, TheProgramSaysHowManyPartsItHas) {
  const FakeChild child("cp \"$1\" \"$(dirname \"$0\")/request.json\"\n" + answering(kFits));
  const Program program(
      "module attributes {mhlo.num_partitions = 4 : i32} { sdy.mesh @m = <[\"a\"=4]> func.func @main() { "
      "return } }");
  EXPECT_EQ(tpubridge_fit(program, {"--tpu", "v5e:2x2"}).code, 0);
  const auto j = nlohmann::json::parse(read_file(child.folder() / "request.json"));
  EXPECT_EQ(j["partitions"], 4);
  EXPECT_EQ(j["shardy"], true);
  const Outcome small = tpubridge_fit(program, {"--tpu", "v5e"});
  EXPECT_EQ(small.code, 1);
  EXPECT_NE(small.err.find("need 4 devices, v5e:1x1 has 1"), small.err.npos) << small.err;
}

TEST(FitCommand, WrongUse) {
  const FakeChild child(answering(kFits));
  EXPECT_EQ(tpubridge_fit(Program(), {}).code, 1);
  EXPECT_EQ(tpubridge_fit(Program(), {"--all", "--tpu", "v4"}).code, 1);
  for (const char* timeout : {"-1", "nan", "inf", "1e300"})
    EXPECT_EQ(tpubridge_fit(Program(), {"--all", "--timeout", timeout}).code, 64) << timeout;
  const Outcome unknown = tpubridge_fit(Program(), {"--tpu", "v5f"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("v4, v5e, v5p, v6e, v7"), unknown.err.npos) << unknown.err;
}

TEST(FitCommand, TheTimeout) {
  const FakeChild child("sleep 1000");
  const Outcome end = tpubridge_fit(Program(), {"--tpu", "v5e", "--timeout", "0.2"});
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.out.find("timed out"), end.out.npos) << end.out;
}

TEST(FitCommand, CtrlCEndsTheChild) {
  const FakeChild child("echo $$ > \"$(dirname \"$0\")/pid\"; sleep 1000");
  const Program program;
  // The shell sends the interrupt once the child has started.
  const std::string script = fmt::format(
      "'{}/bin/tpubridge' fit '{}' --tpu v5e & me=$!; until [ -s '{}' ]; do sleep 0.05; done; kill -TERM "
      "$me; wait $me",
      BUILD_DIR, program.path.string(), (child.folder() / "pid").string());
  const Outcome end = run_command({.argv = {"sh", "-c", script}});
  EXPECT_EQ(end.code, 128 + SIGTERM) << end.out << end.err;
  EXPECT_NE(end.out.find("cancelled"), end.out.npos) << end.out;
  EXPECT_EQ(::kill(std::stoi(read_file(child.folder() / "pid")), 0), -1);
}

}  // namespace
}  // namespace tpubridge::aot
