// The device itself: what it is, waiting for it, its memory.
#include "tpubridge/backend/tpu_backend.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

#include "tpubridge/aot/generations.h"
#include "tpubridge/backend/prepared.h"
#include "tpubridge/backend/xla_compat.h"
#include "tpubridge/device/api.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge {
namespace {

void say_that_there_is_none(const TPURuntime& runtime) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  log::warn("backend.no_tpu",
            {{"what", "no TPU is available: programs run on a simulated one, XLA's CPU plugin"},
             {"problem", runtime.problem}});
}

Config around(const TPUConfig& tpu) {
  Config out;
  out.hardware.tpu = tpu;
  return out;
}

DeviceInfo describe(const Applied& applied, const pjrt::Device& device, int id, int world_size, int rank) {
  const TPUConfig& tpu = applied.config.hardware.tpu;
  const std::string version(to_string(tpu.version.value()));
  DeviceInfo out;
  out.backend = TPUBackend::kName;
  out.device_type = "tpu:" + std::to_string(id);
  out.device_id = id;
  out.is_available = applied.runtime.available;
  out.device_name = "TPU " + version + (out.is_available ? "" : " (simulated)");
  out.compute_capability = version;
  // The limit is the fraction of it that may be used.
  out.total_memory_bytes = memory_budget({.version = tpu.version.value(),
                                          .memory_fraction = 1.0,
                                          .v6e_memory_gb = tpu.v6e_memory_gb.value(),
                                          .v7_memory_gb = tpu.v7_memory_gb.value()},
                                         applied.runtime);
  out.driver_version = exec::client().platform_version();
  out.properties = {{"version", version},
                    {"topology", std::string(to_string(tpu.topology.value()))},
                    {"world_size", std::to_string(world_size)},
                    {"rank", std::to_string(rank)},
                    {"device_kind", device.info().kind}};
  return out;
}

}  // namespace

TPUBackend::TPUBackend(const TPUConfig& config, bool require_tpu) : TPUBackend(around(config), require_tpu) {}

TPUBackend::TPUBackend(const Config& config, bool require_tpu)
    : BaseBackend(c10::Device(c10::DeviceType::PrivateUse1, 0)), applied_(apply(config)) {
  if (!applied_.runtime.available) {
    if (require_tpu || applied_.config.hardware.tpu.enable_strict_validation)
      throw TPUNotAvailableError(
          "TPU not available: the device here is a simulation, XLA's " + exec::client().platform_name() +
              " plugin",
          {{"plugin", exec::client().plugin().path()}},
          require_tpu ? "`tpubridge doctor` says what is missing; without require_tpu the simulation is used."
                      : "`tpubridge doctor` says what is missing; without enable_strict_validation the "
                        "simulation is used.",
          Code::unavailable);
    say_that_there_is_none(applied_.runtime);
  }
  const pjrt::Client& client = exec::client();
  world_size_ = static_cast<int>(client.devices().size());
  rank_ = client.process_index();
  for (int i = 0; i < exec::device_count(); ++i)
    devices_.push_back(describe(applied_, exec::device(i), i, world_size_, rank_));
  prepared_ =
      std::make_unique<Prepared>(static_cast<size_t>(applied_.config.hardware.tpu.cache_max_size.value()));
}

TPUBackend::~TPUBackend() = default;

std::string TPUBackend::repr() const {
  const TPUConfig& tpu = applied_.config.hardware.tpu;
  return "TPUBackend(device=" + device_.str() + ", version=" + std::string(to_string(tpu.version.value())) +
         ", topology=" + std::string(to_string(tpu.topology.value())) +
         ", world_size=" + std::to_string(world_size_) + ")";
}

int TPUBackend::device_count() const { return static_cast<int>(devices_.size()); }

DeviceInfo TPUBackend::get_device_info(int id) const {
  if (id >= 0 && id < device_count()) return devices_[static_cast<size_t>(id)];
  DeviceInfo out;
  out.backend = kName;
  out.device_type = "cpu";
  out.device_id = id;
  out.device_name = "CPU (XLA fallback)";
  return out;
}

void TPUBackend::set_device(int id) {
  if (id < 0 || id >= device_count())
    throw TPUDeviceError("Device " + std::to_string(id) + " not available. Available devices: 0-" +
                             std::to_string(device_count() - 1),
                         {{"device_id", std::to_string(id)}, {"operation", "set_device"}}, "",
                         Code::out_of_range);
  device_ = c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(id));
  c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)->setDevice(device_);
}

// Where nothing ran since the last time, there is nothing to wait for.
void TPUBackend::synchronize() {
  sync();
  if (exec::execution_count() == waited_for_) return;
  xla_compat::wait_device_ops();
  waited_for_ = exec::execution_count();
}

MemoryStats TPUBackend::get_memory_stats() const {
  MemoryStats out;
  const DeviceMemory memory = device_memory(device_.index());
  const Metrics m = metrics();
  out.device = device_.str();
  out.world_size = world_size_;
  out.rank = rank_;
  out.device_count = device_count();
  out.memory_fraction = applied_.config.hardware.tpu.memory_fraction;
  out.model_cache_stats = prepared_->cache.stats();
  out.compilation_cache_stats.size = static_cast<size_t>(m.cache_entries);
  out.compilation_cache_stats.max_size =
      static_cast<size_t>(applied_.config.hardware.tpu.cache_max_size.value());
  out.compilation_cache_stats.hits = static_cast<uint64_t>(m.cache_hits);
  out.compilation_cache_stats.misses = static_cast<uint64_t>(m.compiles);
  out.total_memory = devices_[static_cast<size_t>(device_.index())].total_memory_bytes;
  out.allocated_memory = memory.live;
  out.peak_memory = memory.peak;
  out.available_memory = std::max<int64_t>(applied_.memory_limit - memory.live, 0);
  return out;
}

void TPUBackend::clear_cache() {
  prepared_->cache.clear();
  const exec::Lock lock(exec::mutex());
  exec::set_cache_capacity(exec::set_cache_capacity(0));
}

}  // namespace tpubridge
