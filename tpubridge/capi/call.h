// How the PJRT C API is called: one template for every function. Internal: public headers only
// forward-declare the C types.
#pragma once

#include <exception>
#include <string_view>

#include "pjrt_c_api.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/capi/handle.h"

namespace tpubridge::pjrt {

// A PJRT error becomes an exception of base/errors.h and is destroyed. `where` is the C function.
[[nodiscard]] std::exception_ptr to_exception(const PJRT_Api* api, PJRT_Error* error, std::string_view where);
[[noreturn]] void throw_missing(const PJRT_Api* api, std::string_view function);

// The function's name, read off the type of its arguments: PJRT_Client_Create_Args -> PJRT_Client_Create.
template <class Args>
constexpr std::string_view function_name() {
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  constexpr size_t start = text.find("PJRT_");
  constexpr size_t end = text.find("_Args", start);
  return text.substr(start, end - start);
}

// Whether the plugin has a function: its table may be shorter than our header's, or hold a null.
template <class Fn>
bool has(const PJRT_Api* api, Fn* PJRT_Api::*member) {
  const auto* slot = reinterpret_cast<const char*>(&(api->*member));
  const auto end = static_cast<size_t>(slot - reinterpret_cast<const char*>(api)) + sizeof(void*);
  return end <= api->struct_size && api->*member != nullptr;
}

// Calls a function and returns its error, for the caller to look at.
template <class Args>
[[nodiscard]] PJRT_Error* try_call(const PJRT_Api* api, PJRT_Error* (*PJRT_Api::*member)(Args*), Args& args) {
  if (!has(api, member)) [[unlikely]]
    throw_missing(api, function_name<Args>());
  args.struct_size = sizeof(Args);
  return (api->*member)(&args);
}

// Calls a function and throws its error.
template <class Args>
void call(const PJRT_Api* api, PJRT_Error* (*PJRT_Api::*member)(Args*), Args& args) {
  if (PJRT_Error* error = try_call(api, member, args)) [[unlikely]]
    std::rethrow_exception(to_exception(api, error, function_name<Args>()));
}

// Asks an object a question: in the arguments of every such function the object stands third.
template <class Args, class T>
Args ask(const PJRT_Api* api, T* object, PJRT_Error* (*PJRT_Api::*member)(Args*)) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
  Args args{sizeof(Args), nullptr, object};
#pragma GCC diagnostic pop
  call(api, member, args);
  return args;
}
template <class Args, class T>
Args ask(const Handle<T>& object, PJRT_Error* (*PJRT_Api::*member)(Args*)) {
  return ask(object.api(), object.get(), member);
}

}  // namespace tpubridge::pjrt
