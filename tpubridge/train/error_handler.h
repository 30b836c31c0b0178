// What to do when the device fails: an error is told by its type and code, its class may have a way to
// recover, and everything is counted and bounded.
//
//   TPUErrorHandler handler;
//   handler.set_recovery(ErrorClass::device, [&] { restore_from_checkpoint(); });
//   handler.run("step", [&] { step(); });      // again, after a pause that doubles, where it was recovered
//
// May be used by several threads; recoveries run one at a time. Each error is also kept on disk for
// `tpubridge status` (base/error_journal.h).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/errors.h"

namespace tpubridge {

enum class ErrorClass { memory, compilation, device, other };
[[nodiscard]] std::string_view to_string(ErrorClass c);
// By the exception's class, then by PJRT's code; the words of a message decide nothing.
[[nodiscard]] ErrorClass classify(const std::exception& error);

struct ErrorHandlerOptions {
  int64_t max_errors = 10;                 // of each class; the last of them is no longer recovered
  int max_retries = 3;                     // of one run()
  std::chrono::milliseconds backoff{100};  // before the first retry; doubled before each further one
  size_t log_size = 100;                   // records that are kept
  std::function<void(std::chrono::milliseconds)> sleep = {};  // instead of sleeping
};

struct ErrorRecord {
  std::string operation, error, error_type;
  ErrorClass error_class = ErrorClass::other;
};

class TPUErrorHandler {
 public:
  explicit TPUErrorHandler(ErrorHandlerOptions options = {});

  // Called for an error of this class; where it throws, the error counts as not recovered.
  void set_recovery(ErrorClass c, std::function<void()> recovery);

  // Counts and logs the error, recovers. True: the operation may be tried again.
  bool handle_tpu_error(const std::string& operation, const std::exception& error);

  // Calls `operation`; after an error that was handled, again, at most max_retries times. Throws the last
  // error where none of it helped. Errors of other libraries and wrong arguments are not tried again.
  void run(const std::string& name, const std::function<void()>& operation);

  [[nodiscard]] int64_t error_count() const;  // of all classes
  [[nodiscard]] int64_t error_count(ErrorClass c) const;
  [[nodiscard]] std::vector<ErrorRecord> error_log() const;  // the newest, oldest first
  void reset();                                              // counts and log

 private:
  ErrorHandlerOptions options_;
  mutable std::mutex mutex_;
  std::array<int64_t, 4> counts_{};
  std::array<std::function<void()>, 4> recoveries_;
  std::deque<ErrorRecord> log_;
};

}  // namespace tpubridge
