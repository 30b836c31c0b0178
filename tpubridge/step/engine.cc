// The life of a compiled step: trace until two calls are alike, then replay; trace again when the guard
// fails.
#include <ATen/autocast_mode.h>
#include <torch/nn/module.h>

#include <atomic>
#include <list>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/compute_type.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/step/compile.h"
#include "tpubridge/step/optimizers.h"
#include "tpubridge/step/replay.h"

namespace tpubridge::step {
namespace {

// Everything under one guard.
struct Entry {
  std::vector<uint64_t> guard;
  std::optional<Recorded> last;
  std::optional<Replay> replay;
  std::shared_ptr<void> shape;
  int attempts = 0;
};

// After so many calls without two alike, it is said once that the step is traced at every call.
constexpr int kAttempts = 6;

void append(std::vector<uint64_t>& guard, const at::Tensor& t) {
  if (!t.defined()) {
    guard.push_back(~uint64_t{0});
    return;
  }
  guard.push_back((static_cast<uint64_t>(t.scalar_type()) << 32) | (static_cast<uint64_t>(t.dim()) << 16) |
                  (static_cast<uint64_t>(t.device().type()) << 8) | static_cast<uint8_t>(t.device().index()));
  guard.push_back((static_cast<uint64_t>(t.storage_offset()) << 1) | t.requires_grad());
  for (int64_t d : t.sizes()) guard.push_back(static_cast<uint64_t>(d));
  for (int64_t d : t.strides()) guard.push_back(static_cast<uint64_t>(d));
}

// What each word of a guard says, for people; `before` words stand before those of the arguments.
std::vector<std::string> labels(const std::vector<at::Tensor>& arguments, size_t others, size_t before) {
  std::vector<std::string> out;
  for (size_t i = 0; i < others; ++i) out.push_back("number " + std::to_string(i) + " among the arguments");
  out.resize(before, "a mode (grad, autocast, types of layers, train or eval, an optimizer's options)");
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string which = "tensor " + std::to_string(i) + " among the arguments";
    const int64_t dims = arguments[i].defined() ? arguments[i].dim() : 0;
    out.push_back("element type or device of " + which);
    if (arguments[i].defined()) out.push_back("offset or requires_grad of " + which);
    for (int64_t d = 0; d < dims; ++d) out.push_back("size " + std::to_string(d) + " of " + which);
    for (int64_t d = 0; d < dims; ++d) out.push_back("stride " + std::to_string(d) + " of " + which);
    out.push_back("memory that is shared with " + which);
  }
  return out;
}

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
    const bool autocast = at::autocast::is_autocast_enabled(at::kPrivateUse1);
    g.push_back(
        static_cast<uint64_t>(at::GradMode::is_enabled()) | (c10::InferenceMode::is_enabled() ? 2 : 0) |
        (autocast ? 4 : 0) | (at::globalContext().deterministicAlgorithms() ? 8 : 0) |
        (autocast ? static_cast<uint64_t>(at::autocast::get_autocast_dtype(at::kPrivateUse1)) << 8 : 0));
    g.push_back(static_cast<uint64_t>(at::globalContext().float32MatmulPrecision()));
    g.push_back(compute_type_changes());
    uint64_t bits = 1;
    for (const auto& m : modules) {
      bits = (bits << 1) | m->is_training();
      if (bits >> 63) g.push_back(std::exchange(bits, 1));
    }
    g.push_back(bits);
    for (auto* o : options.optimizers)
      for (uint64_t word : structure(*o)) g.push_back(word);
    std::vector<const c10::StorageImpl*> seen;  // which arguments share a storage
    for (const auto& t : arguments) {
      append(g, t);
      const auto* s = t.defined() ? t.storage().unsafeGetStorageImpl() : nullptr;
      g.push_back(static_cast<uint64_t>(std::find(seen.begin(), seen.end(), s) - seen.begin()));
      seen.push_back(s);
    }
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
      TORCH_WARN("tpubridge: the compiled step '", options.name, "' was called in more than ",
                 options.programs, " ways: ", changes(arguments, others),
                 ". Each is a program of its own; pad to a few fixed sizes, or raise "
                 "StepOptions::programs.");
    }
    while (entries.size() > options.programs) entries.pop_back();
    programs = static_cast<int64_t>(entries.size());
    return entries.front();
  }

  // What differs between the two latest guards.
  std::string changes(const std::vector<at::Tensor>& arguments, size_t others) const {
    const auto &a = std::next(entries.begin())->guard, &b = entries.front().guard;
    if (a.size() != b.size()) return "other arguments, or another number of dimensions";
    std::vector<uint64_t> of_arguments;
    for (const auto& t : arguments) {
      append(of_arguments, t);
      of_arguments.push_back(0);
    }
    const auto names = labels(arguments, others, b.size() - of_arguments.size());
    std::string text;
    for (size_t i = 0; i < a.size(); ++i) {
      const bool stride = names[i].rfind("stride", 0) == 0;  // follows a size that changed
      if (a[i] == b[i] || (stride && !text.empty())) continue;
      text += (text.empty() ? "" : ", ") + names[i];
      if (names[i].rfind("size", 0) != 0) continue;
      text += " went from " + std::to_string(a[i]) + " to " + std::to_string(b[i]);
      if (b[i] > 0 && b[i] < (1u << 30)) text += " (pad to " + std::to_string(std::bit_ceil(b[i])) + ")";
    }
    return text;
  }

  std::vector<double> numbers() {
    std::vector<double> out;
    for (auto* o : options.optimizers)
      for (double v : next_numbers(*o)) out.push_back(v);
    return out;
  }

  // A call that ran under a recording.
  struct Traced {
    std::shared_ptr<Recording> recording;
    std::vector<at::Tensor> results;
    std::vector<double> perturbed, plain;

    void undo() const {
      const exec::Lock lock(exec::mutex());
      recording->undo();
    }
  };

  Traced record(const std::vector<at::Tensor>& arguments, const std::function<std::vector<at::Tensor>()>& run,
                bool notes_zeros) {
    for (int i = 0; i < exec::device_count(); ++i) exec::materialise(i, {}, "before a compiled step");
    Traced t;
    t.recording = std::make_shared<Recording>(options.host_reads, notes_zeros);
    touch_all(*t.recording, arguments);
    t.plain = numbers();
    try {
      std::list<PerturbedOptions> changed;
      ++round;
      for (auto* o : options.optimizers) changed.emplace_back(*o, round);
      t.perturbed = numbers();
      RecordingScope scope(t.recording);
      t.results = run();
    } catch (...) {
      t.undo();
      throw;
    }
    touch_all(*t.recording, t.results);
    return t;
  }

  Recorded finish(const Traced& t, const std::vector<at::Tensor>& arguments, bool only_compile) {
    const exec::TierScope tiers(options.tiered && !only_compile && !runner);
    try {
      return finish_recording(*t.recording, arguments, t.results, t.perturbed, t.plain,
                              {runner.get(), only_compile});
    } catch (...) {
      if (runner || only_compile) t.undo();  // otherwise values know what went wrong
      throw;
    }
  }

  std::vector<at::Tensor> trace(Entry& e, const std::vector<at::Tensor>& arguments,
                                const std::function<std::vector<at::Tensor>()>& run) {
    Traced t = record(arguments, run, /*notes_zeros=*/!e.last);
    Recorded now = finish(t, arguments, false);
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
                                     std::shared_ptr<void>*& shape) {
  if (recording() || exec::eager()) return run();  // part of an outer step, or of a search for a fault
  Impl& m = *impl_;
  const std::lock_guard lock(m.mutex);
  if (m.runner) m.runner->begin(arguments);
  ++m.calls;
  Entry& e = m.entry(m.guard(arguments, others), arguments, others.size());
  shape = &e.shape;
  if (e.replay) {
    if (auto results = e.replay->run(arguments, m.numbers())) {
      for (auto* o : m.options.optimizers) count_step(*o);
      ++m.replayed;
      return std::move(*results);
    }
    e.replay.reset();
    e.attempts = 0;
  }
  ++m.traced;
  return m.trace(e, arguments, run);
}

std::shared_ptr<const void> Engine::prepare(const std::vector<at::Tensor>& arguments,
                                            const std::function<std::vector<at::Tensor>()>& run) {
  Impl& m = *impl_;
  const std::lock_guard one_at_a_time(m.mutex);
  if (m.runner) m.runner->begin(arguments);
  const HostState host(m.options.optimizers);  // puts back what the function does to them
  const auto t = m.record(arguments, run, /*notes_zeros=*/true);
  Recorded recorded = m.finish(t, arguments, true);
  t.undo();
  return std::move(recorded.compiled);
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
