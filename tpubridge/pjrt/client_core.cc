#include "tpubridge/pjrt/client_core.h"

#include <fmt/format.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#include "tpubridge/base/log.h"

namespace tpubridge::pjrt {
namespace {

// Destroys clients on threads of ours; the process does not end before they are gone.
class Undertaker {
 public:
  void take(ClientCore* core) {
    const std::lock_guard lock(mutex_);
    std::thread([this, core] {
      delete core;
      const std::lock_guard done(mutex_);
      --open_;
      changed_.notify_all();
    }).detach();
    ++open_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_ = 0;
};

Undertaker& undertaker() {
  static auto* const one = new Undertaker;  // never destroyed: a callback may come while the process ends
  static const int waits [[maybe_unused]] = std::atexit([] { undertaker().wait(); });
  return *one;
}

void let_go(ClientCore* core) {
  if (ClientCore::InCallback::depth == 0) {
    delete core;
    return;
  }
  try {
    undertaker().take(core);
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
