#include "tpubridge/backend/apply.h"

#include <ATen/Context.h>

#include <algorithm>

#include "tpubridge/base/env.h"
#include "tpubridge/config/fields.h"
#include "tpubridge/config/validation.h"
#include "tpubridge/device/api.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/opener.h"
#include "tpubridge/exec/options.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge {
namespace {

[[noreturn]] void too_late(const char* field, const std::string& wanted, const std::string& open) {
  TPUConfigurationError e = config::bad_value(field, wanted, "what the device was opened with: " + open, {},
                                              "Call apply() before the first use of the device.");
  throw TPUConfigurationError(std::move(e));
}

// What cannot be changed once the device is open must be as it is.
void check_open_client(const Config& c) {
  const pjrt::Client& client = exec::client();
  if (const std::string wanted = plugin_of(c); !wanted.empty()) {
    const std::string path = pjrt::choose(wanted).path;
    if (!std::filesystem::equivalent(path, client.plugin().path()))
      too_late("runtime.plugin", wanted, client.plugin().path());
  }
  const auto devices = static_cast<int64_t>(client.addressable_devices().size());
  if (c.runtime.cpu_devices.is_set() && client.platform_name() == "cpu" && c.runtime.cpu_devices != devices)
    too_late("runtime.cpu_devices", std::to_string(c.runtime.cpu_devices.value()), std::to_string(devices));
}

int64_t limit_of(const TPUConfig& tpu, const TPURuntime& runtime) {
  const int64_t budget = memory_budget(tpu, runtime), own = *env::integer("TPUBRIDGE_MEMORY_LIMIT");
  return own > 0 ? std::min(own, budget) : budget;
}

Fallback fallback_of(FallbackMode mode) {
  switch (mode) {
    case FallbackMode::allow:
      return Fallback::allow;
    case FallbackMode::warn:
      return Fallback::warn;
    case FallbackMode::error:
      break;
  }
  return Fallback::error;
}

}  // namespace

Applied apply(const Config& given) {
  Applied out{given, {}, 0};
  Config& c = out.config;
  c.complete_from_environment();
  c.check();
  if (!exec::set_client_opener([c] { return open_client(c); })) check_open_client(c);
  out.runtime = runtime_of(exec::client());
  const auto problems = validate(c, out.runtime);  // throws in strict mode
  c.hardware.tpu = resolved(c.hardware.tpu, out.runtime);
  const TPUConfig& tpu = c.hardware.tpu;
  auto options = compile_options(tpu);
  out.memory_limit = limit_of(tpu, out.runtime);
  auto programs = open_programs(c, exec::client());
  if (programs.disk() && (c.validation.strict || tpu.enable_strict_validation))
    programs.disk()->check_folder();

  log::set_level(c.runtime.log_level);
  for (const auto& r : problems.reports)
    if (r.status == ValidationStatus::warning) log::info("config.doubtful", {{"what", r.message}});
  const exec::Lock lock(exec::mutex());
  exec::set_programs(std::move(programs));
  exec::set_compile_options(std::move(options));
  exec::set_cache_capacity(static_cast<size_t>(tpu.cache_max_size.value()));
  exec::set_graph_limit(c.runtime.graph_limit);
  set_memory_limit(out.memory_limit);
  set_fallback(fallback_of(c.runtime.fallback));
  at::manual_seed(static_cast<uint64_t>(c.seed.value()));
  return out;
}

}  // namespace tpubridge
