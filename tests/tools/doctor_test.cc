// `tpubridge doctor` and `devices`: findings and exit codes on this machine, on the fake plugin, and in a
// bent environment.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/tools/command.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge::tools_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Doctor {
  int code;
  json report;

  explicit Doctor(std::vector<std::string> arguments = {}, Environment environment = {}) {
    arguments.insert(arguments.begin(), "doctor");
    arguments.push_back("--json");
    const Ran ran = tpubridge(arguments, std::move(environment));
    code = ran.code;
    report = ran.json();
    EXPECT_EQ(report["healthy"], code == 0);
  }
  // The finding whose text contains this; null where there is none.
  [[nodiscard]] json finding(const std::string& part, const std::string& text) const {
    for (const auto& f : report["findings"])
      if (f["part"] == part && f["text"].get<std::string>().find(text) != std::string::npos) return f;
    return {};
  }
  [[nodiscard]] json plugin(const std::string& name) const {
    for (const auto& p : report["plugins"])
      if (p["name"] == name) return p;
    return {};
  }
};

TEST(DoctorHealthy, TheCpuPluginWorks) {
  const Doctor d({"--plugin", "cpu"});
  EXPECT_EQ(d.code, 0);
  json cpu = d.plugin("cpu");
  EXPECT_EQ(cpu["chosen"], true);
  EXPECT_EQ(cpu["self_test"]["ok"], true);
  EXPECT_EQ(cpu["self_test"]["wrong_elements"], 0);
  EXPECT_EQ(cpu["devices"].size(), 1U);
  EXPECT_EQ(cpu["platform"], "cpu");
  EXPECT_EQ(cpu["api_version"], d.report["pjrt_version"]);  // the header comes with this plugin
  EXPECT_EQ(cpu["attributes"]["stablehlo_current_version"].size(), 3U);
  Command nproc;
  nproc.argv = {"nproc"};
  EXPECT_EQ(d.report["machine"]["cores"].get<int>(), std::stoi(run_command(nproc).out));
  EXPECT_EQ(d.report["machine"]["memory"].get<int64_t>() / 1000000,
            sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 1000000);
}

TEST(DoctorHealthy, LibtpuIsNotLoadedWhereNoTpuIs) {
  if (pjrt::tpu_hardware()) GTEST_SKIP() << "a TPU is here";
  const File libtpu("libtpu.so", "it would be a problem to load this");
  const Doctor d({}, {{"TPU_LIBRARY_PATH", libtpu.str()}});
  EXPECT_EQ(d.plugin("tpu")["tested"], false);
  EXPECT_EQ(d.plugin("tpu")["reason"], "no TPU is in this machine");
  EXPECT_NE(d.finding("plugins", "tpu: ")["level"], "problem");
  const Doctor asked({"--plugin", libtpu.str()});
  EXPECT_EQ(asked.code, 1);
  EXPECT_THAT(asked.finding("plugins", "libtpu")["action"].get<std::string>(), HasSubstr("tpubridge fit"));
}

TEST(DoctorHealthy, ATpuIsDescribed) {
  const Doctor d({"--plugin", FAKE_PLUGIN}, {{"FAKE_PJRT", "generation=v5p,chips=4"}});
  json fake = d.report["plugins"][0];
  EXPECT_EQ(fake["platform"], "tpu");
  EXPECT_EQ(fake["devices"].size(), 4U);
  EXPECT_EQ(fake["devices"][3]["kind"], "TPU v5");
  EXPECT_EQ(fake["devices"][3]["memory"]["limit"], 102786660352);
  EXPECT_EQ(fake["self_test"]["ok"], true);
}

TEST(DoctorText, PlainWhereNoTerminalIs) {
  const Ran ran = tpubridge({"doctor", "--plugin", "cpu"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out.find('\033'), std::string::npos);
  EXPECT_THAT(ran.out, HasSubstr("\n  ok       cpu: chosen"));
  EXPECT_THAT(ran.out, HasSubstr("self-test: a matrix product is right"));
}

TEST(DoctorEnvironment, UnknownNameGetsTheNearest) {
  const Doctor d({"--plugin", "cpu"}, {{"TPUBRIDGE_CPU_DEVICE", "3"}});
  EXPECT_EQ(d.code, 0);  // it has no effect
  json f = d.finding("environment", "TPUBRIDGE_CPU_DEVICE=3");
  EXPECT_EQ(f["level"], "note");
  EXPECT_EQ(f["action"], "Set TPUBRIDGE_CPU_DEVICES instead, or unset TPUBRIDGE_CPU_DEVICE.");
}

TEST(DoctorEnvironment, WrongValueIsAProblem) {
  const Doctor d({"--plugin", "cpu"}, {{"TPUBRIDGE_LOG", "loud"}});
  EXPECT_EQ(d.code, 1);
  EXPECT_EQ(d.finding("environment", "TPUBRIDGE_LOG=loud")["level"], "problem");
}

TEST(DoctorEnvironment, VariablesHaveTheirEffectToldAndFelt) {
  const Doctor d({"--plugin", "cpu"}, {{"TPUBRIDGE_CPU_DEVICES", "3"}, {"JAX_PLATFORMS", "cpu"}});
  EXPECT_EQ(d.plugin("cpu")["devices"].size(), 3U);
  EXPECT_EQ(d.finding("environment", "TPUBRIDGE_CPU_DEVICES=3")["level"], "info");
  EXPECT_TRUE(d.finding("environment", "JAX_PLATFORMS").is_null());  // nobody here reads it
}

TEST(DoctorEnvironment, XlaFlagsThatWouldAbort) {
  const Doctor d({"--plugin", "cpu"}, {{"XLA_FLAGS", "--xla_nix_da=1"}});
  EXPECT_EQ(d.code, 1);
  json cpu = d.plugin("cpu");
  EXPECT_THAT(cpu["error"]["message"].get<std::string>(), HasSubstr("--xla_nix_da=1"));
  EXPECT_EQ(d.finding("plugins", "cpu: chosen")["level"], "problem");
}

TEST(DoctorPlugins, NamedFilesMustBeThere) {
  const Doctor d({}, {{"PJRT_NAMES_AND_LIBRARY_PATHS", "mine:/nix/there.so,fake:" FAKE_PLUGIN}});
  EXPECT_EQ(d.code, 1);
  EXPECT_EQ(d.finding("plugins", "mine: there is no such file")["level"], "problem");
  EXPECT_EQ(d.plugin("fake")["chosen"], true);
  EXPECT_EQ(d.plugin("cpu")["chosen"], false);
  EXPECT_EQ(d.plugin("cpu")["self_test"]["ok"], true);  // usable too
}

TEST(DoctorPlugins, MissingBrokenAndCrashing) {
  EXPECT_EQ(Doctor({"--plugin", "/nix/there.so"}).code, 1);
  const File cut("cut.so", std::string_view(read_file(FAKE_PLUGIN)).substr(0, 100000));
  const Doctor broken({"--plugin", cut.str()});
  EXPECT_EQ(broken.code, 1);
  EXPECT_THAT(broken.plugin("cut")["error"]["message"].get<std::string>(), HasSubstr("cut off"));
  const Doctor taken({"--plugin", FAKE_PLUGIN}, {{"FAKE_PJRT", "fail=client_error"}});
  EXPECT_EQ(taken.code, 1);
  EXPECT_THAT(taken.report["plugins"][0]["error"]["message"].get<std::string>(),
              HasSubstr("in use by another process"));
  // A library, and no plugin.
  const Doctor foreign({"--plugin", std::string(BUILD_DIR) + "/lib/libtpubridge_core.so"});
  EXPECT_EQ(foreign.code, 1);
  EXPECT_THAT(foreign.report["plugins"][0]["error"]["message"].get<std::string>(), HasSubstr("GetPjrtApi"));
}

TEST(DoctorLibraries, SearchPathAndPreload) {
  const File one("libtorch_cpu.so", ""), two("libtorch_cpu.so", "");
  const std::string path =
      Path(one.str()).parent_path().string() + ":" + Path(two.str()).parent_path().string() + ":/nix/da";
  const Doctor d({"--plugin", "cpu"}, {{"LD_LIBRARY_PATH", path}});
  EXPECT_EQ(d.code, 0);
  json twice = d.finding("libraries", "2 copies of libtorch_cpu.so");
  EXPECT_EQ(twice["level"], "note");
  EXPECT_EQ(twice["facts"], json({one.str(), two.str()}));
  EXPECT_EQ(d.finding("libraries", "/nix/da")["level"], "note");
  const Doctor preload({"--plugin", "cpu"}, {{"LD_PRELOAD", "/nix/there.so"}});
  EXPECT_EQ(preload.finding("libraries", "LD_PRELOAD puts /nix/there.so")["facts"],
            json({"there is no such file"}));
}

TEST(DoctorTpu, NamesTheProcessThatHoldsTheLock) {
  const File lock("lock", "");
  EXPECT_EQ(Doctor({"--plugin", "cpu", "--lock-file", lock.str()}).report["tpu"]["held_by"].size(), 0U);
  const int fd = open(lock.str().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  const Doctor d({"--plugin", "cpu", "--lock-file", lock.str()});
  close(fd);
  ASSERT_EQ(d.report["tpu"]["held_by"].size(), 1U);
  EXPECT_EQ(d.report["tpu"]["held_by"][0]["pid"], getpid());
  EXPECT_THAT(d.report["tpu"]["held_by"][0]["command"].get<std::string>(), HasSubstr("test_tools"));
}

TEST(DoctorFit, SaysWhatCompilingForATpuNeeds) {
  const std::string built = std::string(BUILD_DIR) + "/bin/tpubridge-aot";
  const Doctor plain({"--plugin", "cpu"});
  EXPECT_EQ(plain.code, 0);  // it may be left out
  if (std::filesystem::exists(built)) {
    EXPECT_EQ(plain.report["fit"]["tpubridge-aot"], std::filesystem::canonical(built).string());
  } else {
    json missing = plain.finding("fit", "tpubridge-aot");
    EXPECT_EQ(missing["level"], "note");
    EXPECT_THAT(missing["action"].get<std::string>(), HasSubstr("make aot"));
  }
  const File child("child", "#!/bin/sh\n"), library("libtpu.so", "");
  const Doctor ready({"--plugin", "cpu"},
                     {{"TPUBRIDGE_AOT_CHILD", child.str()}, {"TPUBRIDGE_LIBTPU", library.str()}});
  EXPECT_EQ(ready.code, 0);
  EXPECT_EQ(ready.report["fit"],
            json({{"tpubridge-aot", child.str()}, {"libtpu", library.str()}, {"ready", true}}));
  const Doctor wrong({"--plugin", "cpu"},
                     {{"TPUBRIDGE_AOT_CHILD", "/nix/aot"}, {"TPUBRIDGE_LIBTPU", library.str()}});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_EQ(wrong.report["fit"]["ready"], false);
  json finding = wrong.finding("fit", "TPUBRIDGE_AOT_CHILD names a file that is not there");
  EXPECT_EQ(finding["level"], "problem");
  EXPECT_EQ(finding["facts"], json({"path: /nix/aot"}));
}

TEST(DoctorCache, FolderThatCannotBe) {
  const File file("file", "");
  const Doctor d({"--plugin", "cpu"}, {{"TPUBRIDGE_CACHE_DIR", file.str() + "/cache"}});
  EXPECT_EQ(d.code, 1);
  EXPECT_EQ(d.finding("cache", "cannot be written")["level"], "problem");
  EXPECT_EQ(d.report["cache"]["writable"], false);
}

TEST(Devices, TableAndJson) {
  const Environment v7 = {{"FAKE_PJRT", "generation=v7,chips=8,hosts=2"}};
  const auto report = tpubridge({"devices", "--plugin", FAKE_PLUGIN, "--json"}, v7).json();
  EXPECT_EQ(report["platform"], "tpu");
  ASSERT_EQ(report["devices"].size(), 16U);  // two a chip
  EXPECT_EQ(report["devices"][2]["coords"], json({1, 0, 0}));
  EXPECT_EQ(report["devices"][2]["memory"]["limit"], 101724450816);
  EXPECT_EQ(report["devices"][2]["memories"], json({"device", "pinned_host"}));
  EXPECT_EQ(report["devices"][8]["process"], 1);
  EXPECT_EQ(report["devices"][8]["addressable"], false);
  EXPECT_TRUE(report["devices"][8]["memory"].is_null());
  const Ran table = tpubridge({"devices", "--plugin", FAKE_PLUGIN}, v7);
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, HasSubstr("2   TPU7x  0          1,0,0"));
  EXPECT_THAT(table.out, HasSubstr("94.7 GiB"));
}

TEST(Devices, OfTheCpuPlugin) {
  EXPECT_EQ(tpubridge({"devices", "--plugin", "cpu", "--json"}).json()["devices"].size(), 1U);
  EXPECT_EQ(tpubridge({"devices", "--plugin", "cpu", "--devices", "5", "--json"}).json()["devices"].size(),
            5U);
  const Ran none = tpubridge({"devices", "--plugin", "nix", "--json"});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.error()["error_type"], "PluginError");
}

}  // namespace
}  // namespace tpubridge::tools_test
