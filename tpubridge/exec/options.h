// What the user adds to the options of every compile. It is part of what a program is: one that was compiled
// with other options is not found again. All under exec::mutex().
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "tpubridge/capi/compile_options.h"

namespace tpubridge::exec {

// Of `added` the optimization level and the overrides count; an override wins over the device's own of the
// same name. Returns the old one.
pjrt::CompileOptions set_compile_options(pjrt::CompileOptions added);

void add_user_options(pjrt::CompileOptions& to);
[[nodiscard]] const std::string& user_options_text();  // what it adds, whole; empty where nothing

// How one caller wants its programs compiled, whatever is set for the process.
class CompileSettings {
 public:
  CompileSettings() = default;
  explicit CompileSettings(pjrt::CompileOptions options);  // in the place of set_compile_options()'s
  std::optional<std::chrono::milliseconds> deadline = {};
  bool disk = true;     // false: nothing is looked for or stored there
  bool afresh = false;  // compiled whatever is known already, and not kept

  [[nodiscard]] const std::optional<pjrt::CompileOptions>& options() const { return options_; }
  [[nodiscard]] const std::string& text() const { return text_; }  // the options, to be compared

 private:
  std::optional<pjrt::CompileOptions> options_;
  std::string text_;
};

// While it lives, this thread compiles so; of several scopes the innermost counts. It also adds up what the
// thread has compiled or loaded meanwhile. The settings must outlive it.
class CompileScope {
 public:
  explicit CompileScope(const CompileSettings& settings);
  ~CompileScope();
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;

  [[nodiscard]] const CompileSettings& settings() const { return settings_; }
  [[nodiscard]] double seconds() const { return seconds_; }     // of compiling, or loading from disk
  [[nodiscard]] int64_t compiles() const { return compiles_; }  // by the compiler itself
  void count(bool by_compiler, double seconds);
  [[nodiscard]] static CompileScope* current();  // of this thread; null almost always

 private:
  const CompileSettings& settings_;
  double seconds_ = 0;
  int64_t compiles_ = 0;
  CompileScope* outer_;
};

}  // namespace tpubridge::exec
