// The life of a compiled step: trace until two calls are alike, then replay; trace again when the guard
// fails.
#include <ATen/autocast_mode.h>
#include <torch/nn/module.h>

#include <list>

#include "tpubridge/base/errors.h"
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

// Tensors that the step may not look at, but hands through.
void touch_all(Recording& r, const std::vector<at::Tensor>& tensors) {
  exec::Lock lock(exec::mutex());
  for (const auto& t : tensors)
    if (is_tpu(t)) r.touch(storage_of(t));
}

}  // namespace

struct Engine::Impl {
  StepOptions options;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;  // all of them, children too
  std::mutex mutex;
  std::list<Entry> entries;  // most recently used first
  StepReport report;
  uint64_t round = 0;

  std::vector<uint64_t> guard(const std::vector<at::Tensor>& arguments, const std::vector<uint64_t>& others) {
    std::vector<uint64_t> g(others);
    const bool autocast = at::autocast::is_autocast_enabled(at::kPrivateUse1);
    g.push_back(
        static_cast<uint64_t>(at::GradMode::is_enabled()) | (c10::InferenceMode::is_enabled() ? 2 : 0) |
        (autocast ? 4 : 0) | (at::globalContext().deterministicAlgorithms() ? 8 : 0) |
        (autocast ? static_cast<uint64_t>(at::autocast::get_autocast_dtype(at::kPrivateUse1)) << 8 : 0));
    g.push_back(static_cast<uint64_t>(at::globalContext().float32MatmulPrecision()));
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

  Entry& entry(std::vector<uint64_t> guard) {
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
                 options.programs, " ways: ", changes(),
                 ". Each is a program of its own; pad to a few fixed sizes, or raise "
                 "StepOptions::programs.");
    }
    while (entries.size() > options.programs) entries.pop_back();
    return entries.front();
  }

  // What differs between the two latest guards, as far as it can be said without names.
  std::string changes() const {
    const auto &a = std::next(entries.begin())->guard, &b = entries.front().guard;
    if (a.size() != b.size()) return "other arguments";
    std::string text;
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i])
        text += (text.empty() ? "" : ", ") + std::to_string(a[i]) + " became " + std::to_string(b[i]) +
                (b[i] > 0 && b[i] < (1u << 30)
                     ? " (next power of two: " + std::to_string(std::bit_ceil(b[i])) + ")"
                     : "");
    return "a dimension or number of its arguments, " + text;
  }

  std::vector<double> numbers() {
    std::vector<double> out;
    for (auto* o : options.optimizers)
      for (double v : next_numbers(*o)) out.push_back(v);
    return out;
  }

  std::vector<at::Tensor> trace(Entry& e, const std::vector<at::Tensor>& arguments,
                                const std::function<std::vector<at::Tensor>()>& run) {
    for (int i = 0; i < exec::device_count(); ++i) exec::materialise(i, {}, "before a compiled step");
    auto recording = std::make_shared<Recording>(options.host_reads);
    touch_all(*recording, arguments);
    const auto plain = numbers();
    std::vector<double> perturbed;
    std::vector<at::Tensor> results;
    try {
      std::list<PerturbedOptions> changed;
      ++round;
      for (auto* o : options.optimizers) changed.emplace_back(*o, round);
      perturbed = numbers();
      RecordingScope scope(recording);
      results = run();
    } catch (...) {
      exec::Lock lock(exec::mutex());
      recording->undo();
      throw;
    }
    touch_all(*recording, results);
    Recorded now = finish_recording(*recording, arguments, results, perturbed, plain);
    ++e.attempts;
    report.why_traced = e.last                ? difference(*e.last, now)
                        : now.trouble.empty() ? "it was called once so far"
                                              : now.trouble;
    if (report.why_traced.empty())
      e.replay.emplace(std::move(now)), e.last.reset();
    else
      e.last = std::move(now);
    if (e.attempts == kAttempts && !e.replay)
      TORCH_WARN("tpubridge: the compiled step '", options.name,
                 "' is traced at every call: ", report.why_traced);
    return results;
  }

 private:
  bool warned_programs_ = false;
};

Engine::Engine(StepOptions options) : impl_(std::make_unique<Impl>()) {
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
  impl_->report.name = options.name;
  impl_->options = std::move(options);
}

Engine::~Engine() = default;

std::vector<at::Tensor> Engine::call(const std::vector<at::Tensor>& arguments,
                                     const std::vector<uint64_t>& others,
                                     const std::function<std::vector<at::Tensor>()>& run,
                                     std::shared_ptr<void>*& shape) {
  if (recording() || exec::eager()) return run();  // part of an outer step, or of a search for a fault
  Impl& m = *impl_;
  const std::lock_guard lock(m.mutex);
  ++m.report.calls;
  Entry& e = m.entry(m.guard(arguments, others));
  shape = &e.shape;
  if (e.replay) {
    if (auto results = e.replay->run(arguments, m.numbers())) {
      for (auto* o : m.options.optimizers) count_step(*o);
      ++m.report.replayed;
      return std::move(*results);
    }
    e.replay.reset();
    e.attempts = 0;
  }
  ++m.report.traced;
  return m.trace(e, arguments, run);
}

StepReport Engine::report() const {
  const std::lock_guard lock(impl_->mutex);
  StepReport r = impl_->report;
  r.programs = impl_->entries.size();
  return r;
}

}  // namespace tpubridge::step
