// The command line itself: help, versions, mistakes, completion.
#include <fmt/format.h>

#include "tests/tools/command.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

TEST(Usage, VersionNamesTheLibraryAndPjrt) {
  const Ran ran = tpubridge({"--version"});
  EXPECT_EQ(ran.code, 0);
  const auto pjrt = pjrt::header_version();
  EXPECT_EQ(ran.out.substr(0, 10), "tpubridge ");
  EXPECT_THAT(ran.out, HasSubstr(fmt::format("PJRT {}.{}", pjrt.major, pjrt.minor)));
}

TEST(Usage, HelpHasExamples) {
  EXPECT_EQ(tpubridge({"--help"}).code, 0);
  for (const char* command : {"doctor", "devices", "run", "cache", "completion"}) {
    const Ran ran = tpubridge({command, "--help"});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, HasSubstr("Examples:")) << command;
    EXPECT_EQ(ran.out.find("self-test"), std::string::npos) << "hidden options are not shown";
  }
}

TEST(Usage, MistakesGiveCode64) {
  const Ran unknown = tpubridge({"docter", "--json"});
  EXPECT_EQ(unknown.code, 64);
  EXPECT_EQ(unknown.error()["error_type"], "UsageError");
  EXPECT_EQ(unknown.error()["message"], "there is no command 'docter'; the nearest is 'doctor'");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"run"},
                                             {"run", "x.mlir", "--nix"},
                                             {"run", "x.mlir", "--devices", "0"},
                                             {"run", "x.mlir", "--random", "seed"}}) {
    const Ran ran = tpubridge(arguments);
    EXPECT_EQ(ran.code, 64);
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr("--help"));
  }
}

TEST(Usage, UnknownVariablesAreWarnedOf) {
  const Ran ran = tpubridge({"completion", "bash"}, {{"TPUBRIDGE_PLUGN", "x"}});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("TPUBRIDGE_PLUGIN"));
}

// What bash itself offers after sourcing the script.
std::vector<std::string> complete(const std::string& words, int position) {
  const File script("script.sh", tpubridge({"completion", "bash"}).out + "COMP_WORDS=(" + words +
                                     ")\nCOMP_CWORD=" + std::to_string(position) +
                                     "\ncompopt() { :; }\n_tpubridge\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
  Command command;
  command.argv = {"bash", script.str()};
  const Outcome outcome = run_command(command);
  EXPECT_TRUE(outcome.ok()) << outcome.err;
  std::vector<std::string> out;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) out.push_back(line);
  return out;
}

TEST(Completion, BashOffersCommandsOptionsAndFiles) {
  EXPECT_EQ(complete("tpubridge d", 1), (std::vector<std::string>{"doctor", "devices", "demo"}));
  EXPECT_EQ(complete("tpubridge run --ra", 2), std::vector<std::string>{"--random"});
  EXPECT_EQ(complete("tpubridge completion f", 2), std::vector<std::string>{"fish"});
  EXPECT_EQ(complete("tpubridge cache s", 2), std::vector<std::string>{"stats"});
  EXPECT_EQ(complete("tpubridge cache gc --s", 3), std::vector<std::string>{"--size"});
  EXPECT_EQ(complete("tpubridge cache import " + data("sort.ml"), 3),
            std::vector<std::string>{data("sort.mlir")});
  const std::string start = data("portable.ml");
  EXPECT_THAT(complete("tpubridge run " + start, 2),
              testing::UnorderedElementsAre(data("portable.mlir"), data("portable.mlirbc")));
}

TEST(Completion, OtherShellsNameEveryCommand) {
  for (const char* shell : {"zsh", "fish"}) {
    const Ran ran = tpubridge({"completion", shell});
    EXPECT_EQ(ran.code, 0);
    for (const char* word : {"doctor", "devices", "run", "repeat", "plugin", "verify", "import"})
      EXPECT_THAT(ran.out, HasSubstr(word)) << shell;
    EXPECT_EQ(ran.out.find("self-test"), std::string::npos);
  }
  EXPECT_EQ(tpubridge({"completion", "tcsh"}).code, 64);
}

}  // namespace
}  // namespace tpubridge::tools_test
