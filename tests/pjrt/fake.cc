#include "tests/pjrt/fake.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

namespace tpubridge::pjrt {

FakePlugin::FakePlugin(const std::string& settings) {
  static std::atomic<int> number{0};
  path_ =
      testing::TempDir() + "fake_pjrt_" + std::to_string(getpid()) + "_" + std::to_string(number++) + ".so";
  std::filesystem::copy_file(FAKE_PLUGIN, path_, std::filesystem::copy_options::overwrite_existing);
  library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library_, nullptr) << dlerror();
  configure(settings);
}

FakePlugin::~FakePlugin() { std::filesystem::remove(path_); }

void FakePlugin::configure(const std::string& settings) const {
  const auto function =
      reinterpret_cast<const char* (*)(const char*)>(dlsym(library_, "fake_pjrt_configure"));
  const char* problem = function(settings.c_str());
  EXPECT_EQ(problem, nullptr) << problem;
}

int64_t FakePlugin::count(const std::string& name) const {
  return reinterpret_cast<int64_t (*)(const char*)>(dlsym(library_, "fake_pjrt_counts"))(name.c_str());
}

std::string FakePlugin::misuse() const {
  return reinterpret_cast<const char* (*)()>(dlsym(library_, "fake_pjrt_misuse"))();
}

void FakePlugin::expect_nothing_left() const {
  // What a callback held last is given back by a thread of its own, soon.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (const char* kind : {"error", "event", "client", "device", "description", "memory", "buffer",
                           "executable", "loaded_executable", "topology", "context", "serialized"}) {
    const std::string live = std::string("live.") + kind;
    while (count(live) != 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(count(live), 0) << kind;
  }
  EXPECT_EQ(misuse(), "");
}

const std::vector<std::string>& api_functions() {
  static const std::vector<std::string> names = {
      "PJRT_Error_Destroy",
      "PJRT_Error_Message",
#define FAKE_FUNCTION(name, since) #name,
#include "tests/fake_plugin/functions.inc"
#undef FAKE_FUNCTION
  };
  return names;
}

std::string doubling(int64_t n) {
  const std::string t = "tensor<" + std::to_string(n) + "xf32>";
  return "func.func @main(%x: " + t + ") -> " + t + " { %y = stablehlo.add %x, %x : " + t +
         " return %y : " + t + " }";
}

}  // namespace tpubridge::pjrt
