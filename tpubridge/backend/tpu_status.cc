// What stands: memory and status as the reference's two modules tell them.
#include <nlohmann/json.hpp>

#include "tpubridge/backend/config_manager.h"
#include "tpubridge/backend/multi_tpu.h"
#include "tpubridge/step/compile.h"
#include "tpubridge/train/error_handler.h"

namespace tpubridge {
namespace {

using Json = nlohmann::ordered_json;

Json memory_json(const TPUMemoryInfo& m) { return Json::parse(m.to_json()); }

Json text_or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(); }

}  // namespace

TPUMemoryInfo get_tpu_memory_info() {
  const auto device = get_tpu_device();
  if (!device) return {.error = "TPU not available"};
  return memory_info(*device);
}

TPUStatus get_tpu_status() {
  TPUStatus out;
  try {
    const auto device = get_tpu_device();
    out.available = is_tpu_available();
    if (!device) {
      out.error = "TPU not available: no TPU and no set-up of simulated devices";
      return out;
    }
    out.initialized = is_tpu_initialized();
    out.device = device->str();
    out.memory_info = get_tpu_memory_info();
    out.error_count = tpu_error_handler().error_count();
    out.rank = get_tpu_rank();
    out.world_size = get_tpu_world_size();
    out.is_main_process = is_tpu_main_process();
    out.compiled_functions = static_cast<int64_t>(compiled_steps().size());
  } catch (const Error& e) {
    out.error = std::string("Status check failed: ") + e.what();
  }
  return out;
}

std::string TPUStatus::to_json() const {
  if (!error.empty()) return Json{{"available", available}, {"error", error}}.dump(2);
  return Json{{"available", available},
              {"initialized", initialized},
              {"device", text_or_null(device)},
              {"memory_info", memory_json(memory_info)},
              {"error_count", error_count},
              {"rank", rank},
              {"world_size", world_size},
              {"is_main_process", is_main_process},
              {"compiled_functions", compiled_functions}}
      .dump(2);
}

std::string TPUStatus::to_kernel_json() const {
  return Json{{"available", available},
              {"initialized", initialized},
              {"memory_info", error.empty() ? memory_json(memory_info) : Json{{"error", error}}},
              {"error_count", error_count},
              {"xla_device", text_or_null(device)}}
      .dump(2);
}

bool initialize_tpu_kernels() { return TPUConfigManager().initialize_tpu_environment(); }

}  // namespace tpubridge
