#include "tests/conformance/conformance.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>

namespace tpubridge::pjrt {
namespace {

int64_t fake_count(const char* name) {
  static void* const library = dlopen(FAKE_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  static const auto count = reinterpret_cast<int64_t (*)(const char*)>(dlsym(library, "fake_pjrt_counts"));
  return count(name);
}

std::string fake_misuse() {
  void* const library = dlopen(FAKE_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<const char* (*)()>(dlsym(library, "fake_pjrt_misuse"))();
}

constexpr const char* kCounts[] = {
    "live.buffer",   "live.event",      "live.error", "live.executable", "live.loaded_executable",
    "live.topology", "live.serialized", "misuse"};

}  // namespace

const std::vector<PluginUnderTest>& plugins_under_test() {
  static const auto all = [] {
    std::vector<PluginUnderTest> out = {{"fake", FAKE_PLUGIN, {}},
                                        {"cpu", CPU_PLUGIN, {{"cpu_device_count", int64_t{4}}}}};
    std::erase_if(out, [](const PluginUnderTest& p) { return !std::filesystem::exists(p.path); });
    if (const char* path = std::getenv("TPUBRIDGE_TEST_PLUGIN")) out.push_back({"named", path, {}});
    return out;
  }();
  return all;
}

std::string plugin_name(const testing::TestParamInfo<PluginUnderTest>& info) { return info.param.name; }

const Client& Conformance::client() {
  static std::map<std::string, std::shared_ptr<Client>> clients;
  auto& mine = clients[GetParam().name];
  if (!mine) mine = Client::create(Plugin::load(GetParam().path), GetParam().options);
  return *mine;
}

void Conformance::SetUp() {
  (void)client();
  if (!is_fake()) return;
  for (const char* name : kCounts) live_.push_back(fake_count(name));
}

void Conformance::TearDown() {
  if (!is_fake()) return;
  for (size_t i = 0; i < std::size(kCounts); ++i)
    EXPECT_EQ(fake_count(kCounts[i]), live_[i]) << kCounts[i] << "\n" << fake_misuse();
}

Buffer Conformance::floats(const std::vector<float>& values, std::vector<int64_t> dims, size_t on) {
  return client().to_device(values, {DType::f32, std::move(dims)}, device(on));
}

Buffer Conformance::floats(const std::vector<float>& values) {
  return floats(values, {static_cast<int64_t>(values.size())});
}

bool supported(const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const UnsupportedError& e) {
    EXPECT_STRNE(e.what(), "");
    return false;
  }
}

const char* const kAddSub = R"(module {
  func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    %1 = stablehlo.subtract %a, %b : tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
})";

const char* const kDonating = R"(module {
  func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.multiply %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

std::string heavy(int rounds) {
  std::string text =
      "func.func @main(%x0: tensor<64x64xf32>) -> tensor<64x64xf32> {\n"
      "  %s = stablehlo.constant dense<0.015625> : tensor<64x64xf32>\n";
  for (int i = 0; i < rounds; ++i) {
    const std::string in = "%x" + std::to_string(i), product = "%p" + std::to_string(i),
                      out = "%x" + std::to_string(i + 1);
    text +=
        "  " + product + " = stablehlo.dot_general " + in + ", " + in +
        ", contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n  " +
        out + " = stablehlo.multiply " + product + ", %s : tensor<64x64xf32>\n";
  }
  return text + "  return %x" + std::to_string(rounds) + " : tensor<64x64xf32>\n}";
}

}  // namespace tpubridge::pjrt
