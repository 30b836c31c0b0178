#include "tpubridge/exec/in_flight.h"

#include <deque>
#include <mutex>

#include "tpubridge/base/errors.h"
#include "tpubridge/cache/at_exit.h"
#include "tpubridge/exec/redo.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {
namespace {

struct InFlight {
  std::mutex mutex;
  // In the order of their start; the oldest still runs, or there is none.
  std::deque<std::shared_ptr<pjrt::Event>> events;

  void forget_ended() {
    while (!events.empty() && events.front()->ready()) events.pop_front();
  }
};
InFlight& in_flight() {
  static auto* const it = [] {
    cache::wait_at_exit([] {
      auto& f = in_flight();
      const std::lock_guard lock(f.mutex);
      f.forget_ended();
      return f.events.empty();
    });
    return new InFlight;  // programs may start while static objects go
  }();
  return *it;
}

// A result is there when the whole program has ended; asking for the run's own completion costs twice as
// much.
void watch(const std::vector<pjrt::Buffer>& results) {
  if (results.empty() || !runs_in_this_process()) return;
  pjrt::Event ended = results[0].ready();
  if (ended.ready()) return;  // small programs run in the call
  auto& f = in_flight();
  const std::lock_guard lock(f.mutex);
  f.forget_ended();
  f.events.push_back(std::make_shared<pjrt::Event>(std::move(ended)));
}

}  // namespace

void wait_for_programs() {
  auto& f = in_flight();
  const auto all = [&] {
    const std::lock_guard lock(f.mutex);
    return f.events;
  }();
  std::exception_ptr error;
  for (const auto& e : all) {
    try {
      e->wait();
    } catch (const Error&) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void forget_in_flight() {
  auto& f = in_flight();
  const std::lock_guard lock(f.mutex);
  f.events.clear();
}

std::vector<pjrt::Buffer> execute(const pjrt::LoadedExecutable& program,
                                  std::span<const pjrt::Buffer* const> arguments,
                                  std::span<const int64_t> not_donatable) {
  forget_ended();
  pjrt::ExecuteOptions options;
  options.not_donatable = not_donatable;
  auto results = program.execute(arguments, options);
  watch(results);
  return results;
}

void wait_where_it_may_fail(const Compiled& compiled, std::span<const pjrt::Buffer> results) {
  if (!compiled.may_fail) return;
  for (const auto& result : results) result.wait();
}

std::vector<std::vector<pjrt::Buffer>> execute_all(
    const pjrt::LoadedExecutable& program, std::span<const std::vector<const pjrt::Buffer*>> arguments,
    std::span<const int64_t> not_donatable) {
  forget_ended();
  pjrt::ExecuteOptions options;
  options.not_donatable = not_donatable;
  auto results = program.execute_all(arguments, options);
  for (const auto& of_one : results) watch(of_one);
  return results;
}

}  // namespace tpubridge::exec
