// Every kind of bad file in every place where the command takes one: an error of ours, soon, that does not
// steer the terminal. A generator rather than cases: a new command or kind is one row.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <chrono>

#include "tests/tools/command.h"

namespace tpubridge::tools_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSame =
    "func.func @main(%a: tensor<i32>) -> tensor<i32> {\n  return %a : tensor<i32>\n}\n";

struct Bad {
  std::string kind, file;
};

class HostileNames : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  // All of them with this ending, made once for each.
  std::vector<Bad> bad_files(const std::string& ending) const {
    const Path here = folder_.path() / ("of" + ending);
    std::filesystem::create_directory(here);
    const auto name = [&](const std::string& stem) { return (here / (stem + ending)).string(); };
    ::mkfifo(name("pipe").c_str(), 0600);
    std::filesystem::create_symlink(name("nothing"), name("dangling"));
    std::filesystem::create_symlink(name("circle"), name("circle"));
    std::filesystem::create_directory(name("folder"));
    write_file(name("empty"), "");
    std::string noise(70'000, '\0');
    for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i * 31 + i / 7);
    write_file(name("noise"), noise);
    write_file(name("nothing_but_zeros"), std::string(1000, '\0'));
    write_file(name("deep"), std::string(100'000, '['));
    write_file(name("archive"), std::string("PK\5\6") + std::string(18, '\0'));
    write_file(name("escape\x1b[2J\x07\xc2\x9b"), "x");
    write_file(name("long_line"), std::string(10'000, 'a'));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string socket_name = name("s");
    std::copy_n(socket_name.c_str(), std::min(socket_name.size(), sizeof address.sun_path - 1),
                address.sun_path);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    (void)::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::close(socket);
    std::string deep_path;
    for (int i = 0; i < 40; ++i) deep_path += std::string(200, 'a') + "/";
    return {{"missing", name("missing")},
            {"pipe", name("pipe")},
            {"dangling", name("dangling")},
            {"circle", name("circle")},
            {"folder", name("folder")},
            {"empty", name("empty")},
            {"noise", name("noise")},
            {"zeros", name("nothing_but_zeros")},
            {"deep", name("deep")},
            {"archive", name("archive")},
            {"escape", name("escape\x1b[2J\x07\xc2\x9b")},
            {"long line", name("long_line")},
            {"socket", name("s")},
            {"zero", "/dev/zero"},
            {"full", "/dev/full"},
            {"below a file", name("noise") + "/x" + ending},
            {"long name", name(std::string(300, 'n'))},
            {"long path", deep_path + "x" + ending}};
  }

  static void refused(const std::vector<std::string>& words, const std::string& what) {
    const auto began = std::chrono::steady_clock::now();
    const Ran ran = tpubridge(words, {{"TPUBRIDGE_PLUGIN", CPU_PLUGIN}, {"TPUBRIDGE_CACHE", "0"}});
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60)) << what;
    EXPECT_EQ(ran.code, 1) << what << ran.out << ran.err;
    const auto error = ran.error();
    EXPECT_THAT(error.value("error_type", ""), Not(AnyOf("", "InternalError"))) << what << ran.out;
    EXPECT_NE(error.value("message", ""), "") << what;
    for (const char* steers : {"\x1b", "\x07", "\xc2\x9b"})
      EXPECT_THAT(ran.out + ran.err, Not(HasSubstr(steers))) << what;
  }
  TempFolder folder_;
};

TEST_F(HostileNames, AreRefusedInEveryPlace) {
  const std::string program = path("p.mlir");
  write_file(program, kSame);
  using Words = std::vector<std::string>;
  const std::vector<std::pair<std::string, Words>> places = {
      {".mlir", {"run", "FILE"}},
      {".tbp", {"run", "FILE"}},
      {".npy", {"run", program, "--in", "FILE"}},
      {".safetensors", {"run", program, "--in", "FILE"}},
      {".so", {"devices", "--plugin", "FILE"}},
      {".json", {"validate", "FILE"}},
      {".tpb", {"cache", "import", "FILE"}}};
  std::vector<std::pair<std::string, std::vector<Bad>>> made;
  for (const auto& [ending, words] : places) {
    auto at = std::ranges::find(made, ending, &decltype(made)::value_type::first);
    if (at == made.end()) at = made.insert(made.end(), {ending, bad_files(ending)});
    for (const Bad& bad : at->second) {
      Words all = words;
      std::ranges::replace(all, "FILE", bad.file);
      all.emplace_back("--json");
      refused(all, words[0] + " " + ending + ", " + bad.kind + ": ");
    }
  }
}

// They are handed over to programs that load libtorch, which takes a second each.
TEST_F(HostileNames, AreRefusedByTheProgramsWithTorch) {
  if (!std::filesystem::exists(Path(BUILD_DIR) / "bin/tpubridge-compile"))
    GTEST_SKIP() << "built without torch";
  const auto files = bad_files(".pt2");
  for (const std::string& kind : std::vector<std::string>{"circle", "long name", "pipe", "noise"}) {
    const std::string file = std::ranges::find(files, kind, &Bad::kind)->file;
    refused({"compile", file, "--out", path("o.tbp"), "--json"}, "compile, " + kind);
  }
  refused({"generate", std::ranges::find(files, "circle", &Bad::kind)->file, "--prompt", "x", "--json"},
          "generate");
}

// A shell whose folder was removed meanwhile.
TEST_F(HostileNames, AFolderThatIsGone) {
  write_file(path("p.mlir"), kSame);
  std::filesystem::create_directory(path("gone"));
  for (const std::string& words :
       {"run " + path("p.mlir") + " --random 1", std::string("run p.mlir"), std::string("cache stats"),
        std::string("devices"), std::string("validate c.json")}) {
    for (const char* cache : {"relative", ""}) {
      Command command;
      command.argv = {"/bin/sh", "-c",
                      "mkdir -p \"$G\" && cd \"$G\" && rmdir \"$G\" && \"$T\" " + words + " --json"};
      command.environment = {{"T", std::string(BUILD_DIR) + "/bin/tpubridge"},
                             {"G", path("gone")},
                             {"TPUBRIDGE_PLUGIN", CPU_PLUGIN},
                             {"TPUBRIDGE_CACHE_DIR", cache}};
      command.deadline = std::chrono::seconds(60);
      const Outcome outcome = run_command(command);
      EXPECT_EQ(outcome.end, Outcome::End::exited) << words;
      EXPECT_THAT(outcome.code, AnyOf(0, 1)) << words << outcome.err;
      EXPECT_THAT(outcome.out, Not(HasSubstr("InternalError"))) << words;
    }
  }
}

}  // namespace
}  // namespace tpubridge::tools_test
