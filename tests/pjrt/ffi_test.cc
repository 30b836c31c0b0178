// FFI handlers of ours, called by the plugin.
#include <gtest/gtest.h>

#include "tests/pjrt/cpu.h"
#include "tpubridge/base/errors.h"

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

}  // namespace
}  // namespace tpubridge::pjrt
