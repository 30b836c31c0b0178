// Which exception a plugin's error becomes.
#include <gtest/gtest.h>

#include "tpubridge/capi/call.h"

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string message;
};

namespace tpubridge::pjrt {
namespace {

// The type of the exception, and whether the error was freed.
std::string type_of(PJRT_Error_Code code, const std::string& message,
                    std::string_view where = "PJRT_LoadedExecutable_Execute") {
  static int freed;
  freed = 0;
  PJRT_Api api{};
  api.struct_size = sizeof api;
  api.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    args->message = args->error->message.data();
    args->message_size = args->error->message.size();
  };
  api.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = args->error->code;
    return nullptr;
  };
  api.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) {
    delete args->error;
    ++freed;
  };
  try {
    std::rethrow_exception(to_exception(&api, new PJRT_Error{code, message}, where));
  } catch (const Error& e) {
    EXPECT_EQ(freed, 1);
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(code));
    EXPECT_NE(std::string(e.what()).find(message), std::string::npos);
    return std::string(e.type_name());
  }
}

TEST(Errors, ByTheirCode) {
  EXPECT_EQ(type_of(PJRT_Error_Code_RESOURCE_EXHAUSTED, "full"), "TPUOutOfMemoryError");
  EXPECT_EQ(type_of(PJRT_Error_Code_UNAVAILABLE, "gone"), "TPUDeviceError");
  EXPECT_EQ(type_of(PJRT_Error_Code_UNIMPLEMENTED, "no such thing"), "UnsupportedError");
  EXPECT_EQ(type_of(PJRT_Error_Code_INTERNAL, "bad", "PJRT_Client_Compile"), "XLACompilationError");
  EXPECT_EQ(type_of(PJRT_Error_Code_UNAVAILABLE, "in use", "PJRT_Client_Create"), "TPUNotAvailableError");
  EXPECT_EQ(type_of(PJRT_Error_Code_INTERNAL, "something else"), "PjrtError");
}

// As libtpu and XLA's CUDA plugin print them.
TEST(Errors, ALostDeviceThatAnswersInternal) {
  for (const char* message : {
           "Core halted unexpectedly: INTERNAL: Accelerator device halted prematurely, perhaps due to an "
           "on-device check-failure. Node 0 halted unexpectedly at tag:pc TensorCoreSequencer:887:0x6f1",
           "Failed to launch CUDA kernel: fusion_1 with block dimensions: 160x1x1: "
           "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
           "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
       })
    EXPECT_EQ(type_of(PJRT_Error_Code_INTERNAL, message), "TPUDeviceError") << message;
  EXPECT_EQ(type_of(PJRT_Error_Code_INTERNAL, "CUDA_ERROR_INVALID_VALUE: invalid argument"), "PjrtError");
}

}  // namespace
}  // namespace tpubridge::pjrt
