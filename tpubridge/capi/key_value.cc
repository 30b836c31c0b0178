#include "tpubridge/capi/key_value.h"

#include <cstring>
#include <memory>

#include "pjrt_c_api.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::pjrt {
namespace {

// Exceptions must not cross the C interface: they become PJRT errors.
template <class Args, class Body>
PJRT_Error* guarded(Args* args, Body body) {
  const auto fail = [&](PJRT_Error_Code code, const std::string& text) {
    return (*args->callback_error)(code, text.data(), text.size());
  };
  try {
    return body() ? nullptr
                  : fail(PJRT_Error_Code_NOT_FOUND, "no such key: " + std::string(args->key, args->key_size));
  } catch (const Error& e) {
    return fail(e.code() == Code::ok ? PJRT_Error_Code_INTERNAL : static_cast<PJRT_Error_Code>(e.code()),
                e.what());
  } catch (const std::exception& e) {
    return fail(PJRT_Error_Code_INTERNAL, e.what());
  }
}

template <class Args>
void give(Args* args, const std::string& value) {
  auto copy = std::make_unique<char[]>(value.size());
  std::memcpy(copy.get(), value.data(), value.size());
  args->value = copy.release();
  args->value_size = value.size();
  args->value_deleter_callback = [](char* v) { delete[] v; };
}

}  // namespace

void attach(KeyValueStore& store, PJRT_Client_Create_Args& args) {
  args.kv_get_user_arg = args.kv_put_user_arg = args.kv_try_get_user_arg = &store;
  args.kv_get_callback = [](PJRT_KeyValueGetCallback_Args* a) {
    return guarded(a, [a] {
      give(a, static_cast<KeyValueStore*>(a->user_arg)
                  ->get({a->key, a->key_size}, std::chrono::milliseconds(a->timeout_in_ms)));
      return true;
    });
  };
  args.kv_try_get_callback = [](PJRT_KeyValueTryGetCallback_Args* a) {
    return guarded(a, [a] {
      const auto value = static_cast<KeyValueStore*>(a->user_arg)->try_get({a->key, a->key_size});
      if (value) give(a, *value);
      return value.has_value();
    });
  };
  args.kv_put_callback = [](PJRT_KeyValuePutCallback_Args* a) {
    return guarded(a, [a] {
      static_cast<KeyValueStore*>(a->user_arg)->put({a->key, a->key_size}, {a->value, a->value_size});
      return true;
    });
  };
}

}  // namespace tpubridge::pjrt
