// Who opens the client of runtime.h at its first use, where it is not discovery.
#pragma once

#include <functional>
#include <memory>

#include "tpubridge/pjrt/client.h"

namespace tpubridge::exec {

[[nodiscard]] bool client_is_open();
// False, and nothing is changed, where the client is open already.
bool set_client_opener(std::function<std::shared_ptr<pjrt::Client>()> open);
// Called by reopen() before the client goes, under exec::mutex(): whoever keeps programs lets them go.
void at_reopening(void (*let_go)());

}  // namespace tpubridge::exec
