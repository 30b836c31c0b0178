#include "tpubridge/capi/handle.h"

#include "tpubridge/base/forked.h"
#include "tpubridge/base/log.h"
#include "tpubridge/capi/call.h"

namespace tpubridge::pjrt {
namespace {

using Api = const PJRT_Api*;

template <class Args, class T>
void destroy_by(Api api, T* raw, PJRT_Error* (*PJRT_Api::*member)(Args*)) noexcept {
  if (in_forked_child()) return;
  try {
    ask(api, raw, member);
  } catch (const std::exception& e) {
    log::warn("pjrt.cleanup_failed", {{"function", std::string(function_name<Args>())}, {"error", e.what()}});
  }
}

}  // namespace

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
