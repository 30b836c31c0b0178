// Opens the plugin that a subcommand works on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tpubridge/pjrt/client.h"

namespace tpubridge::tools {

// To be called before a plugin is loaded: the plugins' own chatter is turned off, and libtpu does not ask a
// cloud server where no TPU is. What the user has set stays.
void quiet_plugins();

// `plugin` as in pjrt::discover. `devices` is how many virtual devices the CPU plugin gets; of any other
// plugin, how many it must have at least.
[[nodiscard]] std::shared_ptr<pjrt::Client> open_client(const std::string& plugin,
                                                        std::optional<int> devices = std::nullopt);

[[nodiscard]] std::string short_name(const pjrt::Device& device, const pjrt::Client& client);  // "cpu:0"

}  // namespace tpubridge::tools
