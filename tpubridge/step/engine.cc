// The life of a compiled step: trace until two calls are alike, then replay; trace again when the guard
// fails.
#include <map>

#include "tpubridge/base/errors.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/opener.h"
#include "tpubridge/step/engine.h"

namespace tpubridge::step {
namespace {

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
    if (r.looped > 0) text += ", " + std::to_string(r.looped) + " in programs of many steps";
    if (!r.why_single.empty()) text += ", step by step because " + r.why_single;
    text += '\n';
  }
  return text;
}

}  // namespace

Engine::Engine(StepOptions options, std::shared_ptr<Runner> runner) {
  if (options.programs == 0)
    throw ArgumentError("a compiled step that may keep no program", {},
                        "Set StepOptions::programs to 1 or more.");
  if (options.steps_per_call < 0)
    throw ArgumentError(
        "a compiled step with a negative number of steps in a call",
        {{"steps_per_call", std::to_string(options.steps_per_call)}},
        "Set StepOptions::steps_per_call to 1 or more, or to 0 for all that many() is given.");
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
  return m.call(arguments, others, run, form);
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
  r.looped = m.looped;
  r.why_single = m.why_single;
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
