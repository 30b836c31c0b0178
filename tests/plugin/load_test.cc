// Files that are no plugin, and what would kill the process while one is loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tpubridge/base/errors.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::pjrt {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string load_error(const std::string& path) {
  try {
    static_cast<void>(Plugin::load(path));
  } catch (const PluginError& e) {
    return e.what();
  }
  return "loaded";
}

TEST(PluginLoad, TellsAboutItself) {
  const auto plugin = Plugin::load(CPU_PLUGIN);
  EXPECT_EQ(plugin->api_version(), header_version());  // the wheel ships header and plugin together
  EXPECT_THAT(plugin->extensions(), Contains("FFI"));
  EXPECT_TRUE(plugin->attributes().contains("stablehlo_current_version"));
  EXPECT_EQ(Plugin::load(CPU_PLUGIN), plugin);  // one file, one plugin
}
TEST(PluginLoad, MissingFile) { EXPECT_THAT(load_error("/no/such/plugin.so"), HasSubstr("No such file")); }
TEST(PluginLoad, Directory) { EXPECT_THAT(load_error("/tmp"), HasSubstr("not a file")); }
TEST(PluginLoad, SharedLibraryThatIsNoPlugin) {
  EXPECT_THAT(load_error(std::string(BUILD_DIR) + "/lib/libtpubridge_core.so"), HasSubstr("no GetPjrtApi"));
}
TEST(PluginLoad, TruncatedLibrary) {
  const std::string path = testing::TempDir() + "/cut_off_plugin.so";
  std::ifstream in(CPU_PLUGIN, std::ios::binary);
  std::string head(100'000, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  std::ofstream(path, std::ios::binary) << head;
  EXPECT_THAT(load_error(path), HasSubstr("cut off"));
}
TEST(PluginLoad, TextFile) {
  const std::string path = testing::TempDir() + "/text_plugin.so";
  std::ofstream(path) << "hello";
  EXPECT_THAT(load_error(path), HasSubstr("cannot load the PJRT plugin"));
}

TEST(PluginLoadDeathTest, UnknownXlaFlagIsAnExceptionNotAnAbort) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a process of its own: plugins are loaded once
  EXPECT_EXIT(
      {
        setenv("XLA_FLAGS", "--xla_no_such_flag=1", 1);
        const std::string said = load_error(CPU_PLUGIN);
        std::fprintf(stderr, "%s\n", said.c_str());
        std::_Exit(said.find("xla_no_such_flag") != said.npos ? 42 : 1);
      },
      testing::ExitedWithCode(42), "XLA_FLAGS would make this plugin abort");
}

// XLA takes a value without a dash for a file, and would read these for ever.
TEST(PluginLoadDeathTest, XlaFlagsThatNameNoRegularFile) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        bool told = true;
        for (const char* file : {"/dev/zero", " /tmp"}) {
          setenv("XLA_FLAGS", file, 1);
          told = told && load_error(CPU_PLUGIN).find("not a regular file") != std::string::npos;
        }
        std::_Exit(told ? 42 : 1);
      },
      testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace tpubridge::pjrt
