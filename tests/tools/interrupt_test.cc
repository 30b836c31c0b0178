// Ctrl-C while a program compiles: the command ends at once with code 130 and leaves nothing behind.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/tools/command.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge::tools_test {
namespace {

// A program over which the CPU plugin's compiler sits for a minute.
std::string long_program() {
  const std::string type = "tensor<64x64xf32>";
  std::string out = "func.func @main(%a: " + type + ") -> " + type + " {\n";
  std::string last = "%a";
  for (int i = 0; i < 3000; ++i) {
    out += fmt::format(
        "  %d{0} = stablehlo.dot_general {1}, %a, contracting_dims = [1] x [0] : ({2}, {2}) -> {2}\n", i,
        last, type);
    out += fmt::format(
        "  %t{0} = stablehlo.tanh %d{0} : {2}\n  %r{0} = stablehlo.reverse %t{0}, dims = [{1}] : {2}\n", i,
        i % 2, type);
    last = fmt::format("%r{}", i);
  }
  return out + "  return " + last + " : " + type + "\n}\n";
}

// Started by hand, since run_command has no way to send a signal.
class Child {
 public:
  Child(std::vector<std::string> arguments, const std::string& fake_settings, const Path& out_file) {
    arguments.insert(arguments.begin(), std::string(BUILD_DIR) + "/bin/tpubridge");
    std::vector<char*> argv;
    for (auto& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    const int out = open(out_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDOUT_FILENO), dup2(out, STDERR_FILENO);
    signal(SIGINT, SIG_DFL);
    setenv("FAKE_PJRT", fake_settings.c_str(), 1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Child() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }
  void send(int number) const { kill(pid_, number); }

  // Processor time spent so far, in clock ticks: that of a compile goes up.
  [[nodiscard]] int64_t ticks() const {
    std::ifstream in(fmt::format("/proc/{}/stat", pid_));
    std::string word;
    int64_t user = 0;
    for (int i = 1; i < 14 && in >> word; ++i) {
    }
    in >> user;
    return user;
  }

  // The exit code; -1 where it has not ended within the time.
  int wait(std::chrono::seconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    int status = 0;
    while (std::chrono::steady_clock::now() < end) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return -1;
  }

 private:
  pid_t pid_ = -1;
};

void sleep_until(const std::function<bool()>& done) {
  for (int i = 0; i < 3000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(Interrupt, DuringARealCompile) {
  const TempFolder folder;
  const Path program = folder.path() / "long.mlir", said = folder.path() / "said";
  write_file(program, long_program());
  Child child({"run", program.string(), "--random", "1", "--trusted", "--out",
               (folder.path() / "out.safetensors").string()},
              "", said);
  sleep_until([&] { return child.ticks() > 50; });  // half a second of work: long past loading and parsing
  child.send(SIGINT);
  EXPECT_EQ(child.wait(std::chrono::seconds(10)), 130);
  EXPECT_THAT(read_file(said), testing::HasSubstr("interrupted by Ctrl-C while compiling"));
  // Only what was there before: no output, no temporary file.
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    files += entry.path().filename() != "";
  EXPECT_EQ(files, 2U);
}

TEST(Interrupt, DuringAHungCompileAsJson) {
  const TempFolder folder;
  const Path said = folder.path() / "said";
  Child child({"run", data("portable.mlir"), "--random", "1", "--plugin", FAKE_PLUGIN, "--json"},
              "fail=compile_hang", said);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(std::chrono::seconds(10)), 143);
  const auto error = nlohmann::json::parse(read_file(said), nullptr, false)["error"];
  EXPECT_EQ(error["error_type"], "Interrupted");
  // On a slow machine the plugin may still be loading.
  EXPECT_THAT(error["message"].get<std::string>(),
              testing::MatchesRegex("interrupted by SIGTERM while (compiling|opening the plugin)"));
}

// From the start of the process to its end: before the plugin is loaded, while it opens, compiles, runs,
// saves.
TEST(Interrupt, OneSignalIsEnoughAtAnyTime) {
  const TempFolder folder;
  const Path said = folder.path() / "said", out = folder.path() / "out.safetensors";
  for (int delay = 0; delay < 400; delay += 25) {
    SCOPED_TRACE(delay);
    std::filesystem::remove(out);
    write_file(said, "");
    Child child({"run", data("portable.mlir"), "--random", "1", "--plugin", "cpu", "--out", out.string()}, "",
                said);
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    child.send(SIGTERM);
    const int code = child.wait(std::chrono::seconds(20));
    EXPECT_THAT(code, testing::AnyOf(143, -SIGTERM, 0)) << "the last two: before main, or after the end";
    EXPECT_EQ(code == 143, read_file(said).find("interrupted by SIGTERM while ") != std::string::npos);
    EXPECT_TRUE(code != 0 || std::filesystem::exists(out));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("said", "out.safetensors"));
    EXPECT_TRUE(!std::filesystem::exists(out) || !read_tensors(out).tensors.empty());
  }
}

// The doctor's children are ended with it.
TEST(Interrupt, DuringTheDoctorsSelfTest) {
  const TempFolder folder;
  const Path said = folder.path() / "said";
  const Path plugin = folder.path() / "libhangs_for_this_test.so";
  std::filesystem::copy_file(FAKE_PLUGIN, plugin);
  const auto children = [&] {
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream in(entry.path() / "cmdline");
      const std::string line((std::istreambuf_iterator<char>(in)), {});
      found += line.find("--self-test") != line.npos && line.find(plugin.string()) != line.npos;
    }
    return found;
  };
  Child child({"doctor", "--plugin", plugin.string()}, "fail=compile_hang", said);
  sleep_until([&] { return children() > 0; });
  child.send(SIGINT);
  EXPECT_EQ(child.wait(std::chrono::seconds(10)), 130);
  EXPECT_EQ(children(), 0);
}

// Saving waits for nobody: the other end of a pipe may sleep for ever.
TEST(Interrupt, WhileTheReaderOfAPipeSleeps) {
  const TempFolder folder;
  const Path pipe = folder.path() / "out.npy", program = folder.path() / "p.mlir";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_file(program,
             "func.func @main(%a: tensor<600000xf32>) -> tensor<600000xf32> {\n"
             "  return %a : tensor<600000xf32>\n}\n");
  Child child(
      {"run", program.string(), "--plugin", "cpu", "--random", "1", "--trusted", "--out", pipe.string()}, "",
      folder.path() / "said");
  sleep_until([&] {
    int waiting = 0;
    return ioctl(reader, FIONREAD, &waiting) == 0 && waiting > 0;
  });
  child.send(SIGTERM);
  EXPECT_EQ(child.wait(std::chrono::seconds(10)), 143);
  EXPECT_THAT(read_file(folder.path() / "said"), testing::HasSubstr("interrupted by SIGTERM while saving"));
  close(reader);
}

}  // namespace
}  // namespace tpubridge::tools_test
