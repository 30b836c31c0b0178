#include "tpubridge/backend/multi_tpu.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <mutex>

#include "tpubridge/backend/apply.h"
#include "tpubridge/backend/config_manager.h"
#include "tpubridge/backend/xla_compat.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/opener.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/mesh/collectives.h"
#include "tpubridge/train/error_handler.h"

namespace tpubridge {
namespace {

struct Process {
  std::mutex mutex;
  std::optional<MultiTPUSetup> setup;
  TPUErrorHandler errors;
};
Process& process() {
  static auto* p = new Process;
  return *p;
}
std::optional<MultiTPUSetup> current() {
  const std::lock_guard lock(process().mutex);
  return process().setup;
}

void check(const MultiTPUConfig& c) {
  const auto refuse = [](const char* name, const std::string& value, const char* reason) {
    throw TPUConfigurationError(
        "Invalid configuration for '" + std::string(name) + "': " + value + " - " + reason,
        {{"parameter", name}});
  };
  if (c.num_cores < 1) refuse("num_cores", std::to_string(c.num_cores), "it must be at least 1");
  if (c.auto_device_map && !c.device_map.empty())
    refuse("device_map", std::to_string(c.device_map.size()) + " devices",
           "auto_device_map must be off for it");
  if (!c.auto_device_map && c.device_map.empty())
    refuse("device_map", "empty", "it is needed where auto_device_map is off");
}

// The devices of one attempt; throws where one is not there.
std::vector<c10::Device> pick(const MultiTPUConfig& c, int64_t cores) {
  std::vector<c10::Device> out;
  const auto there = static_cast<int64_t>(exec::device_count());
  const int64_t offered = c.auto_device_map ? there : static_cast<int64_t>(c.device_map.size());
  if (cores > offered)
    throw distributed_error(
        "setup", std::to_string(cores) + " cores were asked for, and there are " + std::to_string(offered));
  for (int64_t i = 0; i < cores; ++i) {
    const int index = c.auto_device_map ? static_cast<int>(i) : c.device_map[static_cast<size_t>(i)];
    (void)exec::device(index);
    out.emplace_back(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index));
  }
  return out;
}

// Each adds alone, then all of them together: 1 + 2 + … + n.
void test(const std::vector<c10::Device>& devices) {
  for (const auto& d : devices) self_test(d.index());
  if (devices.size() == 1) return;
  std::vector<at::Tensor> in;
  for (size_t i = 0; i < devices.size(); ++i)
    in.push_back(at::full({2}, static_cast<double>(i + 1), at::TensorOptions(devices[i])));
  const double want = static_cast<double>(devices.size() * (devices.size() + 1)) / 2;
  for (const at::Tensor& sum : all_reduce(in))
    if (sum.cpu()[1].item<double>() != want)
      throw distributed_error("setup", "the cores added up wrong on " + sum.device().str());
}

MultiTPUSetup attempt(const MultiTPUConfig& c) {
  MultiTPUSetup out;
  for (int64_t cores = c.num_cores;; cores = cores > 4 ? 4 : cores / 2) try {
      out.devices = pick(c, cores);
      test(out.devices);
      return out;
    } catch (const Error& e) {
      process().errors.handle_tpu_error("setup_multi_tpu", e);
      log::warn("multi_tpu.fewer", {{"cores", std::to_string(cores)}, {"problem", e.what()}});
      out.problems.emplace_back(e.what());
      if (cores == 1) throw distributed_error("setup", std::string("not even one core works: ") + e.what());
    }
}

}  // namespace

MultiTPUSetup setup_multi_tpu(const MultiTPUConfig& config) {
  check(config);
  cleanup_multi_tpu();
  Config wanted = config.config;
  wanted.hardware.tpu.gradient_checkpointing.suggest(config.use_gradient_checkpointing, Origin::mode);
  const Applied applied = apply(wanted);
  if (!applied.runtime.available && !config.allow_simulation)
    throw TPUNotAvailableError(
        "TPU not available: TPU support requires a TPU and its plugin, libtpu",
        {{"plugin", exec::client().plugin().path()}},
        "`tpubridge doctor` says what is missing; allow_simulation takes XLA's CPU plugin.",
        Code::unavailable);
  MultiTPUSetup out = attempt(config);
  out.rank = exec::client().process_index();
  out.simulated = !applied.runtime.available;
  out.config = applied.config;
  const std::lock_guard lock(process().mutex);
  process().setup = out;
  return out;
}

void cleanup_multi_tpu() noexcept {
  try {
    if (current()) xla_compat::wait_device_ops();
  } catch (const std::exception& e) {  // there is nothing left to do about it
    log::warn("multi_tpu.cleanup", {{"problem", e.what()}});
  }
  const std::lock_guard lock(process().mutex);
  process().setup.reset();
  process().errors.reset();
}

TPUErrorHandler& tpu_error_handler() { return process().errors; }

bool is_tpu_available() {
  return exec::client_is_open() ? runtime_of(exec::client()).available : look_for_tpu().available;
}
bool is_tpu_initialized() { return current().has_value(); }
int get_tpu_rank() {
  const auto s = current();
  return s ? s->rank : 0;
}
int get_tpu_world_size() {
  const auto s = current();
  return s ? static_cast<int>(s->devices.size()) : 1;
}
bool is_tpu_main_process() { return get_tpu_rank() == 0; }

std::optional<c10::Device> get_tpu_device() {
  if (const auto s = current()) return s->devices[0];
  if (is_tpu_available()) return c10::Device(c10::DeviceType::PrivateUse1, 0);
  return std::nullopt;
}

bool synchronize_tpu() {
  if (!get_tpu_device()) return false;
  try {
    xla_compat::wait_device_ops();
    return true;
  } catch (const Error& e) {
    process().errors.handle_tpu_error("synchronize_tpu", e);
    return false;
  }
}

bool optimize_tpu_memory() {
  if (!synchronize_tpu()) return false;
  const exec::Lock lock(exec::mutex());
  exec::set_cache_capacity(exec::set_cache_capacity(0));
  return true;
}

}  // namespace tpubridge
