#include "tpubridge/backend/cpu_backend.h"

#include <sys/resource.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <unistd.h>

#include <fstream>

#include "tpubridge/base/errors.h"

namespace tpubridge {

DeviceInfo CPUBackend::get_device_info(int id) const {
  DeviceInfo out;
  out.backend = name();
  out.device_type = "cpu";
  out.device_id = id;
  out.device_name = "CPU";
  out.is_available = id == 0;
  out.total_memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return out;
}

void CPUBackend::set_device(int id) {
  if (id != 0)
    throw BackendError("Device " + std::to_string(id) + " not available. Available devices: 0-0",
                       {{"device_id", std::to_string(id)}}, "", Code::out_of_range);
}

torch::jit::Module CPUBackend::prepare_model(torch::jit::Module model, std::optional<OptimizationLevel>) {
  model.to(device_);
  return model;
}

void CPUBackend::prepare(const std::shared_ptr<torch::nn::Module>& model, std::optional<OptimizationLevel>) {
  if (!model) throw ArgumentError("prepare_model was given no model");
  model->to(device_);
}

// Of the whole process: libtorch keeps no account of its tensors on the CPU.
MemoryStats CPUBackend::get_memory_stats() const {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  MemoryStats out;
  out.device = device_.str();
  out.device_count = 1;
  out.total_memory = get_device_info(0).total_memory_bytes;
  out.peak_memory = int64_t{used.ru_maxrss} * 1024;
  std::ifstream pages("/proc/self/statm");
  int64_t all = 0, resident = 0;
  if (pages >> all >> resident) out.allocated_memory = resident * sysconf(_SC_PAGE_SIZE);
  out.available_memory = int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return out;
}

}  // namespace tpubridge
