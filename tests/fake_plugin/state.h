// The settings in force (FAKE_PJRT, then whatever fake_pjrt_configure changed) and the failures that are due.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "registry.h"
#include "settings.h"

namespace fake {

[[nodiscard]] Settings settings();
void configure(std::string_view text);  // throws Failure where the text is wrong
void check_environment();               // throws what was wrong with FAKE_PJRT
[[nodiscard]] size_t args_growth(std::string_view function);

// Counts one call at the point `kind`; gives the rule where one makes this call fail.
[[nodiscard]] std::optional<Rule> due(std::string_view kind, std::string_view function = {});
[[nodiscard]] Failure failure(const Rule& rule, PJRT_Error_Code code, const std::string& message);
void fail_if_due(std::string_view kind, PJRT_Error_Code code, const std::string& message);
[[nodiscard]] int64_t times_fired(std::string_view kind);

// What hangs waits at a gate until "release".
class Gate {
 public:
  static std::shared_ptr<Gate> closed();
  static void open_all();

  void wait();
  void when_open(std::function<void()> action);  // at once where it is open

 private:
  void open();
  std::mutex lock_;
  std::condition_variable changed_;
  bool open_ = false;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace fake
