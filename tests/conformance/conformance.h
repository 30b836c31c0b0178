// One suite for every plugin: the fake one, XLA's CPU plugin, and the one that TPUBRIDGE_TEST_PLUGIN names.
//
// What a plugin may lack is allowed to throw UnsupportedError, and nothing else; what every plugin has must
// give the right numbers, which each test works out by itself. On the fake plugin every test also proves that
// it leaves nothing alive and misuses nothing.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tpubridge/base/errors.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::pjrt {

struct PluginUnderTest {
  std::string name, path;
  Values options;
};
inline void PrintTo(const PluginUnderTest& plugin, std::ostream* to) { *to << plugin.path; }
[[nodiscard]] const std::vector<PluginUnderTest>& plugins_under_test();
[[nodiscard]] std::string plugin_name(const testing::TestParamInfo<PluginUnderTest>& info);

class Conformance : public testing::TestWithParam<PluginUnderTest> {
 protected:
  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] static bool is_fake() { return GetParam().name == "fake"; }
  [[nodiscard]] static bool is_cpu() { return GetParam().name == "cpu"; }
  [[nodiscard]] static const Client& client();  // one for all tests of a plugin
  [[nodiscard]] static const Device& device(size_t index = 0) {
    return *client().addressable_devices()[index];
  }
  [[nodiscard]] static size_t device_count() { return client().addressable_devices().size(); }

  [[nodiscard]] static Buffer floats(const std::vector<float>& values, std::vector<int64_t> dims,
                                     size_t on = 0);
  [[nodiscard]] static Buffer floats(const std::vector<float>& values);  // f32[n]

 private:
  std::vector<int64_t> live_;
};

// The text of the exception of type E that `body` throws; a test failure where it throws another, or none.
template <class E>
std::string thrown(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& e) {
    return e.what();
  } catch (const Error& e) {
    ADD_FAILURE() << "another exception: " << e.repr();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// Runs `body`; false where the plugin says that it has no such thing.
bool supported(const std::function<void()>& body);

// Programs that several tests use.
extern const char* const kAddSub;    // (f32[4], f32[4]) → (a+b, a-b)
extern const char* const kDonating;  // (f32[4] donated, f32[4]) → a*b
std::string heavy(int rounds);       // f32[64,64] → as many products with itself scaled by 1/64

}  // namespace tpubridge::pjrt

#define TPUBRIDGE_CONFORMANCE() \
  INSTANTIATE_TEST_SUITE_P(Plugin, Conformance, testing::ValuesIn(plugins_under_test()), plugin_name)
