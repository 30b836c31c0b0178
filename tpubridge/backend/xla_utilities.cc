#include "tpubridge/backend/xla_utilities.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tpubridge/backend/xla_compat.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/device/api.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/program.h"

namespace tpubridge {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What the results need, as one graph. Under exec's mutex.
struct Wanted {
  trace::Graph graph;
  int device = 0;
  std::string text;
};

Wanted look_at(const std::vector<at::Tensor>& results) {
  std::vector<trace::Value> roots;
  for (const at::Tensor& t : results) {
    if (!t.defined() || !device::is_tpu(t)) continue;
    const trace::Value v = device::read(t);
    if (v->is_pending() && std::find(roots.begin(), roots.end(), v) == roots.end()) roots.push_back(v);
  }
  if (roots.empty())
    throw ArgumentError("the function gave no result that is still to be computed on the device", {},
                        "Give it tensors of the device, and do not read its results inside.");
  Wanted out;
  out.device = roots[0]->device();
  for (const auto& r : roots)
    if (r->device() != out.device) throw ArgumentError("the results are on different devices");
  out.graph = trace::collect(std::move(roots), /*held_too=*/false);
  out.text = lower::program(out.graph, {}, lower::platform_named(exec::client().platform_name()));
  return out;
}

// As it is compiled for its device.
pjrt::CompileOptions options_for(const Wanted& w) {
  pjrt::CompileOptions out;
  out.devices = {exec::device(w.device).id()};
  exec::add_device_options(out, w.text);
  return out;
}

std::vector<pjrt::Buffer> packs_of(const Wanted& w) {
  std::vector<pjrt::Buffer> out;
  for (const auto& pack : lower::number_packs(w.graph))
    out.push_back(
        exec::client().to_device(pjrt::HostArray{pack.bytes.data(), pack.shape, {}}, exec::device(w.device)));
  return out;
}

void run_and_wait(const pjrt::LoadedExecutable& program, const std::vector<const pjrt::Buffer*>& arguments) {
  for (const auto& b : program.execute(arguments)) b.wait();
}

}  // namespace

std::string XLAEnvInfo::to_json() const {
  const auto text = [](const std::optional<std::string>& v) { return v ? Json(*v) : Json(); };
  Json out = {{"XLA_FLAGS", text(xla_flags)},
              {"XLA_PYTHON_CLIENT_MEM_FRACTION", text(xla_python_client_mem_fraction)},
              {"TPU_TYPE", text(tpu_type)},
              {"TPU_NAME", text(tpu_name)},
              {"xla_available", xla_available},
              {"simulated", simulated}};
  if (xla_available) {
    out["platform"] = platform;
    out["torch_xla_version"] = version;
    out["xla_device_count"] = xla_device_count;
    out["xrt_world_size"] = world_size;
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string XLAProfile::to_json() const {
  if (!error.empty()) return Json{{"error", error}}.dump(2);
  return Json{{"compilation_time", compilation_time},
              {"avg_execution_time", avg_execution_time},
              {"output_shape", output_shape},
              {"device", device},
              {"temporary_bytes", temporary_bytes}}
      .dump(2);
}

XLAEnvInfo XLAUtilities::get_xla_env_info() {
  XLAEnvInfo out;
  out.xla_flags = env::raw("XLA_FLAGS");
  out.xla_python_client_mem_fraction = env::raw("XLA_PYTHON_CLIENT_MEM_FRACTION");
  out.tpu_type = env::raw("TPU_TYPE");
  out.tpu_name = env::raw("TPU_NAME");
  out.xla_available = xla_compat::is_xla_available();
  if (!out.xla_available) return out;
  out.simulated = xla_compat::is_simulation();
  out.platform = exec::client().platform_name();
  out.version = exec::client().platform_version();
  out.xla_device_count = xla_compat::get_device_count();
  out.world_size = xla_compat::get_world_size();
  return out;
}

XLAProfile XLAUtilities::profile(const Results& results) {
  XLAProfile out;
  if (!xla_compat::is_xla_available()) {
    out.error = "PyTorch/XLA not available";
    return out;
  }
  sync();  // what was pending before is not the function's
  const auto tensors = results();
  const exec::Lock lock(exec::mutex());
  const Wanted w = look_at(tensors);
  cache::ProgramCache none(exec::client(), nullptr);
  none.set_deadline(exec::programs().deadline());
  const auto found = none.get(pjrt::Program{w.text}, options_for(w));
  exec::Compiled compiled{found.program, {}};
  exec::set_memory(compiled);
  exec::check_memory(w.device, compiled.needs, "a program that is profiled");
  const auto packs = packs_of(w);
  std::vector<const pjrt::Buffer*> arguments;
  for (const auto& leaf : w.graph.leaves) arguments.push_back(&exec::buffer_of(*leaf.node, leaf.index));
  for (const auto& pack : packs) arguments.push_back(&pack);
  run_and_wait(*found.program, arguments);
  const auto start = Clock::now();
  for (int i = 0; i < kRuns; ++i) run_and_wait(*found.program, arguments);
  out.avg_execution_time = seconds_since(start) / kRuns;
  out.compilation_time = found.seconds;
  out.temporary_bytes = compiled.temporaries;
  for (const at::Tensor& t : tensors)
    if (out.device.empty() && t.defined() && device::is_tpu(t)) {
      out.device = t.device().str();
      out.output_shape = t.sizes().vec();
    }
  return out;
}

std::string XLAUtilities::debug(const Results& results) {
  if (!xla_compat::is_xla_available()) return "PyTorch/XLA debug utilities not available";
  sync();
  const auto tensors = results();
  const exec::Lock lock(exec::mutex());
  const Wanted w = look_at(tensors);
  return "// " + std::to_string(w.graph.nodes.size()) + " ops, " + std::to_string(w.graph.leaves.size()) +
         " inputs, " + std::to_string(w.graph.roots.size()) + " results, for " +
         exec::client().platform_name() + ":" + std::to_string(w.device) + "\n" + w.text;
}

pjrt::CompileOptions XLAUtilities::optimize_xla_flags(TPUVersion version, std::string platform) {
  if (platform.empty() && xla_compat::is_xla_available()) platform = exec::client().platform_name();
  const bool fast = version == TPUVersion::v5p || version == TPUVersion::v6e || version == TPUVersion::v7;
  pjrt::CompileOptions out;
  out.optimization_level = fast ? 2 : 1;
  // Names that libtpu's compiler alone knows: any other refuses a compile that has them.
  if (fast && platform == "tpu")
    out.overrides = {{"xla_tpu_enable_async_collective_fusion", true},
                     {"xla_tpu_enable_async_collective_fusion_fuse_all_gather", true}};
  return out;
}

}  // namespace tpubridge
