// Files that are none, names that steer terminals, and an output that cannot be written.
#include <sys/stat.h>

#include "tests/tools/command.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kOne =
    "func.func @main() -> tensor<i32> {\n  %0 = stablehlo.constant dense<1> : tensor<i32>\n"
    "  return %0 : tensor<i32>\n}\n";

// A line of the shell, in which $T is the command.
Ran shell(const std::string& line) {
  Command command;
  command.argv = {"/bin/sh", "-c", line};
  command.environment = {{"T", std::string(BUILD_DIR) + "/bin/tpubridge"}, {"TPUBRIDGE_PLUGIN", "cpu"}};
  command.deadline = std::chrono::seconds(120);
  const Outcome outcome = run_command(command);
  return {outcome.code, outcome.out, outcome.err};
}

TEST(HostileFiles, PipesDevicesAndFoldersAreRefusedAtOnce) {
  const TempFolder folder;
  const Path pipe = folder.path() / "pipe.safetensors";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const File program("p.mlir", kOne);
  for (const std::string& bad : {pipe.string(), std::string("/dev/zero"), folder.path().string()}) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"run", bad}, {"validate", bad}, {"fit", bad, "--tpu", "v5e"}}) {
      auto all = words;
      all.push_back("--json");
      const Ran ran = tpubridge(all);
      EXPECT_EQ(ran.code, 1) << words[0] << " " << bad;
      EXPECT_EQ(ran.error()["error_type"], "FileError") << words[0] << " " << bad;
    }
  }
  const Ran inputs = tpubridge({"run", program.str(), "--in", pipe.string(), "--json"});
  EXPECT_EQ(inputs.error()["error_type"], "FileError") << inputs.out;
  EXPECT_EQ(tpubridge({"devices", "--plugin", pipe.string(), "--json"}).error()["error_type"], "PluginError");
}

TEST(HostileFiles, AFullOutputIsAnError) {
  const File program("p.mlir", kOne);
  for (const std::string& words :
       {std::string("--help"), std::string("--version"), std::string("completion bash"),
        std::string("devices"), std::string("devices --json"), "run " + program.str()}) {
    const Ran ran = shell("\"$T\" " + words + " > /dev/full");
    EXPECT_EQ(ran.code, 1) << words;
    EXPECT_THAT(ran.err, HasSubstr("cannot write standard output: No space left on device")) << words;
  }
  const Ran failed = shell("\"$T\" run /nix/there.mlir --json > /dev/full");
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, HasSubstr("/nix/there.mlir")) << "what was wrong is told elsewhere";
}

TEST(HostileFiles, NamesDoNotSteerTheTerminal) {
  const std::string evil =
      "a\x1b]0;owned\x07\x1b[2J\xc2\x9b"
      "31m";
  const TempFolder folder;
  const std::string missing = (folder.path() / (evil + ".mlir")).string();
  for (const auto& words : {std::vector<std::string>{"run", missing},
                            {"validate", missing},
                            {"run", "x", evil},
                            {evil},
                            {"devices", "--plugin", missing}}) {
    const Ran ran = tpubridge(words);
    EXPECT_NE(ran.code, 0);
    EXPECT_THAT(ran.err, HasSubstr(R"(a\x1b]0;owned\x07\x1b[2J\x9b31m)")) << words[0];
    EXPECT_EQ((ran.out + ran.err).find_first_of("\x1b\x07"), std::string::npos) << ran.err;
    EXPECT_THAT(ran.err, Not(HasSubstr("\xc2\x9b")));
  }
  const Ran json = tpubridge({"run", missing, "--json"});
  EXPECT_EQ(json.error()["details"]["path"], missing) << "a program reads it as it is";
  EXPECT_EQ(json.out.find_first_of("\x1b\x07\xc2"), std::string::npos);
  // A program of that name that runs: the report names it.
  const std::string good = (folder.path() / (evil + "good.mlir")).string();
  write_file(good, kOne);
  const Ran ran = tpubridge({"run", good, "--plugin", "cpu"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ((ran.out + ran.err).find_first_of("\x1b\x07"), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace tpubridge::tools_test
