#include "tpubridge/config/runtime.h"

#include <fmt/format.h>

#include <array>

#include "tpubridge/aot/generations.h"
#include "tpubridge/base/absolute.h"
#include "tpubridge/base/log.h"
#include "tpubridge/config/fields.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge {
namespace {

// A name of the version by the generation's; automatic where the configuration has none for it.
TPUVersion version_of(std::string_view device_kind) {
  const aot::Generation* g = aot::find_generation(device_kind);
  for (const auto v : {TPUVersion::v4, TPUVersion::v5e, TPUVersion::v5p, TPUVersion::v6e, TPUVersion::v7})
    if (g != nullptr && g->name == to_string(v)) return v;
  return TPUVersion::automatic;
}

bool high_performance(TPUVersion v) {
  return v == TPUVersion::v5p || v == TPUVersion::v6e || v == TPUVersion::v7;
}

// Bytes of one device by the generation's table, or as the user says.
double hbm_of(const TPUConfig& config, const TPURuntime& runtime) {
  const aot::Generation* g = aot::find_generation(to_string(config.version.value()));
  const auto& own = config.version == TPUVersion::v6e ? config.v6e_memory_gb : config.v7_memory_gb;
  const bool may_be_own = config.version == TPUVersion::v6e || config.version == TPUVersion::v7;
  if (may_be_own && own.value()) return *own.value() * 1e9 / g->devices_per_chip;
  if (runtime.hbm_bytes > 0) return static_cast<double>(runtime.hbm_bytes);
  return static_cast<double>(g->hbm_bytes);
}

}  // namespace

std::string plugin_of(const Config& config) {
  if (!config.runtime.plugin.value().empty()) return config.runtime.plugin;
  return config.hardware.tpu.enabled ? "" : "cpu";
}

TPURuntime runtime_of(const pjrt::Client& client) {
  TPURuntime out;
  if (client.addressable_devices().empty()) return out;
  const pjrt::Device& device = *client.addressable_devices()[0];
  try {
    out.hbm_bytes = device.memory_stats().bytes_limit.value_or(0);
  } catch (const UnsupportedError&) {
    log::debug("config.no_memory_stats", {{"device", device.info().kind}});  // the table's figure is taken
  }
  out.available = client.platform_name() == "tpu";
  if (!out.available) return out;
  out.device_kind = device.info().kind;
  out.world_size = static_cast<int>(client.devices().size());
  return out;
}

TPURuntime look_for_tpu(const Config& config) {
  try {
    const std::string wanted = plugin_of(config);
    const auto chosen = pjrt::choose(wanted);
    if (chosen.name == "cpu" || chosen.name == "cuda") return {};
    return runtime_of(*pjrt::open(wanted));
  } catch (const Error& e) {
    TPURuntime out;
    out.problem = e.what();
    return out;
  }
}

TPUConfig resolved(const TPUConfig& config, const TPURuntime& runtime) {
  TPUConfig out = config;
  if (out.version == TPUVersion::automatic) {
    const TPUVersion found = version_of(runtime.device_kind);
    out.version = standard(found == TPUVersion::automatic ? TPUVersion::v5e : found);
  }
  if (out.topology == TPUTopology::automatic)
    out.topology = standard(runtime.world_size <= 8     ? TPUTopology::single
                            : runtime.world_size <= 256 ? TPUTopology::pod
                                                        : TPUTopology::superpod);
  if (high_performance(out.version)) {
    out.memory_fraction.suggest(0.95, Origin::detected);
    out.xla_optimization_level.suggest(2, Origin::detected);
  } else if (out.version == TPUVersion::v5e) {
    out.memory_fraction.suggest(0.90, Origin::detected);
    out.xla_optimization_level.suggest(1, Origin::detected);
  }
  return out;
}

int64_t memory_budget(const TPUConfig& config, const TPURuntime& runtime) {
  config.check();
  const TPUConfig full = resolved(config, runtime);
  return static_cast<int64_t>(hbm_of(full, runtime) * full.memory_fraction);
}

pjrt::CompileOptions compile_options(const TPUConfig& config) {
  config.check();
  pjrt::CompileOptions out;
  out.optimization_level = static_cast<int>(config.xla_optimization_level);
  // Level 0 is for finding errors and for quick compiles: LLVM, where the plugin uses it, optimises nothing.
  if (config.xla_optimization_level == 0) out.overrides["xla_backend_optimization_level"] = int64_t{0};
  std::string_view rest = config.xla_flags.value();
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n"), rest.size()));
    if (rest.empty()) return out;
    const std::string_view flag = rest.substr(0, rest.find_first_of(" \t\n"));
    rest.remove_prefix(flag.size());
    const auto equals = std::min(flag.find('='), flag.size());
    if (!flag.starts_with("--xla_") || equals == 6)
      throw config::bad_value("hardware.tpu.xla_flags", std::string(flag),
                              "flags of the form --xla_name=value");
    std::string value(equals == flag.size() ? "true" : flag.substr(equals + 1));
    if (value == "true") value = "True";  // XLA reads every type from a text, and flags only so
    if (value == "false") value = "False";
    out.overrides[std::string(flag.substr(2, equals - 2))] = value;
  }
}

std::shared_ptr<pjrt::Client> open_client(const Config& config) {
  config.check();
  const std::string wanted = plugin_of(config);
  if (!config.runtime.cpu_devices.is_set()) return pjrt::open(wanted);
  const bool cpu = pjrt::is_cpu_plugin(pjrt::choose(wanted));
  return pjrt::open(
      wanted, cpu ? pjrt::Values{{"cpu_device_count", config.runtime.cpu_devices.value()}} : pjrt::Values{});
}

cache::ProgramCache open_programs(const Config& config, const pjrt::Client& client) {
  config.check();
  std::shared_ptr<cache::DiskCache> disk;
  if (config.hardware.tpu.enable_xla_cache) {
    const auto& own = config.runtime.cache_dir.value();
    const Path folder = own.empty() ? cache_folder() : absolute_path(own);
    disk =
        std::make_shared<cache::DiskCache>(folder / "programs", config.runtime.cache_size_mb.value() << 20);
  }
  cache::ProgramCache out(client, std::move(disk));
  out.set_deadline(std::chrono::seconds(config.hardware.tpu.compilation_timeout_seconds.value()));
  return out;
}

}  // namespace tpubridge
