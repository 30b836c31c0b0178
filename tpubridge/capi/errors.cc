// What went wrong in a plugin, as a typed exception.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/capi/call.h"

namespace tpubridge::pjrt {
namespace {

// XLA puts a code of its own in front of some messages: "E1000: CompileTimeHbmOom: …".
std::string xla_code(std::string_view message) {
  for (size_t i = message.find('E'); i != message.npos; i = message.find('E', i + 1)) {
    if (i > 0 && std::isalnum(static_cast<unsigned char>(message[i - 1]))) continue;
    size_t end = i + 1;
    while (end < message.size() && std::isdigit(static_cast<unsigned char>(message[end]))) ++end;
    if (end - i == 5 && end < message.size() && message[end] == ':') return std::string(message.substr(i, 5));
  }
  return {};
}

constexpr const char* kLost =
    "The device may be lost: open it again (reopen_device(), or another Client; for a GPU, in a new process) "
    "and restore from a checkpoint";

// A lost device often answers INTERNAL; then its words tell it: libtpu's for a core that stopped, and the
// CUDA errors after which nothing in the process can use the device any more.
bool says_device_lost(std::string_view message) {
  constexpr std::string_view kWords[] = {"Core halted unexpectedly",       "device halted prematurely",
                                         "CUDA_ERROR_ILLEGAL_ADDRESS",     "CUDA_ERROR_LAUNCH_FAILED",
                                         "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_MISALIGNED_ADDRESS",
                                         "CUDA_ERROR_ECC_UNCORRECTABLE",   "CUDA_ERROR_HARDWARE_STACK_ERROR"};
  return std::ranges::any_of(kWords, [&](auto words) { return message.find(words) != message.npos; });
}

// An op of the user's own says which it is (pjrt/ffi.cc); XLA puts words of its own around that.
std::exception_ptr kernel_error(std::string_view message) {
  constexpr std::string_view kBegin = "[tpubridge op ", kEnd = "]";
  const auto begin = message.find(kBegin);
  if (begin == message.npos) return nullptr;
  const auto name = message.substr(begin + kBegin.size());
  const auto end = name.find(kEnd);
  if (end == name.npos) return nullptr;
  const std::string op(name.substr(0, end));
  std::string_view why = name.substr(end + 1);
  why.remove_prefix(std::min(why.find_first_not_of(' '), why.size()));
  if (op.starts_with("tpubridge_process::"))  // a collective of distributed/: it says all in its own words
    return std::make_exception_ptr(TPUDistributedError(
        std::string(why), {},
        "What the step was to overwrite is as it was: save it. Start the job again from there.",
        Code::unavailable));
  return std::make_exception_ptr(
      KernelError(fmt::format("{} failed: {}", op, why), {{"op", op}},
                  "Nothing was changed: mend what it complains of, and call again.", Code::internal));
}

std::string hint_for(Code code, bool compiling) {
  switch (code) {
    case Code::resource_exhausted:
      return "Use a smaller batch, lower precision or more devices, or free tensors first";
    case Code::unsupported:
      return "This plugin cannot do it; `tpubridge doctor` lists what it can";
    case Code::unavailable:
    case Code::aborted:
      return kLost;
    case Code::invalid_argument:
      return compiling ? "Check the program's types and the compile options" : "";
    default:
      return {};
  }
}

}  // namespace

std::exception_ptr to_exception(const PJRT_Api* api, PJRT_Error* error, std::string_view where) {
  PJRT_Error_Message_Args text{};
  text.struct_size = sizeof text;
  text.error = error;
  api->PJRT_Error_Message(&text);
  const std::string message(text.message, text.message_size);
  PJRT_Error_GetCode_Args number{};
  number.struct_size = sizeof number;
  number.error = error;
  PJRT_Error* nested = api->PJRT_Error_GetCode(&number);
  PJRT_Error_Destroy_Args destroy{};
  destroy.struct_size = sizeof destroy;
  for (PJRT_Error* e : {error, nested}) {
    destroy.error = e;
    if (e) api->PJRT_Error_Destroy(&destroy);
  }

  if (auto of_user = kernel_error(message)) return of_user;
  const auto code = nested ? Code::unknown : static_cast<Code>(number.code);
  const bool compiling = where == "PJRT_Client_Compile" || where == "PJRT_Compile";
  Details details = {{"code", std::string(to_string(code))}, {"function", std::string(where)}};
  if (auto e = xla_code(message); !e.empty()) details.emplace_back("xla_code", std::move(e));
  std::string hint = hint_for(code, compiling);
  if (code == Code::resource_exhausted || message.find("Ran out of memory") != message.npos)
    return std::make_exception_ptr(TPUOutOfMemoryError("Out of TPU memory: " + message, std::move(details),
                                                       hint_for(Code::resource_exhausted, compiling), code));
  if (compiling)
    return std::make_exception_ptr(
        XLACompilationError("XLA compilation failed: " + message, std::move(details), std::move(hint), code));
  if (code == Code::unsupported)
    return std::make_exception_ptr(UnsupportedError(message, std::move(details), std::move(hint), code));
  if (where == "PJRT_Client_Create" && (code == Code::unavailable || code == Code::aborted))
    return std::make_exception_ptr(
        TPUNotAvailableError(message, std::move(details),
                             "If another process holds the TPU, end it (`tpubridge doctor` names it)", code));
  if (code == Code::unavailable || code == Code::aborted || code == Code::data_loss)
    return std::make_exception_ptr(TPUDeviceError(message, std::move(details), std::move(hint), code));
  if (code == Code::internal && says_device_lost(message))
    return std::make_exception_ptr(TPUDeviceError(message, std::move(details), kLost, code));
  return std::make_exception_ptr(PjrtError(message, std::move(details), std::move(hint), code));
}

void throw_missing(const PJRT_Api* api, std::string_view function) {
  throw UnsupportedError(fmt::format("this plugin has no {}", function),
                         {{"plugin_api", fmt::format("{}.{}", api->pjrt_api_version.major_version,
                                                     api->pjrt_api_version.minor_version)},
                          {"built_against", fmt::format("{}.{}", PJRT_API_MAJOR, PJRT_API_MINOR)}},
                         "Use a newer plugin", Code::unsupported);
}

}  // namespace tpubridge::pjrt
