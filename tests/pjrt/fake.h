// The fake plugin for tests of pjrt/: what goes wrong on demand, and proof that nothing was left behind.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tpubridge/pjrt/client.h"

namespace tpubridge::pjrt {

// A copy of the library, since a plugin is loaded once per file: each has a table, settings and counts of its
// own.
class FakePlugin {
 public:
  explicit FakePlugin(const std::string& settings = "");
  ~FakePlugin();
  FakePlugin(const FakePlugin&) = delete;
  FakePlugin& operator=(const FakePlugin&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  void configure(const std::string& settings) const;
  [[nodiscard]] int64_t count(const std::string& name) const;
  [[nodiscard]] std::string misuse() const;
  void expect_nothing_left() const;  // no live object, no misuse

 private:
  std::string path_;
  void* library_ = nullptr;
};

// The names of all functions of the table.
[[nodiscard]] const std::vector<std::string>& api_functions();

// f32[n] → x + x
[[nodiscard]] std::string doubling(int64_t n);

}  // namespace tpubridge::pjrt
