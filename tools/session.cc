#include "tools/session.h"

#include <fmt/format.h>

#include <cstdlib>

#include "tools/output.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge::tools {

void quiet_plugins() {
  setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0);
  if (!pjrt::tpu_hardware()) setenv("TPU_SKIP_MDS_QUERY", "1", 0);
}

std::shared_ptr<pjrt::Client> open_client(const std::string& plugin, std::optional<int> devices) {
  quiet_plugins();
  if (!devices) return pjrt::open(plugin);
  const pjrt::Candidate chosen = pjrt::choose(plugin);
  auto client =
      pjrt::open(plugin, pjrt::is_cpu_plugin(chosen) ? pjrt::Values{{"cpu_device_count", int64_t{*devices}}}
                                                     : pjrt::Values{});
  const auto there = std::ssize(client->addressable_devices());
  if (there < *devices)
    throw TPUNotAvailableError(
        fmt::format("{} asked for, but {} has {}", human_count(*devices, "device", "devices"),
                    client->platform_name(), there),
        {{"plugin", chosen.path}}, "Only the CPU plugin can pretend to have more devices: --plugin cpu.");
  return client;
}

std::string short_name(const pjrt::Device& device, const pjrt::Client& client) {
  return fmt::format("{}:{}", client.platform_name(), device.id());
}

}  // namespace tpubridge::tools
