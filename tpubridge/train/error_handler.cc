#include "tpubridge/train/error_handler.h"

#include <numeric>
#include <thread>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/error_journal.h"
#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

size_t place(ErrorClass c) { return static_cast<size_t>(c); }

ErrorHandlerOptions checked(ErrorHandlerOptions o) {
  if (o.max_errors < 0 || o.max_retries < 0 || o.backoff.count() < 0)
    throw TPUConfigurationError(
        "Invalid configuration for 'max_errors', 'max_retries' or 'backoff': "
        "they must not be negative");
  if (!o.sleep) o.sleep = [](std::chrono::milliseconds t) { std::this_thread::sleep_for(t); };
  return o;
}

// Trying again what was asked wrongly gives the same error.
bool worth_retrying(const std::exception& e) {
  return dynamic_cast<const TPUBackendError*>(&e) != nullptr &&
         dynamic_cast<const ArgumentError*>(&e) == nullptr &&
         dynamic_cast<const UnsupportedError*>(&e) == nullptr &&
         dynamic_cast<const ConfigurationError*>(&e) == nullptr;
}

bool recover(const std::string& operation, const std::function<void()>& recovery) {
  if (!recovery) return true;
  try {
    recovery();
    return true;
  } catch (const std::exception& e) {
    log::error("error.recovery_failed", {{"operation", operation}, {"cause", e.what()}});
    return false;
  }
}

}  // namespace

std::string_view to_string(ErrorClass c) {
  constexpr std::array<std::string_view, 4> names{"memory", "compilation", "device", "other"};
  return names[place(c)];
}

ErrorClass classify(const std::exception& error) {
  // Of files, whose codes say nothing about the device.
  if (dynamic_cast<const FileError*>(&error) || dynamic_cast<const TPUCheckpointError*>(&error))
    return ErrorClass::other;
  if (dynamic_cast<const OutOfMemoryError*>(&error)) return ErrorClass::memory;
  if (dynamic_cast<const CompilationError*>(&error)) return ErrorClass::compilation;
  if (dynamic_cast<const DeviceError*>(&error)) return ErrorClass::device;
  if (const auto* e = dynamic_cast<const TPUBackendError*>(&error)) {
    if (e->code() == Code::resource_exhausted) return ErrorClass::memory;
    if (e->code() == Code::unavailable || e->code() == Code::aborted) return ErrorClass::device;
  }
  return ErrorClass::other;
}

TPUErrorHandler::TPUErrorHandler(ErrorHandlerOptions options) : options_(checked(std::move(options))) {}

void TPUErrorHandler::set_recovery(ErrorClass c, std::function<void()> recovery) {
  const std::lock_guard lock(mutex_);
  recoveries_[place(c)] = std::move(recovery);
}

bool TPUErrorHandler::handle_tpu_error(const std::string& operation, const std::exception& error) {
  const std::lock_guard lock(mutex_);
  const ErrorClass c = classify(error);
  const auto* ours = dynamic_cast<const Error*>(&error);
  const int64_t count = ++counts_[place(c)];
  const std::string type = ours ? ours->type_name() : "std::exception";
  log_.push_back({operation, error.what(), type, c});
  while (log_.size() > options_.log_size) log_.pop_front();
  log::warn("error.handled", {{"operation", operation},
                              {"class", std::string(to_string(c))},
                              {"count", std::to_string(count)},
                              {"error", error.what()}});
  const bool recovered = count < options_.max_errors && recover(operation, recoveries_[place(c)]);
  keep_error({.operation = operation,
              .error_class = std::string(to_string(c)),
              .error_type = type,
              .error = error.what(),
              .recovered = recovered});
  return recovered;
}

void TPUErrorHandler::run(const std::string& name, const std::function<void()>& operation) {
  auto pause = options_.backoff;
  for (int retry = 0;; ++retry) {
    try {
      return operation();
    } catch (const std::exception& e) {
      if (!worth_retrying(e)) throw;
      if (!handle_tpu_error(name, e) || retry == options_.max_retries) throw;
    }
    options_.sleep(pause);
    pause *= 2;
  }
}

int64_t TPUErrorHandler::error_count() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}
int64_t TPUErrorHandler::error_count(ErrorClass c) const {
  const std::lock_guard lock(mutex_);
  return counts_[place(c)];
}
std::vector<ErrorRecord> TPUErrorHandler::error_log() const {
  const std::lock_guard lock(mutex_);
  return {log_.begin(), log_.end()};
}
void TPUErrorHandler::reset() {
  const std::lock_guard lock(mutex_);
  counts_ = {};
  log_.clear();
}

}  // namespace tpubridge
