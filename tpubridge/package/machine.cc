#include "tpubridge/package/machine.h"

#include <fmt/format.h>

#include "tpubridge/aot/generations.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/text.h"
#include "tpubridge/cache/key.h"

namespace tpubridge::package {

Machine this_machine(const pjrt::Client& client) {
  const cache::KeyParts key = cache::target_of(client);
  Machine out;
  out.target = out.platform = key.platform;
  out.platform_version = key.platform_version;
  out.device_kind = key.device_kind;
  out.plugin = key.plugin;
  out.flags = key.flags;
  out.cpu = key.cpu;
  out.topology = key.topology;
  out.devices = static_cast<int64_t>(client.devices().size());
  return out;
}

Machine tpu_machine(const std::string& slice, const Path& libtpu) {
  const aot::Slice s = aot::parse_slice(slice);
  Machine out;
  out.target = s.name();
  out.platform = "tpu";
  out.device_kind = s.generation->device_kind;
  out.plugin = cache::file_digest(libtpu);
  // As target_of() writes them; the offline compiler sees no XLA_FLAGS.
  out.flags = fmt::format("XLA_FLAGS=\nLIBTPU_INIT_ARGS={}\nPJRT_NPROC={}\n",
                          env::raw("LIBTPU_INIT_ARGS").value_or(""), env::raw("PJRT_NPROC").value_or(""));
  out.devices = s.devices();
  return out;
}

std::string difference(const Machine& made_for, const Machine& here) {
  const auto differs = [](const std::string& a, const std::string& b) { return !a.empty() && a != b; };
  if (differs(made_for.platform, here.platform))
    return fmt::format("it is for {}, this is {}", made_for.platform, here.platform);
  if (differs(made_for.device_kind, here.device_kind))
    return fmt::format("it is for {}, this is {}", quote(made_for.device_kind), quote(here.device_kind));
  if (differs(made_for.platform_version, here.platform_version))
    return fmt::format("it was made by {}, this is {}", quote(made_for.platform_version),
                       quote(here.platform_version));
  if (!made_for.plugin.empty() && !here.plugin.ends_with(made_for.plugin))
    return "it was made by another build of the plugin";
  if (differs(made_for.flags, here.flags))
    return "it was made with other flags (XLA_FLAGS, LIBTPU_INIT_ARGS, PJRT_NPROC)";
  if (differs(made_for.cpu, here.cpu)) return "it was made for a CPU with other features or cores";
  if (made_for.devices != here.devices)
    return fmt::format("it was made where {} devices are, here are {}", made_for.devices, here.devices);
  if (differs(made_for.topology, here.topology)) return "it was made for devices that lie otherwise";
  return {};
}

}  // namespace tpubridge::package
