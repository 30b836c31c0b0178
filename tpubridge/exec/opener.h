// Who opens the client of runtime.h at its first use, where it is not discovery.
#pragma once

#include <functional>
#include <memory>

#include "tpubridge/pjrt/client.h"

namespace tpubridge::exec {

[[nodiscard]] bool client_is_open();
// False, and nothing is changed, where the client is open already.
bool set_client_opener(std::function<std::shared_ptr<pjrt::Client>()> open);

}  // namespace tpubridge::exec
