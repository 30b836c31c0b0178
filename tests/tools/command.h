// Runs the built command, as a user does, for the tests of this folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tpubridge/base/files.h"
#include "tpubridge/base/host_tensor.h"
#include "tpubridge/base/subprocess.h"

namespace tpubridge::tools_test {

struct Ran {
  int code = 0;
  std::string out, err;
  // The one document on stdout; fails the test where it is not one.
  [[nodiscard]] nlohmann::json json() const {
    auto value = nlohmann::json::parse(out, nullptr, false);
    EXPECT_FALSE(value.is_discarded()) << "no JSON: " << out << err;
    return value;
  }
  [[nodiscard]] nlohmann::json error() const { return json().value("error", nlohmann::json::object()); }
};

using Environment = std::vector<std::pair<std::string, std::string>>;

inline Ran tpubridge(std::vector<std::string> arguments, Environment environment = {}) {
  Command command;
  command.argv = {std::string(BUILD_DIR) + "/bin/tpubridge"};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  // What a developer's shell may have set must not decide a test; an empty variable counts as none.
  command.environment = std::move(environment);
  for (const char* name :
       {"XLA_FLAGS", "TPUBRIDGE_PLUGIN", "TPUBRIDGE_LOG", "TPUBRIDGE_CPU_DEVICES", "CPU_NUM_DEVICES",
        "PJRT_DEVICE", "PJRT_NAMES_AND_LIBRARY_PATHS", "TPU_LIBRARY_PATH", "FAKE_PJRT"})
    if (std::ranges::find(command.environment, name, &Environment::value_type::first) ==
        command.environment.end())
      command.environment.emplace_back(name, "");
  command.deadline = std::chrono::seconds(120);
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.end, Outcome::End::exited) << outcome.str() << "\n" << outcome.err;
  return {outcome.code, outcome.out, outcome.err};
}

inline std::string data(const std::string& name) { return std::string(TEST_DATA) + "/jax/" + name; }

// A file in a folder of its own.
class File {
 public:
  File(const std::string& name, std::string_view content) : path_(folder_.path() / name) {
    write_file(path_, content);
  }
  [[nodiscard]] std::string str() const { return path_.string(); }

 private:
  TempFolder folder_;
  Path path_;
};

template <class T>
HostTensor tensor(std::string name, Shape shape, const std::vector<T>& values) {
  return make_tensor(std::move(name), std::move(shape), std::as_bytes(std::span(values)));
}

}  // namespace tpubridge::tools_test
