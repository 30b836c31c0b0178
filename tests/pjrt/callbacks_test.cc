// What the plugin calls: FFI handlers of ours, and the key-value store that many processes share.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/pjrt/cpu.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/pjrt/key_value.h"

namespace tpubridge::pjrt {
namespace {

// The parts of XLA's FFI that a handler over f32 arrays needs; the layouts are those of its C header.
struct FfiExtensionBase {
  size_t struct_size;
  int type;  // 1: a question about the handler, not a call
  FfiExtensionBase* next;
};
struct FfiMetadata {
  size_t struct_size;
  struct {
    size_t struct_size;
    void* extension_start;
    int major, minor;
  } api_version;
  uint32_t traits;
};
struct FfiMetadataExtension {
  FfiExtensionBase base;
  FfiMetadata* metadata;
};
struct FfiBuffer {
  size_t struct_size;
  void* extension_start;
  int dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};
struct FfiValues {
  size_t struct_size;
  void* extension_start;
  int64_t size;
  void* types;
  void** values;
};
struct FfiCallFrame {
  size_t struct_size;
  FfiExtensionBase* extension_start;
  const void* api;
  void* context;
  int stage;
  FfiValues args, rets;
};

void* triple(FfiCallFrame* frame) {
  if (frame->extension_start && frame->extension_start->type == 1) {
    auto* metadata = reinterpret_cast<FfiMetadataExtension*>(frame->extension_start)->metadata;
    metadata->api_version.major = 0;
    metadata->api_version.minor = 1;
    return nullptr;
  }
  const auto* in = static_cast<FfiBuffer*>(frame->args.values[0]);
  auto* out = static_cast<FfiBuffer*>(frame->rets.values[0]);
  for (int64_t i = 0; i < in->dims[0]; ++i)
    static_cast<float*>(out->data)[i] = 3 * static_cast<const float*>(in->data)[i];
  return nullptr;
}

TEST(Ffi, HandlerOfOursRunsInsideAProgram) {
  cpu()->plugin().register_ffi_handler("tpubridge_test_triple", reinterpret_cast<void*>(&triple), "Host");
  const auto program = cpu()->compile({R"(func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.custom_call @tpubridge_test_triple(%a) {api_version = 4 : i32, backend_config = {}} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.add %0, %a : tensor<3xf32>
  return %1 : tensor<3xf32> })"});
  const Buffer a = cpu()->to_device(std::vector<float>{1, 2, 3}, {DType::f32, {3}}, *program.devices()[0]);
  const Buffer* args[] = {&a};
  EXPECT_EQ(program.execute(args)[0].to_vector<float>(), (std::vector<float>{4, 8, 12}));
}
TEST(Ffi, NullHandlerIsRefused) {
  EXPECT_THROW(cpu()->plugin().register_ffi_handler("nothing", nullptr, "Host"), ArgumentError);
}
TEST(Ffi, UnknownCustomCallIsACompileError) {
  EXPECT_THROW(static_cast<void>(cpu()->compile({R"(func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.custom_call @no_such_call(%a) {api_version = 4 : i32, backend_config = {}} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32> })"})),
               XLACompilationError);
}

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
