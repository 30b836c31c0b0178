// The life of a compiled step: trace until two calls are alike, then replay; trace again when the guard
// fails.
#include <torch/nn/module.h>

#include <atomic>
#include <list>
#include <unordered_set>

#include "tpubridge/base/errors.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/step/compile.h"
#include "tpubridge/step/guard.h"
#include "tpubridge/step/optimizers.h"
#include "tpubridge/step/replay.h"

namespace tpubridge::step {
namespace {

// Everything under one guard.
struct Entry {
  std::vector<uint64_t> guard;
  std::optional<Recorded> last;
  std::optional<Replay> replay;
  std::shared_ptr<void> form;  // of the results, as the caller made it
  int attempts = 0;
  bool perturbs = true;  // options of optimizers: until the step is seen to use them itself
};

// After so many calls without two alike, it is said once that the step is traced at every call.
constexpr int kAttempts = 6;

// Never destroyed: a step may be a static object.
struct Registry {
  std::mutex mutex;
  std::vector<const Engine*> engines;
  bool told = false;  // report() knows of us
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
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
  StepOptions options;
  std::shared_ptr<Runner> runner;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;  // all of them, children too
  std::mutex mutex;
  std::list<Entry> entries;  // most recently used first
  uint64_t round = 0;
  // Read by report() while a call runs.
  std::atomic<int64_t> calls{0}, replayed{0}, traced{0}, programs{0}, temporaries{0};
  std::mutex why_mutex;
  std::string why_traced;

  std::vector<uint64_t> guard(const std::vector<at::Tensor>& arguments, const std::vector<uint64_t>& others) {
    std::vector<uint64_t> g(others);
    append_modes(g);
    uint64_t bits = 1;
    for (const auto& m : modules) {
      bits = (bits << 1) | m->is_training();
      if (bits >> 63) g.push_back(std::exchange(bits, 1));
    }
    g.push_back(bits);
    for (auto* o : options.optimizers) structure(*o, g);
    append_arguments(g, arguments);
    return g;
  }

  Entry& entry(std::vector<uint64_t> guard, const std::vector<at::Tensor>& arguments, size_t others) {
    for (auto it = entries.begin(); it != entries.end(); ++it) {
      if (it->guard != guard) continue;
      entries.splice(entries.begin(), entries, it);
      return entries.front();
    }
    entries.emplace_front();
    entries.front().guard = std::move(guard);
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

  // Tensors whose gradients the next recorded call may change, beside its arguments: those of named modules
  // and optimizers, and what earlier calls met.
  std::vector<WeakTensor> variables;
  std::unordered_set<const c10::TensorImpl*> known_variables;
  void know(const at::Tensor& t) {
    if (t.defined() && known_variables.insert(t.unsafeGetTensorImpl()).second) variables.push_back(weak(t));
  }

  std::vector<std::pair<torch::optim::Optimizer*, std::weak_ptr<bool>>> met_optimizers;

  // A call that ran under a recording.
  struct Traced {
    std::shared_ptr<Recording> recording;
    std::vector<at::Tensor> results;
    GradientsBefore gradients;
    std::list<OptimizerWatch> optimizers;
    bool perturbs = false;

    void follow(torch::optim::Optimizer& o, uint64_t round) {
      for (const auto& w : optimizers)
        if (&w.optimizer() == &o) return;
      for (auto& group : o.param_groups())
        for (const auto& p : group.params()) gradients.note(p);
      optimizers.emplace_back(o, perturbs, round);
    }
    bool options_changed = false;  // by the call
    bool lr_was_set = false;       // by way of a scheduler: what followed has true numbers
    void end_optimizers() {
      for (auto& o : optimizers) {
        const auto why = o.end();
        lr_was_set |= o.lr_was_set();
        if (!why) continue;
        options_changed = true;
        if (recording->trouble.empty()) recording->trouble = *why;
      }
    }
    void undo() {
      end_optimizers();
      const exec::Lock lock(exec::mutex());
      // What a parameter that was met late has now: where the call made it, there was none, or it is gone.
      for (const auto& b : gradients.all()) {
        at::Tensor& now = b.variable.unsafeGetTensorImpl()->mutable_grad();
        const auto* f = b.late && is_tpu(now) ? recording->found_of(&storage_of(now)) : nullptr;
        if (f && !f->value) now = at::Tensor();
      }
      recording->undo();
      gradients.restore();
      for (auto& o : optimizers) o.undo();
    }
  };

  Traced record(const std::vector<at::Tensor>& arguments, const std::function<std::vector<at::Tensor>()>& run,
                bool notes_zeros, bool perturbs) {
    for (int i = 0; i < exec::device_count(); ++i) exec::materialise(i, {}, "before a compiled step");
    Traced t;
    t.perturbs = perturbs;
    t.recording = std::make_shared<Recording>(options.host_reads, notes_zeros);
    touch_all(*t.recording, arguments);
    for (const auto& a : arguments)
      if (is_tpu(a)) t.gradients.note(a);
    for (const auto& m : modules)
      for (const auto& p : m->parameters(/*recurse=*/false)) know(p);
    for (const auto& v : variables)
      if (const auto alive = v.lock()) t.gradients.note(at::Tensor(alive));
    ++round;
    for (auto* o : options.optimizers) t.follow(*o, round);
    std::erase_if(met_optimizers, [](const auto& o) { return o.second.expired(); });
    for (const auto& o : met_optimizers) t.follow(*o.first, round);
    try {
      const OuterScope outer(t);
      RecordingScope scope(t.recording);
      t.results = run();
    } catch (...) {
      {
        const exec::Lock lock(exec::mutex());
        meet_variables(t);
      }
      t.undo();
      throw;
    }
    t.end_optimizers();
    touch_all(*t.recording, t.results);
    return t;
  }

  // The step that a nested one becomes a part of, on this thread.
  static thread_local Traced* outer;
  class OuterScope {
   public:
    explicit OuterScope(Traced& t) : before_(std::exchange(outer, &t)) {}
    ~OuterScope() { outer = before_; }
    OuterScope(const OuterScope&) = delete;
    OuterScope& operator=(const OuterScope&) = delete;

   private:
    Traced* before_;
  };

  // What this one was told counts for the outer one.
  void join_outer() {
    Recording* r = recording();
    if (!r) return;
    for (const auto& m : modules) r->watch([m] { return m->is_training() ? 1 : 0; });
    if (!outer) return;
    for (const auto& m : modules)
      for (const auto& p : m->parameters(/*recurse=*/false)) outer->gradients.note(p, /*late=*/true);
    for (auto* o : options.optimizers) {
      outer->follow(*o, ++round);
      std::vector<uint64_t> before;
      structure(*o, before);
      r->watch([o, before] {
        std::vector<uint64_t> now;
        structure(*o, now);
        return now == before ? 1 : 0;
      });
    }
  }

  // Leaves that ops were given and that nobody had told of.
  void meet_variables(Traced& t) {
    for (const auto& s : t.recording->seen) {
      const auto alive = s.tensor.lock();
      if (!alive) continue;
      const at::Tensor tensor(alive);
      if (!is_tpu(tensor) || !tensor.is_leaf() || t.gradients.knows(alive.get())) continue;
      if (!tensor.requires_grad() && !alive->grad().defined()) continue;
      const auto* f = t.recording->found_of(&storage_of(tensor));
      if (f && !f->value) continue;  // made by the call
      t.gradients.note(tensor, /*late=*/true);
    }
    for (const auto& v : t.recording->variables) t.gradients.note(v, /*late=*/true);
    for (const auto& b : t.gradients.all())
      if (b.late) know(b.variable);
    for (auto& o : t.recording->optimizers)
      if (std::none_of(met_optimizers.begin(), met_optimizers.end(),
                       [&](auto& x) { return x.first == o.first; }))
        met_optimizers.push_back(std::move(o));
  }

  // What a captured variable could hold that the call hung on.
  static Wanted wanted(const Recorded& r) {
    Wanted w;
    for (const auto& c : r.captured) w.tensors.insert(c.identity);
    for (const auto& n : r.numbers)
      if (n.kind == NumberSource::Kind::constant)
        w.numbers.insert(n.value.dtype == DType::s64 ? static_cast<double>(n.value.integer) : n.value.real);
    return w;
  }

  // Computes what the call left; where that fails everything is as it was before the call.
  Ended finish(Traced& t, const std::vector<at::Tensor>& arguments, const Recorded* before,
               bool only_compile) {
    const exec::TierScope tiers(options.tiered && !only_compile && !runner);
    const exec::Lock lock(exec::mutex());
    try {
      meet_variables(t);
      std::vector<FollowedOptimizer> followed;
      for (const auto& o : t.optimizers)
        if (o.has_numbers()) followed.push_back(o.followed());
      Ended ended = bind_recording(*t.recording, arguments, t.results, t.gradients, std::move(followed),
                                   before, at::GradMode::is_enabled() || !t.optimizers.empty());
      ended.recorded.polluted &= !t.lr_was_set;
      ended.recorded.windows = Closure::current().windows(wanted(ended.recorded));
      if (!ended.recorded.polluted) compute(*t.recording, ended, {runner.get(), only_compile});
      return ended;
    } catch (...) {
      t.results.clear();
      t.undo();
      throw;
    }
  }

  std::vector<at::Tensor> trace(Entry& e, const std::vector<at::Tensor>& arguments,
                                const std::function<std::vector<at::Tensor>()>& run) {
    const bool first = !e.last;
    // What is computed in the middle of the call must have the true options.
    if (!first && e.last->trouble.find("a value on the host") != std::string::npos) e.perturbs = false;
    Traced t = record(arguments, run, /*notes_zeros=*/first, !first && e.perturbs);
    const Recorded* last = first ? nullptr : &*e.last;
    Recorded now = std::move(finish(t, arguments, last, false).recorded);
    if (t.options_changed) e.perturbs = false;
    if (now.polluted) {  // what it made of the options itself is wrong: again, with the true ones
      e.perturbs = false;
      t.results.clear();
      t.undo();
      t = record(arguments, run, false, false);
      now = std::move(finish(t, arguments, last, false).recorded);
    }
    if (!e.perturbs && !now.optimizers.empty() && now.trouble.empty())
      now.trouble = "it computes numbers from the options of an optimizer by itself";
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
      why_traced = why;
    }
    if (e.attempts == kAttempts && !e.replay)
      TORCH_WARN("tpubridge: the compiled step '", options.name, "' is traced at every call: ", why);
    return std::move(t.results);
  }

 private:
  bool warned_programs_ = false;
};

thread_local Engine::Impl::Traced* Engine::Impl::outer = nullptr;

Engine::Engine(StepOptions options, std::shared_ptr<Runner> runner) : impl_(std::make_unique<Impl>()) {
  if (options.programs == 0)
    throw ArgumentError("a compiled step that may keep no program", {},
                        "Set StepOptions::programs to 1 or more.");
  for (auto* o : options.optimizers) {
    if (!o) throw ArgumentError("StepOptions::optimizers holds a null pointer");
    check_optimizer(*o);
  }
  for (const auto& m : options.modules) {
    if (!m) throw ArgumentError("StepOptions::modules holds a null pointer");
    for (auto& child : m->modules()) impl_->modules.push_back(child);
  }
  impl_->options = std::move(options);
  impl_->runner = std::move(runner);
  auto& all = registry();
  const std::lock_guard lock(all.mutex);
  if (!std::exchange(all.told, true)) exec::add_to_report(lines_of_report);
  all.engines.push_back(this);
}

Engine::~Engine() {
  auto& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase(all.engines, this);
}

std::vector<at::Tensor> Engine::call(const std::vector<at::Tensor>& arguments,
                                     const std::vector<uint64_t>& others,
                                     const std::function<std::vector<at::Tensor>()>& run,
                                     std::shared_ptr<void>& form) {
  Impl& m = *impl_;
  if (recording() || exec::eager()) {  // part of an outer step, or of a search for a fault
    m.join_outer();
    return run();
  }
  const std::lock_guard lock(m.mutex);
  if (m.runner) m.runner->begin(arguments);
  ++m.calls;
  Entry& e = m.entry(m.guard(arguments, others), arguments, others.size());
  if (e.replay) {
    if (auto results = e.replay->run(arguments)) {
      ++m.replayed;
      form = e.form;
      return std::move(*results);
    }
    e.last = std::move(*e.replay).take();
    e.replay.reset();
    e.attempts = 0;
  }
  ++m.traced;
  auto results = m.trace(e, arguments, run);
  e.form = form;
  return results;
}

std::shared_ptr<const void> Engine::prepare(const std::vector<at::Tensor>& arguments,
                                            const std::function<std::vector<at::Tensor>()>& run) {
  Impl& m = *impl_;
  const std::lock_guard one_at_a_time(m.mutex);
  if (m.runner) m.runner->begin(arguments);
  auto t = m.record(arguments, run, /*notes_zeros=*/true, /*perturbs=*/false);
  Ended ended = m.finish(t, arguments, nullptr, true);
  t.results.clear();
  t.undo();
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
