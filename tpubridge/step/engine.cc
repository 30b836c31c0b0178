// The life of a compiled step: trace until two calls are alike, then replay; trace again when the guard
// fails.
#include <atomic>
#include <list>
#include <map>

#include "tpubridge/base/errors.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/opener.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/step/compile.h"
#include "tpubridge/step/guard.h"
#include "tpubridge/step/replay.h"
#include "tpubridge/step/tracer.h"

namespace tpubridge::step {
namespace {

// Everything under one guard.
struct Entry {
  Guard guard;
  std::optional<Recorded> last;
  std::optional<Replay> replay;
  std::shared_ptr<void> form;  // of the results, as the caller made it
  int attempts = 0;
  std::string_view refused = {};  // why the last replay could not be
};

// After so many calls without two alike, it is said once that the step is traced at every call.
constexpr int kAttempts = 6;

// Never destroyed: a step may be a static object.
struct Registry {
  std::mutex mutex;
  std::vector<const Engine*> engines;
  std::map<const Engine*, std::function<void()>> let_go;  // of their programs
  bool told = false;                                      // report() and reopen() know of us
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

// The client is given up: programs would keep it alive, and are of no use any more.
void let_programs_go() {
  auto& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const auto& [engine, let_go] : all.let_go) let_go();
}

std::string lines_of_report() {
  std::string text;
  for (const auto& r : compiled_steps()) {
    text += "compiled step     '" + r.name + "': " + std::to_string(r.calls) + " calls, " +
            std::to_string(r.replayed) + " replayed, " + std::to_string(r.traced) + " traced";
    if (!r.why_traced.empty()) text += " (the last because " + r.why_traced + ")";
    text += '\n';
  }
  return text;
}

}  // namespace

struct Engine::Impl {
  Impl(StepOptions o, std::shared_ptr<Runner> r)
      : options(std::move(o)), runner(std::move(r)), tracer(options, runner.get()) {}
  StepOptions options;
  std::shared_ptr<Runner> runner;
  std::mutex mutex;
  Tracer tracer;
  std::list<Entry> entries;  // most recently used first
  // Read by report() while a call runs.
  std::atomic<int64_t> calls{0}, replayed{0}, traced{0}, programs{0}, temporaries{0};
  std::mutex why_mutex;
  std::string why_traced;

  // Until it is asked for again.
  const Guard& guard(const std::vector<at::Tensor>& arguments, const std::vector<uint64_t>& others) {
    Guard& g = guard_;
    g.assign(others.begin(), others.end());
    append_modes(g);
    tracer.modules.append_modes(g);
    for (auto* o : options.optimizers) structure(*o, g);
    append_arguments(g, arguments);
    return g;
  }

  Entry& entry(const Guard& guard, const std::vector<at::Tensor>& arguments, size_t others) {
    for (auto it = entries.begin(); it != entries.end(); ++it) {
      if (it->guard != guard) continue;
      entries.splice(entries.begin(), entries, it);
      return entries.front();
    }
    entries.emplace_front();
    entries.front().guard = guard;
    if (entries.size() == options.programs + 1 && !warned_programs_) {
      warned_programs_ = true;
      TORCH_WARN(
          "tpubridge: the compiled step '", options.name, "' was called in more than ", options.programs,
          " ways: ", changes(std::next(entries.begin())->guard, entries.front().guard, arguments, others),
          ". Each is a program of its own; pad to a few fixed sizes, or raise "
          "StepOptions::programs.");
    }
    while (entries.size() > options.programs) entries.pop_back();
    programs = static_cast<int64_t>(entries.size());
    return entries.front();
  }

  std::vector<at::Tensor> trace(Entry& e, const std::vector<at::Tensor>& arguments,
                                const std::vector<uint64_t>& others,
                                const std::function<std::vector<at::Tensor>()>& run) {
    auto call = tracer.record(arguments, run, /*notes_zeros=*/!e.last);
    Recorded now = std::move(tracer.finish(*call, arguments, false).recorded);
    ++e.attempts;
    if (now.compiled) temporaries = now.compiled->temporaries;
    const std::string why = e.last                ? difference(*e.last, now)
                            : now.trouble.empty() ? "it was called once so far"
                                                  : now.trouble;
    if (why.empty())
      e.replay.emplace(std::move(now), runner.get()), e.last.reset();
    else
      e.last = std::move(now);
    {
      const std::lock_guard lock(why_mutex);
      why_traced = why.empty() ? e.refused : why;
    }
    e.refused = {};
    if (e.attempts == kAttempts && !e.replay)
      TORCH_WARN("tpubridge: the compiled step '", options.name, "' is traced at every call: ", why);
    // New ones are a part of the guard from now on: the next call is to find this entry all the same.
    if (e.attempts <= 2 && tracer.modules.find(Closure::current())) e.guard = guard(arguments, others);
    return std::move(call->results);
  }

 private:
  Guard guard_;
  bool warned_programs_ = false;
};

Engine::Engine(StepOptions options, std::shared_ptr<Runner> runner) {
  if (options.programs == 0)
    throw ArgumentError("a compiled step that may keep no program", {},
                        "Set StepOptions::programs to 1 or more.");
  for (const auto* o : options.optimizers)
    if (!o) throw ArgumentError("StepOptions::optimizers holds a null pointer");
  for (const auto& m : options.modules)
    if (!m) throw ArgumentError("StepOptions::modules holds a null pointer");
  impl_ = std::make_unique<Impl>(std::move(options), std::move(runner));
  auto& all = registry();
  const std::lock_guard lock(all.mutex);
  all.let_go[this] = [&impl = *impl_] {
    const std::unique_lock alone(impl.mutex, std::try_to_lock);  // not from inside of its own call
    if (alone) impl.entries.clear();
  };
  if (!std::exchange(all.told, true)) {
    exec::add_to_report(lines_of_report);
    exec::at_reopening(let_programs_go);
  }
  all.engines.push_back(this);
}

Engine::~Engine() {
  auto& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase(all.engines, this);
  all.let_go.erase(this);
}

std::vector<at::Tensor> Engine::call(const std::vector<at::Tensor>& arguments,
                                     const std::vector<uint64_t>& others,
                                     const std::function<std::vector<at::Tensor>()>& run,
                                     std::shared_ptr<void>& form) {
  Impl& m = *impl_;
  if (recording() || exec::eager()) {  // part of an outer step, or of a search for a fault
    m.tracer.join_outer();
    return run();
  }
  const std::lock_guard lock(m.mutex);
  if (m.runner) m.runner->begin(arguments);
  if (++m.calls == 1) (void)m.tracer.modules.find(Closure::current());
  Entry& e = m.entry(m.guard(arguments, others), arguments, others.size());
  if (e.replay) {
    if (auto results = e.replay->run(arguments)) {
      ++m.replayed;
      form = e.form;
      return std::move(*results);
    }
    e.refused = e.replay->why_not();
    e.last = std::move(*e.replay).take();
    e.replay.reset();
    e.attempts = 0;
  }
  ++m.traced;
  auto results = m.trace(e, arguments, others, run);
  e.form = form;
  return results;
}

std::shared_ptr<const void> Engine::prepare(const std::vector<at::Tensor>& arguments,
                                            const std::function<std::vector<at::Tensor>()>& run) {
  Impl& m = *impl_;
  const std::lock_guard one_at_a_time(m.mutex);
  if (m.runner) m.runner->begin(arguments);
  auto call = m.tracer.record(arguments, run, /*notes_zeros=*/true);
  Ended ended = m.tracer.finish(*call, arguments, true);
  call->results.clear();
  call->undo();
  return std::move(ended.recorded.compiled);
}

int64_t Engine::traced() const { return impl_->traced; }

StepReport Engine::report() const {
  Impl& m = *impl_;
  StepReport r;
  r.name = m.options.name;
  r.calls = m.calls;
  r.replayed = m.replayed;
  r.traced = m.traced;
  r.programs = static_cast<size_t>(m.programs);
  r.temporary_bytes = m.temporaries;
  const std::lock_guard lock(m.why_mutex);
  r.why_traced = m.why_traced;
  return r;
}

}  // namespace tpubridge::step

namespace tpubridge {

std::vector<StepReport> compiled_steps() {
  auto& all = step::registry();
  const std::lock_guard lock(all.mutex);
  std::vector<StepReport> out;
  for (const auto* e : all.engines) out.push_back(e->report());
  return out;
}

}  // namespace tpubridge
