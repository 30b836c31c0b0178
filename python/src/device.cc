// The device, its random numbers, its memory, and what it has done.
#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>

#include "scopes.h"
#include "tpubridge/base/forked.h"
#include "tpubridge/device/api.h"
#include "tpubridge/device/generator.h"
#include "tpubridge/exec/explain.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/opener.h"
#include "tpubridge/exec/runtime.h"

namespace py = pybind11;

namespace tpubridge::python {
namespace {

constexpr c10::DeviceIndex kDevices = 64;  // for so many there are generators

const c10::impl::DeviceGuardImplInterface& guard() {
  return *c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
}

// Everything that is pending, computed: one device orders its programs, so the last to end is one of ours.
void synchronize(int device) {
  exec::materialise(device, {}, "synchronize");
  if (exec::runs_in_this_process())
    exec::wait_for_programs();
  else
    (void)at::arange(2, at::device(at::Device(at::kPrivateUse1, static_cast<c10::DeviceIndex>(device))))
        .sum()
        .item();
}

py::dict properties(int index) {
  std::string kind, platform, version;
  std::vector<int64_t> coords;
  std::optional<int64_t> limit;
  {
    const Cpp scope;
    const auto& device = exec::device(index);
    kind = device.info().kind;
    coords = device.info().coords();
    platform = exec::client().platform_name();
    version = exec::client().platform_version();
    try {
      limit = device.memory_stats().bytes_limit;
    } catch (const Error&) {  // this plugin does not tell
    }
  }
  py::dict d;
  d["name"] = kind;
  d["platform"] = platform;
  d["version"] = version;
  d["coords"] = coords;
  d["total_memory"] = limit ? py::object(py::int_(*limit)) : py::none();
  return d;
}

py::dict memory(int index) {
  DeviceMemory m;
  std::optional<int64_t> limit;
  {
    const Cpp scope;
    const auto& device = exec::device(index);
    m = device_memory(index);
    try {
      limit = device.memory_stats().bytes_limit;
    } catch (const Error&) {  // this plugin does not tell
    }
  }
  if (m.limit > 0) limit = limit ? std::min(*limit, m.limit) : m.limit;
  py::dict d;
  d["live"] = m.live;
  d["peak"] = m.peak;
  d["limit"] = limit ? py::object(py::int_(*limit)) : py::none();
  return d;
}

py::dict metrics_dict() {
  Metrics m;
  {
    const Cpp scope;
    m = metrics();
  }
  py::dict fallbacks;
  for (const auto& [op, f] : m.fallbacks) {
    py::dict one;
    one["calls"] = f.calls;
    one["seconds"] = f.seconds;
    fallbacks[py::str(op)] = one;
  }
  py::dict d;
  d["traced_ops"] = m.traced_ops;
  d["materialisations"] = m.materialisations;
  d["executions"] = m.executions;
  d["compiles"] = m.compiles;
  d["compile_seconds"] = m.compile_seconds;
  d["cache_hits"] = m.cache_hits;
  d["cache_entries"] = m.cache_entries;
  d["disk_hits"] = m.disk.hits;
  d["disk_misses"] = m.disk.misses;
  d["disk_stores"] = m.disk.stores;
  d["fallbacks"] = fallbacks;
  d["synchronising"] = m.synchronising;
  d["host_to_device_bytes"] = m.host_to_device_bytes;
  d["device_to_host_bytes"] = m.device_to_host_bytes;
  d["live_device_bytes"] = m.live_device_bytes;
  d["peak_device_bytes"] = m.peak_device_bytes;
  return d;
}

// The words of a setting, in the order of the enumeration.
constexpr std::array kFallbacks = {"allow", "warn", "error"};

std::string set_fallback_by_name(const std::string& mode) {
  for (size_t i = 0; i < kFallbacks.size(); ++i)
    if (mode == kFallbacks[i]) return kFallbacks[static_cast<size_t>(set_fallback(static_cast<Fallback>(i)))];
  throw ArgumentError("there is no such setting of fallbacks", {{"mode", mode}}, "Use allow, warn or error.");
}

class NoCompile {
 public:
  void enter() { scopes_.push_back(std::make_unique<exec::ExpectNoCompile>()); }
  void exit() {
    if (!scopes_.empty()) scopes_.pop_back();
  }

 private:
  std::vector<std::unique_ptr<exec::ExpectNoCompile>> scopes_;
};

}  // namespace

void bind_device(py::module_& m) {
  m.def("device_count", [] {
    const Cpp scope;
    return device_count();
  });
  m.def("is_open", [] { return exec::client_is_open() && !in_forked_child(); });
  m.def("in_forked_child", in_forked_child);
  m.def("current_device", [] { return static_cast<int>(guard().getDevice().index()); });
  m.def("set_device", [](int index) {
    guard().setDevice(c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index)));
  });
  // Whether the device is open or not: it finds the seed when it is.
  m.def("seed_all", [](uint64_t seed) {
    for (c10::DeviceIndex i = 0; i < kDevices; ++i) {
      at::Generator g = device::default_generator(i);
      const std::scoped_lock lock(g.mutex());
      g.set_current_seed(seed);
    }
  });
  m.def("synchronize", [](int device) {
    const Cpp scope;
    synchronize(device);
  });
  m.def("sync", [](const std::optional<std::vector<at::Tensor>>& tensors) {
    const Cpp scope;
    tensors ? sync(*tensors) : sync();
  });
  m.def("reopen_device", [] {
    const Cpp scope;
    reopen_device();
  });
  m.def("device_properties", properties);
  m.def("memory", memory);
  m.def("reset_peak_memory", [](int device) {
    const Cpp scope;
    reset_peak_memory(device);
  });
  m.def("set_memory_limit", [](int64_t bytes) {
    const Cpp scope;
    return set_memory_limit(bytes);
  });
  m.def("default_generator", [](int device) {
    at::Generator g;
    {
      const Cpp scope;
      (void)exec::device(device);
      g = device::default_generator(static_cast<c10::DeviceIndex>(device));
    }
    return g;
  });
  m.def("metrics", metrics_dict);
  m.def("report", [] {
    const Cpp scope;
    return report();
  });
  m.def("explain", [] {
    const Cpp scope;
    return explain();
  });
  m.def("compile_count", [] { return exec::compile_count(); });
  m.def("execution_count", [] { return exec::execution_count(); });
  m.def("fallback_count", [] { return exec::fallback_count(); });
  m.def("set_fallback", set_fallback_by_name);
  m.def("set_check_indices", set_check_indices);
  py::class_<NoCompile>(m, "NoCompile")
      .def(py::init<>())
      .def("__enter__", &NoCompile::enter)
      .def("__exit__", [](NoCompile& self, const py::args&) { self.exit(); });
}

}  // namespace tpubridge::python
