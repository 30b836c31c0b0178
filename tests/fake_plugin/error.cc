// Errors: ours alone; those of the plugin below are copied into one of these.
#include "client_make.h"
#include "entry.h"
#include "state.h"

namespace fake {
namespace {

struct Error : Object {
  using Handle = PJRT_Error;
  static constexpr Kind kKind = Kind::error;
  Failure failure;
};

void get_code(PJRT_Error_GetCode_Args& a) { a.code = get<Error>(a.error)->failure.code; }

// These two cannot answer with an error: a misuse is only recorded.
void destroy(PJRT_Error_Destroy_Args* a) {
  count_call(Fn::PJRT_Error_Destroy);
  current_function = name(Fn::PJRT_Error_Destroy);
  if (a && a->error) take_quietly<Error>(a->error);
}

void message(PJRT_Error_Message_Args* a) {
  count_call(Fn::PJRT_Error_Message);
  current_function = name(Fn::PJRT_Error_Message);
  if (!a) return;
  a->message = "";
  a->message_size = 0;
  try {
    const auto error = get<Error>(a->error);
    a->message = error->failure.message.c_str();
    a->message_size = error->failure.message.size();
  } catch (const Failure&) {  // recorded by get
  }
}

}  // namespace

PJRT_Error* make_error(const Failure& failure) {
  auto error = std::make_shared<Error>();
  error->failure = failure;
  return add(std::move(error));
}

PJRT_Error* make_error(PJRT_Error_Code code, std::string message) {
  return make_error(Failure{code, std::move(message)});
}

Failure take_failure(PJRT_Error* ours) { return take<Error>(ours)->failure; }

PJRT_Error* guarded(Fn function, size_t got, size_t want, const std::function<void()>& body) {
  count_call(function);
  const char* const before = std::exchange(current_function, name(function));
  PJRT_Error* error = nullptr;
  try {
    if (!got) registry::misuse("no arguments, or struct_size 0");
    want += args_growth(name(function));
    if (got < want)
      throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, "Unexpected " + std::string(name(function)) +
                                                          "_Args size: expected " + std::to_string(want) +
                                                          ", got " + std::to_string(got) +
                                                          ". Check installed software versions."};
    if (const auto rule = due("call_error", name(function)))
      throw failure(*rule, PJRT_Error_Code_INTERNAL, std::string(name(function)) + " fails on demand");
    body();
  } catch (const Failure& failure) {
    error = make_error(failure);
  } catch (const std::exception& e) {
    error = make_error(PJRT_Error_Code_INTERNAL, e.what());
  }
  current_function = before;
  return error;
}

void install_errors(PJRT_Api& api) {
  api.PJRT_Error_Destroy = &destroy;
  api.PJRT_Error_Message = &message;
  FAKE_SET(PJRT_Error_GetCode, get_code);
}

}  // namespace fake
