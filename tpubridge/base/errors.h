// Every error that tpubridge throws: what happened, the facts of it, and what to do next.
//
// All derive from Error. What the TPU layer throws can also be caught as TPUBackendError; the classes follow
// the hierarchy of the specification, so some have two bases (all inheritance from Error is virtual).
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpubridge {

// The status codes of PJRT (and absl); `ok` where an error has none.
enum class Code {
  ok = 0,
  cancelled,
  unknown,
  invalid_argument,
  deadline_exceeded,
  not_found,
  already_exists,
  permission_denied,
  resource_exhausted,
  failed_precondition,
  aborted,
  out_of_range,
  unsupported,
  internal,
  unavailable,
  data_loss,
  unauthenticated,
};
[[nodiscard]] std::string_view to_string(Code code);

using Details = std::vector<std::pair<std::string, std::string>>;  // in the order they are shown

class Error : public std::exception {
 public:
  explicit Error(std::string message, Details details = {}, std::string hint = {}, Code code = Code::ok);

  // "message (key=value, …). hint", for people: control characters are escaped here alone.
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }
  [[nodiscard]] const std::string& message() const { return message_; }
  [[nodiscard]] const Details& details() const { return details_; }
  [[nodiscard]] const std::string& hint() const {
    return hint_;
  }  // what to do next, empty where nothing helps
  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] std::string detail(std::string_view key) const;  // empty where absent
  void add(Details more);  // facts that somebody further out knows; put before the others
  [[nodiscard]] std::string type_name() const;  // the class, without namespace
  [[nodiscard]] std::string repr() const;       // Class('message', details={…})
  [[nodiscard]] std::string to_json() const;    // {error_type, message, details, hint, code}

 protected:
  Error() = default;  // virtual base: the most derived class sets the text

 private:
  void compose();
  std::string message_, hint_, what_;
  Details details_;
  Code code_ = Code::ok;
};

// Declares a class of the hierarchy: its constructor is Error's.
#define TPUBRIDGE_ERROR(Name, ...)                                                                        \
  class Name : __VA_ARGS__ {                                                                              \
   public:                                                                                                \
    explicit Name(std::string message, Details details = {}, std::string hint = {}, Code code = Code::ok) \
        : Error(std::move(message), std::move(details), std::move(hint), code) {}                         \
                                                                                                          \
   protected:                                                                                             \
    Name() = default;                                                                                     \
  }

TPUBRIDGE_ERROR(ArgumentError, public virtual Error);  // a caller passed something that cannot be used
TPUBRIDGE_ERROR(FileError, public virtual Error);      // a file is missing, unreadable, unwritable or corrupt
TPUBRIDGE_ERROR(ProgramError, public virtual Error);   // a StableHLO program is wrong: types, shapes, syntax
TPUBRIDGE_ERROR(ConfigurationError, public virtual Error);
TPUBRIDGE_ERROR(DeviceError, public virtual Error);
TPUBRIDGE_ERROR(DeviceNotAvailableError, public virtual DeviceError);
TPUBRIDGE_ERROR(CompilationError, public virtual Error);
TPUBRIDGE_ERROR(OutOfMemoryError, public virtual Error);

TPUBRIDGE_ERROR(BackendError, public virtual Error);
TPUBRIDGE_ERROR(TPUBackendError, public virtual BackendError);
TPUBRIDGE_ERROR(PluginError, public virtual TPUBackendError);  // a plugin cannot be found, loaded or used
TPUBRIDGE_ERROR(UnsupportedError, public virtual TPUBackendError);  // this plugin has no such function
TPUBRIDGE_ERROR(PjrtError, public virtual TPUBackendError);         // any other error that a plugin returned
TPUBRIDGE_ERROR(KernelError, public virtual TPUBackendError);  // an op of the user's own failed in a program
TPUBRIDGE_ERROR(XLACompilationError, public virtual CompilationError, public virtual TPUBackendError);
TPUBRIDGE_ERROR(XLACompilationTimeoutError, public virtual XLACompilationError);
TPUBRIDGE_ERROR(TPUMemoryError, public virtual OutOfMemoryError, public virtual TPUBackendError);
TPUBRIDGE_ERROR(TPUOutOfMemoryError, public virtual TPUMemoryError);
TPUBRIDGE_ERROR(TPUMemoryLimitError, public virtual TPUOutOfMemoryError);  // our own limit, before allocating
TPUBRIDGE_ERROR(TPUDeviceError, public virtual DeviceError, public virtual TPUBackendError);
TPUBRIDGE_ERROR(TPUNotAvailableError, public virtual DeviceNotAvailableError, public virtual TPUBackendError);
TPUBRIDGE_ERROR(TPUConfigurationError, public virtual ConfigurationError, public virtual TPUBackendError);

}  // namespace tpubridge
