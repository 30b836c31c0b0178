// `tpubridge cache`, and `run` through the cache: processes that share a folder.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/tools/command.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Cache : public testing::Test {
 protected:
  Ran in_cache(std::vector<std::string> arguments, Environment more = {}) const {
    more.emplace_back("TPUBRIDGE_CACHE", "1");
    more.emplace_back("TPUBRIDGE_CACHE_DIR", folder.path().string());
    return tpubridge(std::move(arguments), std::move(more));
  }
  // The slow fake plugin, for what takes its time.
  static Environment slow(const std::string& failure) {
    return {{"TPUBRIDGE_PLUGIN", FAKE_PLUGIN}, {"FAKE_PJRT", "fail=" + failure}};
  }
  Ran run(const std::string& name = "donated") const {
    return in_cache({"run", data(name + ".mlir"), "--in", data(name + ".in.safetensors"), "--json"});
  }
  std::vector<Path> entries() const {
    std::vector<Path> out;
    for (const auto& e : std::filesystem::directory_iterator(folder.path() / "programs"))
      if (e.path().extension() == ".program") out.push_back(e.path());
    return out;
  }
  TempFolder folder;
};

// Floats to rounding, all else to the bit.
void expect_same(const HostTensor& got, const HostTensor& expected) {
  ASSERT_EQ(got.shape, expected.shape);
  const auto bytes = static_cast<size_t>(got.shape.bytes());
  if (got.shape.dtype != DType::f32) {
    EXPECT_EQ(std::memcmp(got.data.get(), expected.data.get(), bytes), 0) << got.name;
    return;
  }
  const auto a = got.as<float>(), b = expected.as<float>();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4) << got.name;
}

TEST_F(Cache, AnotherProcessLoadsWhatTheFirstCompiled) {
  for (const char* name : {"donated", "partitioned", "sort", "random_bits"}) {
    const TempFolder out;
    const std::string file = (out.path() / "out.safetensors").string();
    for (const char* from : {"compiler", "disk"}) {
      const Ran ran = in_cache({"run", data(std::string(name) + ".mlir"), "--in",
                                data(std::string(name) + ".in.safetensors"), "--out", file, "--json"});
      ASSERT_EQ(ran.code, 0) << ran.out;
      EXPECT_EQ(ran.json()["program_from"], from) << name;
      const auto got = read_tensors(file);
      const auto expected = read_tensors(data(std::string(name) + ".out.safetensors"));
      ASSERT_EQ(got.tensors.size(), expected.tensors.size());
      for (const HostTensor& e : expected.tensors) expect_same(*got.find(e.name), e);
    }
  }
}

TEST_F(Cache, ProcessesThatStartTogetherCompileOnce) {
  std::vector<std::string> from(3);
  std::vector<std::thread> threads;
  for (auto& f : from)
    threads.emplace_back([&] {
      const Ran ran =
          in_cache({"run", data("donated.mlir"), "--in", data("donated.in.safetensors"), "--json"},
                   slow("compile_slow:ms=1500"));
      EXPECT_EQ(ran.code, 0) << ran.out;
      f = ran.json()["program_from"];
    });
  for (auto& t : threads) t.join();
  EXPECT_THAT(from, testing::UnorderedElementsAre("compiler", "disk", "disk"));
}

TEST_F(Cache, ADamagedEntryIsCompiledAnewWithAWarning) {
  EXPECT_EQ(run().json()["program_from"], "compiler");
  ASSERT_EQ(entries().size(), 1);
  std::string bytes = read_file(entries()[0]);
  bytes[bytes.size() / 2] ^= 1;
  write_file(entries()[0], bytes);
  const Ran again = run();
  EXPECT_EQ(again.json()["program_from"], "compiler");
  EXPECT_THAT(again.err, HasSubstr("cache.dropped"));
  EXPECT_EQ(run().json()["program_from"], "disk");
}

TEST_F(Cache, OffMeansOff) {
  for (int i = 0; i < 2; ++i) {
    const Ran ran = tpubridge({"run", data("donated.mlir"), "--random", "0", "--json"},
                              {{"TPUBRIDGE_CACHE", "0"}, {"TPUBRIDGE_CACHE_DIR", folder.path().string()}});
    EXPECT_EQ(ran.json()["program_from"], "compiler");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(Cache, ListStatsVerify) {
  EXPECT_EQ(in_cache({"cache", "ls", "--json"}).json()["entries"].size(), 0);
  EXPECT_THAT(in_cache({"cache", "ls"}).out, HasSubstr("no programs"));
  run("donated");
  run("sort");
  const auto list = in_cache({"cache", "ls", "--json"}).json()["entries"];
  ASSERT_EQ(list.size(), 2);
  for (const auto& e : list) {
    EXPECT_EQ(e["state"], "sound");
    EXPECT_EQ(e["platform"], "cpu");
    EXPECT_GT(e["compile_s"], 0);
    EXPECT_THAT(in_cache({"cache", "ls"}).out, HasSubstr(e["key"].get<std::string>().substr(0, 12)));
  }
  const auto stats = in_cache({"cache", "stats", "--json"}, {{"TPUBRIDGE_CACHE_SIZE", "7"}}).json();
  EXPECT_EQ(stats["entries"], 2);
  EXPECT_EQ(stats["bytes"], list[0]["bytes"].get<int64_t>() + list[1]["bytes"].get<int64_t>());
  EXPECT_EQ(stats["limit_bytes"], 7 << 20);
  EXPECT_EQ(stats["platforms"]["cpu"], 2);
  EXPECT_EQ(stats["enabled"], true);
  EXPECT_EQ(in_cache({"cache", "verify"}).code, 0);

  const Path bad = entries()[0];
  write_file(bad, read_file(bad).substr(0, 100));
  const Ran found = in_cache({"cache", "verify", "--json"});
  EXPECT_EQ(found.code, 1);
  EXPECT_EQ(found.json()["sound"], 1);
  EXPECT_EQ(found.json()["damaged"][0]["file"], bad.string());
  EXPECT_THAT(in_cache({"cache", "verify"}).out, HasSubstr("cut off"));
  EXPECT_EQ(in_cache({"cache", "verify", "--remove", "--json"}).json()["removed"], 1);
  EXPECT_FALSE(std::filesystem::exists(bad));
  EXPECT_EQ(in_cache({"cache", "verify"}).code, 0);
}

TEST_F(Cache, CollectAndClear) {
  run("donated");
  run("sort");
  auto kept = in_cache({"cache", "gc", "--json"}).json();
  EXPECT_EQ(kept["removed"], 0);
  EXPECT_EQ(kept["entries"], 2);
  EXPECT_EQ(in_cache({"cache", "gc", "--size", "0", "--json"}).json()["removed"], 2);
  run("donated");
  EXPECT_EQ(in_cache({"cache", "clear", "--json"}).json()["removed"], 1);
  EXPECT_TRUE(entries().empty());
}

TEST_F(Cache, ExportAndImport) {
  run("donated");
  run("sort");
  const std::string file = (folder.path() / "all.tpbcache").string();
  EXPECT_EQ(in_cache({"cache", "export", file, "--json"}).json()["entries"], 2);
  in_cache({"cache", "clear"});
  const Ran in = in_cache({"cache", "import", file, "--json"});
  EXPECT_EQ(in.json()["added"], 2);
  EXPECT_EQ(run().json()["program_from"], "disk");
  const std::string key = in_cache({"cache", "ls", "--json"}).json()["entries"][0]["key"];
  EXPECT_EQ(in_cache({"cache", "export", file, key.substr(0, 8), "--json"}).json()["entries"], 1);
  EXPECT_EQ(in_cache({"cache", "export", file, "zzz", "--json"}).error()["error_type"], "ArgumentError");
  write_file(file, "no export");
  const Ran bad = in_cache({"cache", "import", file, "--json"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_EQ(bad.error()["error_type"], "TPUCacheError");
}

TEST_F(Cache, HelpAndMistakes) {
  for (const char* what : {"ls", "stats", "verify", "gc", "clear", "export", "import"})
    EXPECT_THAT(tpubridge({"cache", what, "--help"}).out, HasSubstr("Examples:")) << what;
  EXPECT_THAT(tpubridge({"cache", "--help"}).out, HasSubstr("Examples:"));
  EXPECT_EQ(tpubridge({"cache"}).code, 64);
  EXPECT_EQ(tpubridge({"cache", "lss"}).code, 64);
  EXPECT_EQ(tpubridge({"cache", "export"}).code, 64);
  EXPECT_EQ(tpubridge({"cache", "gc", "--size", "-1"}).code, 64);
}

TEST_F(Cache, ACompilePastItsDeadlineEndsTheCommand) {
  Environment hang = slow("compile_hang");
  hang.emplace_back("TPUBRIDGE_COMPILE_TIMEOUT", "1");
  const Ran ran = in_cache({"run", data("donated.mlir"), "--random", "0", "--json"}, hang);
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.error()["error_type"], "XLACompilationTimeoutError");
  EXPECT_EQ(ran.error()["message"], "XLA compilation failed: timeout after 1s");
}

// What a terminal receives from the command.
std::string on_terminal(const Environment& environment) {
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const std::string program = std::string(BUILD_DIR) + "/bin/tpubridge", file = data("donated.mlir");
    execl(program.c_str(), program.c_str(), "run", file.c_str(), "--random", "0", nullptr);
    _exit(127);
  }
  std::string out;
  char block[4096];
  for (ssize_t n = 0; (n = read(terminal, block, sizeof block)) > 0;)
    out.append(block, static_cast<size_t>(n));
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << out;
  return out;
}

TEST_F(Cache, ASlowCompileShowsOneLineOnATerminalAlone) {
  Environment environment = slow("compile_slow:ms=1600");
  environment.emplace_back("TERM", "xterm");
  const std::string seen = on_terminal(environment);
  EXPECT_THAT(seen, HasSubstr("\rcompiling … 1 s\033[K"));
  EXPECT_THAT(seen, HasSubstr("\r\033[K")) << "taken back";
  EXPECT_EQ(seen.find("compiling …", seen.rfind("\r\033[K")), std::string::npos);

  environment.back().second = "dumb";
  EXPECT_THAT(on_terminal(environment), Not(HasSubstr("compiling")));
  EXPECT_EQ(in_cache({"run", data("donated.mlir"), "--random", "0"}, slow("compile_slow:ms=1100")).err, "");
}

}  // namespace
}  // namespace tpubridge::tools_test
