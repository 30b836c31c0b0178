#include "tpubridge/capi/key_value.h"

#include <gtest/gtest.h>

#include <map>

#include "pjrt_c_api.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::pjrt {
namespace {

class MapStore : public KeyValueStore {
 public:
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    if (const auto v = try_get(key)) return *v;
    throw TPUDeviceError("no " + key + " after " + std::to_string(timeout.count()) + " ms", {}, {},
                         Code::deadline_exceeded);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    const auto found = values.find(key);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  }
  void put(const std::string& key, const std::string& value) override { values[key] = value; }
  std::map<std::string, std::string> values;
};

// What a plugin makes of a callback's error, kept for the test to look at.
struct SeenError {
  PJRT_Error_Code code;
  std::string text;
} seen;
PJRT_Error* see(PJRT_Error_Code code, const char* message, size_t size) {
  seen = {code, std::string(message, size)};
  return reinterpret_cast<PJRT_Error*>(&seen);
}

TEST(KeyValue, CallbacksReachTheStore) {
  MapStore store;
  PJRT_Client_Create_Args client{};
  attach(store, client);
  PJRT_CallbackError on_error = &see;

  const std::string binary("a\0b", 3);
  PJRT_KeyValuePutCallback_Args put{sizeof put,    nullptr, "key",     3,
                                    binary.data(), 3,       &on_error, client.kv_put_user_arg};
  EXPECT_EQ(client.kv_put_callback(&put), nullptr);
  EXPECT_EQ(store.values.at("key"), binary);

  PJRT_KeyValueGetCallback_Args get{sizeof get, nullptr, "key",  3, 50, &on_error, client.kv_get_user_arg,
                                    nullptr,    0,       nullptr};
  ASSERT_EQ(client.kv_get_callback(&get), nullptr);
  EXPECT_EQ(std::string(get.value, get.value_size), binary);
  get.value_deleter_callback(get.value);

  get.key = "gone";
  get.key_size = 4;
  EXPECT_NE(client.kv_get_callback(&get), nullptr);
  EXPECT_EQ(seen.code, PJRT_Error_Code_DEADLINE_EXCEEDED);
  EXPECT_EQ(seen.text, "no gone after 50 ms");

  PJRT_KeyValueTryGetCallback_Args try_get{
      sizeof try_get, nullptr, "gone", 4, &on_error, client.kv_try_get_user_arg, nullptr, 0, nullptr};
  EXPECT_NE(client.kv_try_get_callback(&try_get), nullptr);
  EXPECT_EQ(seen.code, PJRT_Error_Code_NOT_FOUND);
}

TEST(KeyValue, AClientCanBeCreatedWithAStore) {
  const auto client = Client::create(Plugin::load(CPU_PLUGIN), {{"cpu_device_count", int64_t{1}}},
                                     std::make_shared<MapStore>());
  EXPECT_EQ(client->devices().size(), 1u);
}

}  // namespace
}  // namespace tpubridge::pjrt
