#include "tpubridge/cache/at_exit.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "tpubridge/base/forked.h"
#include "tpubridge/base/log.h"

namespace tpubridge::cache {
namespace {

constexpr auto kGrace = std::chrono::seconds(2);
constexpr auto kLook = std::chrono::milliseconds(1);  // how often it looks at what does not tell by itself

struct Running {
  std::mutex mutex;
  std::condition_variable ended;
  int threads = 0;  // that work inside of a plugin
  std::vector<bool (*)()> others, left;
  std::vector<void (*)()> first;
};
Running& running() {
  static auto* const it = new Running;  // threads may end after static objects are gone
  return *it;
}

bool idle(const Running& r) {
  const auto others = std::count_if(r.others.begin(), r.others.end(), [](auto* other) { return !other(); });
  return r.threads == 0 && others == 0;  // all are asked: one may do something about it
}

void run_first() {
  if (in_forked_child()) return;
  auto& r = running();
  std::vector<void (*)()> first;
  {
    const std::lock_guard lock(r.mutex);
    first.swap(r.first);
  }
  for (auto* f : first) f();
}

void leave(int status, void*) {
  if (in_forked_child()) return;
  run_first();
  auto& r = running();
  bool quiet = false;
  {
    const auto until = std::chrono::steady_clock::now() + kGrace;
    std::unique_lock lock(r.mutex);
    while (!idle(r) && std::chrono::steady_clock::now() < until) r.ended.wait_for(lock, kLook);
    quiet = idle(r);
    if (quiet && std::none_of(r.left.begin(), r.left.end(), [](auto* left) { return left(); })) return;
  }
  if (!quiet)
    log::warn("exit.abandoned", {{"effect", "the process ends while a program is still compiled or run"}});
  std::fflush(nullptr);
  _exit(status);
}

// Handlers run last in, first out, and what the plugin initialises while it compiles comes after ours: LLVM's
// tables would be gone while the thread still reads them. The thread-local objects of the thread that ends
// the process go before any handler, so this one, which is there since the library was loaded, asks for it
// again.
struct BeforeTheOthers {
  ~BeforeTheOthers() { on_exit(leave, nullptr); }
};
bool stand_ready() {
  static thread_local const BeforeTheOthers here;
  (void)here;
  return true;
}
const bool ready = stand_ready();

// Asked for after the plugin was loaded, it runs before the plugin's own destructors.
void stand_before_the_plugin() {
  static const int registered = on_exit(leave, nullptr);
  (void)registered;
}

void ends(Running& r) {
  const std::lock_guard lock(r.mutex);
  --r.threads;
  r.ended.notify_all();
}

}  // namespace

Working::Working() {
  auto& r = running();
  stand_before_the_plugin();
  const std::lock_guard lock(r.mutex);
  ++r.threads;
}
Working::~Working() { ends(running()); }

void first_at_exit(void (*f)()) {
  auto& r = running();
  static const int registered = std::atexit(run_first);  // for a thread that is not known to leave()
  (void)registered;
  const std::lock_guard lock(r.mutex);
  r.first.push_back(f);
}

void wait_at_exit(bool (*idle)()) {
  auto& r = running();
  stand_before_the_plugin();
  const std::lock_guard lock(r.mutex);
  r.others.push_back(idle);
}

void end_at_exit(bool (*left)()) {
  auto& r = running();
  const std::lock_guard lock(r.mutex);
  r.left.push_back(left);
}

bool run_detached(std::function<void()> body) {
  auto& r = running();
  stand_before_the_plugin();
  const std::lock_guard lock(r.mutex);
  try {
    std::thread([body = std::move(body), &r]() mutable {
      body();
      body = nullptr;  // what it holds goes before the process may
      ends(r);
    }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  ++r.threads;
  return true;
}

}  // namespace tpubridge::cache
