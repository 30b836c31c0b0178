// Opening the client, and opening it again.
#include "tpubridge/exec/opener.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/forked.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/host_kernels.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/redo.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/pjrt/ffi.h"

namespace tpubridge::exec {
namespace {

// The background compiles of the old client may take so long to end.
constexpr std::chrono::seconds kToLetGo{10};

std::function<std::shared_ptr<pjrt::Client>()>& opener() {
  static auto* o = new std::function<std::shared_ptr<pjrt::Client>()>([] { return pjrt::open(); });
  return *o;
}

std::atomic<pjrt::Client*> open_client{nullptr};  // what client_owner() holds
std::atomic<bool> opened_already{false}, takes_functions{false};
std::atomic<uint64_t> opened_again{0};
std::mutex& opening() {
  static auto* m = new std::mutex;
  return *m;
}
std::shared_ptr<pjrt::Client>& client_owner() {
  static auto* c = new std::shared_ptr<pjrt::Client>;  // tensors with static storage die after it would
  return *c;
}

// Those who keep programs; with a mutex of their own, for they tell it under theirs.
struct Keepers {
  std::mutex mutex;
  std::vector<void (*)()> all;
};
Keepers& keepers() {
  static auto* k = new Keepers;
  return *k;
}
void let_programs_of_others_go() {
  const auto all = [] {
    const std::lock_guard lock(keepers().mutex);
    return keepers().all;
  }();
  for (auto* let_go : all) let_go();
}

// A plugin may refuse a second client beside one that still lives.
void wait_until_gone(const std::weak_ptr<const void>& old) {
  const auto end = std::chrono::steady_clock::now() + kToLetGo;
  while (!old.expired() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (!old.expired())
    log::warn("device.old_client_lives", {{"effect", "the plugin may refuse another one beside it"}});
}

}  // namespace

bool client_is_open() { return opened_already; }

bool set_client_opener(std::function<std::shared_ptr<pjrt::Client>()> open) {
  const Lock lock(mutex());
  if (opened_already) return false;
  opener() = std::move(open);
  return true;
}

pjrt::Client& client() {
  if (pjrt::Client* c = open_client.load(std::memory_order_acquire)) {
    check_not_forked();
    return *c;
  }
  const std::lock_guard lock(opening());
  if (!open_client.load()) {
    client_owner() = opener()();
    // Before any program is loaded: one of the disk cache may call functions of the user's own.
    takes_functions = ffi::install(client_owner()->plugin(), client_owner()->platform_name());
    open_client.store(client_owner().get(), std::memory_order_release);
    if (!opened_already.exchange(true)) stop_others_at_exit();
  }
  check_not_forked();
  return *client_owner();
}

bool calls_functions() {
  (void)client();
  return takes_functions;
}

void at_reopening(void (*let_go)()) {
  const std::lock_guard lock(keepers().mutex);
  keepers().all.push_back(let_go);
}

uint64_t openings() { return opened_again.load(std::memory_order_relaxed); }

void reopen() {
  const Lock lock(mutex());
  if (open_client.load()) {
    const std::weak_ptr<const void> old = client().alive();
    let_programs_of_others_go();
    forget_given();
    forget_in_flight();
    set_cache_capacity(set_cache_capacity(0));
    close_programs();
    close_buffers();
    {
      const std::lock_guard alone(opening());
      open_client = nullptr;
      client_owner().reset();
    }
    ++opened_again;
    wait_until_gone(old);
  }
  log::warn("device.opened_again", {{"devices", std::to_string(device_count())}});
}

bool answers(int index) {
  try {
    const float sent = 1.5;
    float came = 0;
    client()
        .to_device(pjrt::HostArray{&sent, Shape{DType::f32, {1}}, {}}, device(index))
        .to_host(&came, sizeof came);
    return came == sent;
  } catch (const TPUBackendError& e) {
    log::info("device.does_not_answer", {{"device", std::to_string(index)}, {"problem", e.what()}});
    return false;
  }
}

}  // namespace tpubridge::exec
