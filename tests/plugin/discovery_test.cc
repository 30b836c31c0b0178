#include "tpubridge/plugin/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tpubridge/base/errors.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::pjrt {
namespace {

using testing::HasSubstr;

// Sets variables for one test and puts the old ones back.
class Discovery : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"TPUBRIDGE_PLUGIN", "PJRT_NAMES_AND_LIBRARY_PATHS", "PJRT_DEVICE", "TPU_LIBRARY_PATH",
          "TPUBRIDGE_CPU_DEVICES", "TPUBRIDGE_PREALLOCATE", "CPU_NUM_DEVICES", "PJRT_NPROC", "NPROC"}) {
      if (const char* old = std::getenv(name)) old_.emplace_back(name, old);
      unsetenv(name);
      names_.emplace_back(name);
    }
  }
  void TearDown() override {
    for (const auto& n : names_) unsetenv(n.c_str());
    for (const auto& [n, v] : old_) setenv(n.c_str(), v.c_str(), 1);
  }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  static Candidate find(const std::vector<Candidate>& list, const std::string& name) {
    for (const auto& c : list)
      if (c.name == name) return c;
    return {};
  }
  std::vector<std::string> names_;
  std::vector<std::pair<std::string, std::string>> old_;
};

TEST_F(Discovery, EmbeddedCpuPluginByDefault) {
  if (tpu_hardware() || nvidia_hardware()) GTEST_SKIP() << "this machine has an accelerator";
  const Candidate c = choose();
  EXPECT_EQ(c.name, "cpu");
  EXPECT_EQ(c.path, CPU_PLUGIN);
  const auto list = discover();
  EXPECT_FALSE(find(list, "tpu").chosen);
  EXPECT_FALSE(find(list, "cuda").chosen);
  EXPECT_NE(find(list, "tpu").reason, "");
}
TEST_F(Discovery, PathOfTheCallerComesFirst) {
  const Candidate c = choose(CPU_PLUGIN);
  EXPECT_EQ(c.source, "caller");
  EXPECT_EQ(c.reason, "asked for");
}
TEST_F(Discovery, MissingPathIsNeverReplacedByAnother) {
  EXPECT_THROW(static_cast<void>(choose("/no/such/plugin.so")), PluginError);
  set("TPUBRIDGE_PLUGIN", "/no/such/plugin.so");
  EXPECT_THROW(static_cast<void>(choose()), PluginError);
}
TEST_F(Discovery, NamesAndLibraryPaths) {
  set("PJRT_NAMES_AND_LIBRARY_PATHS", std::string("mine:") + CPU_PLUGIN + ",gone:/no/such.so,bad");
  const auto list = discover();
  EXPECT_TRUE(find(list, "mine").chosen);
  EXPECT_THAT(find(list, "gone").reason, HasSubstr("no such file"));
  EXPECT_THAT(find(list, "bad").reason, HasSubstr("name:path"));
  EXPECT_THAT(find(list, "cpu").reason, HasSubstr("PJRT_NAMES_AND_LIBRARY_PATHS comes first"));
  set("PJRT_DEVICE", "other");
  EXPECT_THAT(find(discover(), "mine").reason, HasSubstr("PJRT_DEVICE asks for other"));
  set("PJRT_DEVICE", "MINE");
  EXPECT_EQ(choose().name, "mine");
}
TEST_F(Discovery, ByName) {
  EXPECT_EQ(choose("cpu").path, CPU_PLUGIN);
  set("TPU_LIBRARY_PATH", "/no/such/libtpu.so");
  EXPECT_THROW(static_cast<void>(choose("tpu")), TPUNotAvailableError);
  EXPECT_THROW(static_cast<void>(choose("nonsense")), PluginError);
}
TEST_F(Discovery, NumberOfVirtualDevices) {
  EXPECT_EQ(open("cpu")->devices().size(), 1u);
  set("CPU_NUM_DEVICES", "3");
  EXPECT_EQ(open("cpu")->devices().size(), 3u);
  set("TPUBRIDGE_CPU_DEVICES", "2");
  EXPECT_EQ(open("cpu")->devices().size(), 2u);
  EXPECT_EQ(open("cpu", {{"cpu_device_count", int64_t{5}}})->devices().size(), 5u);
  EXPECT_EQ(open(CPU_PLUGIN)->devices().size(), 2u) << "named by its path it is the same plugin";
  unsetenv("TPUBRIDGE_CPU_DEVICES");
  set("CPU_NUM_DEVICES", "many");
  EXPECT_THROW(static_cast<void>(open("cpu")), TPUConfigurationError);
}

TEST_F(Discovery, CudaTakesMemoryAsItIsAsked) {
  Candidate cuda{}, other{};
  cuda.path = "/lib/xla_cuda_plugin.so";
  other.path = "/lib/other.so";
  EXPECT_TRUE(standard_options(cuda).empty());
  set("TPUBRIDGE_PREALLOCATE", "0");
  EXPECT_EQ(standard_options(cuda), (Values{{"preallocate", false}}));
  EXPECT_TRUE(standard_options(other).empty());
}

TEST_F(Discovery, AbsurdNumbersAreNotPassedOn) {
  for (const char* name : {"PJRT_NPROC", "NPROC"}) {
    for (const char* value : {"-1", "0", "1000000000", "99999999999999999999", "many", "4 "}) {
      set(name, value);
      try {
        (void)open("cpu");
        ADD_FAILURE() << name << "=" << value;
      } catch (const TPUConfigurationError& e) {
        EXPECT_EQ(e.detail("variable"), name);
        EXPECT_EQ(e.detail("value"), value);
        EXPECT_EQ(e.detail("allowed"), "1..1024");
      }
    }
    set(name, "2");
    EXPECT_EQ(open("cpu")->platform_name(), "cpu");
    unsetenv(name);
  }
  for (const char* value : {"0", "-3", "1000000"}) {
    set("CPU_NUM_DEVICES", value);
    EXPECT_THROW((void)cpu_device_count(), TPUConfigurationError) << value;
  }
}

}  // namespace
}  // namespace tpubridge::pjrt
