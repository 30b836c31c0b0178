#include "tpubridge/pjrt/client_core.h"

#include <fmt/format.h>

#include <system_error>

#include "tpubridge/base/elsewhere.h"
#include "tpubridge/base/log.h"

namespace tpubridge::pjrt {
namespace {

void let_go(ClientCore* core) {
  if (ClientCore::InCallback::depth == 0) {
    delete core;
    return;
  }
  try {
    run_elsewhere([core] { delete core; });
  } catch (const std::system_error& e) {  // no thread can be had: better never freed than waiting for ever
    log::error("pjrt.client_not_destroyed", {{"error", e.what()}});
  }
}

}  // namespace

thread_local int ClientCore::InCallback::depth = 0;

std::shared_ptr<ClientCore> ClientCore::make(std::shared_ptr<Plugin> plugin,
                                             std::shared_ptr<KeyValueStore> store) {
  return {new ClientCore(std::move(plugin), std::move(store)), &let_go};
}

const Device* ClientCore::find(const PJRT_Device* raw) const {
  for (const auto& d : devices)
    if (d.raw() == raw) return &d;
  return nullptr;
}

const Device& ClientCore::require_local(const Device& device) const {
  const Device* ours = find(device.raw());
  if (!ours || !ours->addressable())
    throw ArgumentError(fmt::format("device {} is not a device of this client and process", device.id()));
  return *ours;
}

}  // namespace tpubridge::pjrt
