// The inside of a step's engine. For the sources of step/.
#pragma once

#include <atomic>
#include <list>
#include <typeindex>
#include <unordered_set>

#include "tpubridge/exec/runtime.h"
#include "tpubridge/step/compile.h"
#include "tpubridge/step/guard.h"
#include "tpubridge/step/replay.h"
#include "tpubridge/step/tracer.h"

namespace tpubridge::step {

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
inline constexpr int kAttempts = 6;

struct Engine::Impl {
  Impl(StepOptions o, std::shared_ptr<Runner> r)
      : options(std::move(o)), runner(std::move(r)), tracer(options, runner.get()) {}
  StepOptions options;
  std::shared_ptr<Runner> runner;
  std::mutex mutex;
  Tracer tracer;
  std::list<Entry> entries;  // most recently used first
  // Read by report() while a call runs.
  std::atomic<int64_t> calls{0}, replayed{0}, traced{0}, programs{0}, temporaries{0}, looped{0};
  std::mutex why_mutex;
  std::string why_traced, why_single;

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

  // With the mutex.
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& arguments, const std::vector<uint64_t>& others,
                               const std::function<std::vector<at::Tensor>()>& run,
                               std::shared_ptr<void>& form) {
    if (runner) runner->begin(arguments);
    if (++calls == 1) (void)tracer.modules.find(Closure::current());
    Entry& e = entry(guard(arguments, others), arguments, others.size());
    if (e.replay) {
      if (auto results = e.replay->run(arguments)) {
        ++replayed;
        form = e.form;
        return std::move(*results);
      }
      e.refused = e.replay->why_not();
      e.last = std::move(*e.replay).take();
      e.replay.reset();
      e.attempts = 0;
    }
    ++traced;
    auto results = trace(e, arguments, others, run);
    e.form = form;
    return results;
  }

  // Steps of many(); many.cc.
  struct Many;
  struct Tried;
  Tried loop(const Many& many, int64_t from, int64_t rounds);
  Tried loop_begun(const Many& many, int64_t from, const std::vector<at::Tensor>& stacks);
  std::vector<at::Tensor> one_by_one(const Many& many, int64_t from, int64_t rounds, const Tried& tried);
  [[noreturn]] void refuse_before(const Many& many, int64_t step, std::string_view changed);
  void say_single(std::string_view why, bool settled);

 private:
  Guard guard_;
  bool warned_programs_ = false, warned_single_ = false;
  int refusals_ = 0;
  // Classes of functions that were seen to change, before a step, what steps take.
  std::unordered_set<std::type_index> changing_;
};

}  // namespace tpubridge::step
