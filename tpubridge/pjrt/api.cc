#include "tpubridge/pjrt/api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cctype>

#include "tpubridge/base/log.h"
#include "tpubridge/pjrt/handle.h"

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

std::string hint_for(Code code, bool compiling) {
  switch (code) {
    case Code::resource_exhausted:
      return "Use a smaller batch, lower precision or more devices, or free tensors first";
    case Code::unsupported:
      return "This plugin cannot do it; `tpubridge doctor` lists what it can";
    case Code::unavailable:
    case Code::aborted:
      return "The device may be lost: create a new client and restore from a checkpoint";
    case Code::invalid_argument:
      return compiling ? "Check the program's types and the compile options" : "";
    default:
      return {};
  }
}

constexpr std::array kTypes = {
    std::pair{PJRT_Buffer_Type_PRED, DType::pred},
    std::pair{PJRT_Buffer_Type_S2, DType::s2},
    std::pair{PJRT_Buffer_Type_S4, DType::s4},
    std::pair{PJRT_Buffer_Type_S8, DType::s8},
    std::pair{PJRT_Buffer_Type_S16, DType::s16},
    std::pair{PJRT_Buffer_Type_S32, DType::s32},
    std::pair{PJRT_Buffer_Type_S64, DType::s64},
    std::pair{PJRT_Buffer_Type_U2, DType::u2},
    std::pair{PJRT_Buffer_Type_U4, DType::u4},
    std::pair{PJRT_Buffer_Type_U8, DType::u8},
    std::pair{PJRT_Buffer_Type_U16, DType::u16},
    std::pair{PJRT_Buffer_Type_U32, DType::u32},
    std::pair{PJRT_Buffer_Type_U64, DType::u64},
    std::pair{PJRT_Buffer_Type_F4E2M1FN, DType::f4e2m1fn},
    std::pair{PJRT_Buffer_Type_F8E3M4, DType::f8e3m4},
    std::pair{PJRT_Buffer_Type_F8E4M3, DType::f8e4m3},
    std::pair{PJRT_Buffer_Type_F8E4M3FN, DType::f8e4m3fn},
    std::pair{PJRT_Buffer_Type_F8E4M3B11FNUZ, DType::f8e4m3b11fnuz},
    std::pair{PJRT_Buffer_Type_F8E4M3FNUZ, DType::f8e4m3fnuz},
    std::pair{PJRT_Buffer_Type_F8E5M2, DType::f8e5m2},
    std::pair{PJRT_Buffer_Type_F8E5M2FNUZ, DType::f8e5m2fnuz},
    std::pair{PJRT_Buffer_Type_F8E8M0FNU, DType::f8e8m0fnu},
    std::pair{PJRT_Buffer_Type_BF16, DType::bf16},
    std::pair{PJRT_Buffer_Type_F16, DType::f16},
    std::pair{PJRT_Buffer_Type_F32, DType::f32},
    std::pair{PJRT_Buffer_Type_F64, DType::f64},
    std::pair{PJRT_Buffer_Type_C64, DType::c64},
    std::pair{PJRT_Buffer_Type_C128, DType::c128},
    std::pair{PJRT_Buffer_Type_TOKEN, DType::token},
};

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
  return std::make_exception_ptr(PjrtError(message, std::move(details), std::move(hint), code));
}

void throw_missing(const PJRT_Api* api, std::string_view function) {
  throw UnsupportedError(fmt::format("this plugin has no {}", function),
                         {{"plugin_api", fmt::format("{}.{}", api->pjrt_api_version.major_version,
                                                     api->pjrt_api_version.minor_version)},
                          {"built_against", fmt::format("{}.{}", PJRT_API_MAJOR, PJRT_API_MINOR)}},
                         "Use a newer plugin", Code::unsupported);
}

PJRT_Buffer_Type to_pjrt(DType t) {
  for (const auto& [theirs, ours] : kTypes)
    if (ours == t) return theirs;
  return PJRT_Buffer_Type_INVALID;
}

PJRT_Program to_pjrt(const Program& program) {
  auto* const code = const_cast<char*>(program.code.data());  // the C API has one struct for in and out
  return {sizeof(PJRT_Program), nullptr, code, program.code.size(), program.format.data(),
          program.format.size()};
}

DType from_pjrt(PJRT_Buffer_Type t) {
  for (const auto& [theirs, ours] : kTypes)
    if (theirs == t) return ours;
  throw UnsupportedError(
      fmt::format("the plugin uses element type number {}, which this version does not know",
                  static_cast<int>(t)),
      {}, "Update tpubridge", Code::unsupported);
}

Values from_named(const PJRT_NamedValue* values, size_t n) {
  Values out;
  for (size_t i = 0; i < n; ++i) {
    const auto& v = values[i];
    Value& to = out[std::string(v.name, v.name_size)];
    switch (v.type) {
      case PJRT_NamedValue_kString:
        to = std::string(v.string_value, v.value_size);
        break;
      case PJRT_NamedValue_kInt64:
        to = v.int64_value;
        break;
      case PJRT_NamedValue_kInt64List:
        to = std::vector<int64_t>(v.int64_array_value, v.int64_array_value + v.value_size);
        break;
      case PJRT_NamedValue_kFloat:
        to = v.float_value;
        break;
      case PJRT_NamedValue_kBool:
        to = v.bool_value;
        break;
    }
  }
  return out;
}

std::vector<PJRT_NamedValue> to_named(const Values& values) {
  std::vector<PJRT_NamedValue> out;
  for (const auto& [name, value] : values) {
    auto& v = out.emplace_back();
    v = {};
    v.struct_size = sizeof v;
    v.name = name.data();
    v.name_size = name.size();
    v.type = static_cast<PJRT_NamedValue_Type>(value.index());  // the variant has the order of the C enum
    v.value_size = 1;
    switch (value.index()) {
      case 0:
        v.string_value = std::get<0>(value).data(), v.value_size = std::get<0>(value).size();
        break;
      case 1:
        v.int64_value = std::get<1>(value);
        break;
      case 2:
        v.int64_array_value = std::get<2>(value).data(), v.value_size = std::get<2>(value).size();
        break;
      case 3:
        v.float_value = std::get<3>(value);
        break;
      default:
        v.bool_value = std::get<4>(value);
    }
  }
  return out;
}

std::string to_string(const Value& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

template <class Args, class T>
void destroy_by(const PJRT_Api* api, T* raw, PJRT_Error* (*PJRT_Api::*member)(Args*)) noexcept {
  try {
    ask(api, raw, member);
  } catch (const std::exception& e) {
    log::warn("pjrt.cleanup_failed", {{"function", std::string(function_name<Args>())}, {"error", e.what()}});
  }
}

using Api = const PJRT_Api*;
void destroy(Api api, PJRT_Buffer* raw) noexcept { destroy_by(api, raw, &PJRT_Api::PJRT_Buffer_Destroy); }
void destroy(Api api, PJRT_Client* raw) noexcept { destroy_by(api, raw, &PJRT_Api::PJRT_Client_Destroy); }
void destroy(Api api, PJRT_Event* raw) noexcept { destroy_by(api, raw, &PJRT_Api::PJRT_Event_Destroy); }
void destroy(Api api, PJRT_Executable* raw) noexcept {
  destroy_by(api, raw, &PJRT_Api::PJRT_Executable_Destroy);
}
void destroy(Api api, PJRT_LoadedExecutable* raw) noexcept {
  destroy_by(api, raw, &PJRT_Api::PJRT_LoadedExecutable_Destroy);
}
void destroy(Api api, PJRT_TopologyDescription* raw) noexcept {
  destroy_by(api, raw, &PJRT_Api::PJRT_TopologyDescription_Destroy);
}

}  // namespace tpubridge::pjrt
