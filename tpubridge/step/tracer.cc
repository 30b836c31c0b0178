#include "tpubridge/step/tracer.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>

#include "tpubridge/exec/in_work.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::step {
namespace {

// The call that a nested step becomes a part of, on this thread.
thread_local TracedCall* outer = nullptr;
class OuterScope {
 public:
  explicit OuterScope(TracedCall& c) : before_(std::exchange(outer, &c)) {}
  ~OuterScope() { outer = before_; }
  OuterScope(const OuterScope&) = delete;
  OuterScope& operator=(const OuterScope&) = delete;

 private:
  TracedCall* before_;
};

// What decides which ops the optimizer's step has must stay what it is.
void watch_structure(Recording& r, torch::optim::Optimizer* o) {
  std::vector<uint64_t> before;
  structure(*o, before);
  r.watch([o, before] {
    std::vector<uint64_t> now;
    structure(*o, now);
    return now == before ? 1 : 0;
  });
}

// … and what it works on, from the end of the call on: the first one makes its state.
void watch_tensors(Recording& r, const TracedCall::Followed& f) {
  if (f.life && f.life->expired()) return;
  std::vector<uint64_t> before;
  tensors_of(*f.optimizer, before);
  r.watch([f, before] {
    if (f.life && f.life->expired()) return 0;
    std::vector<uint64_t> now;
    tensors_of(*f.optimizer, now);
    return now == before ? 1 : 0;
  });
}

// What a captured variable could hold that the call hung on.
Wanted wanted(const Recorded& r, const TracedCall& call) {
  Wanted w;
  for (const auto& c : r.captured) w.addresses.insert(c.identity);
  for (const auto& m : call.modules) w.addresses.insert(m.get());
  for (const auto& o : r.optimizers) w.addresses.insert(o.optimizer), w.optimizers.insert(o.optimizer);
  for (const auto& m : r.modules)
    if (const auto at = reinterpret_cast<uintptr_t>(m.at); !m.bytes.empty())
      w.compared.push_back({at, at + m.bytes.size()});
  std::ranges::sort(w.compared, {}, &Range::begin);
  for (const auto& n : r.numbers)
    if (n.kind == NumberSource::Kind::constant)
      w.numbers.insert(n.value.dtype == DType::s64 ? static_cast<double>(n.value.integer) : n.value.real);
  return w;
}

// What the call left to be computed.
std::vector<trace::Value> pending_of(const Recording& r) {
  std::vector<trace::Value> out;
  for (const auto& f : r.found) {
    if (f.zeros && f.zeros->is_pending()) out.push_back(f.zeros);
    const auto alive = f.storage.lock();
    if (!alive) continue;
    const trace::Value& now = static_cast<Storage&>(*alive).slot.value();
    if (now && now->is_pending()) out.push_back(now);
  }
  return out;
}

}  // namespace

void TracedCall::follow(torch::optim::Optimizer& o, uint64_t seed,
                        const std::optional<std::weak_ptr<bool>>& life) {
  for (auto& group : o.param_groups())
    for (const auto& p : group.params()) gradients.note(p);
  followed.push_back({&o, life});
  std::string why = optimizers.follow(o, seed, life);
  if (recording->trouble.empty()) recording->trouble = std::move(why);
}

void TracedCall::end_optimizers() {
  std::string why = optimizers.end();
  if (recording->trouble.empty()) recording->trouble = std::move(why);
}

void TracedCall::undo() {
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
  optimizers.undo();
}

Tracer::Tracer(const StepOptions& options, Runner* runner) : options_(options), runner_(runner) {
  for (const auto& m : options.modules) modules.add(m);
}

void Tracer::know(const at::Tensor& t) {
  if (t.defined() && known_variables_.insert(t.unsafeGetTensorImpl()).second) variables_.push_back(weak(t));
}

std::unique_ptr<TracedCall> Tracer::record(const std::vector<at::Tensor>& arguments, const Function& run,
                                           bool notes_zeros) {
  for (int i = 0; i < exec::device_count(); ++i) exec::materialise(i, {}, "before a compiled step");
  auto call = std::make_unique<TracedCall>();
  TracedCall& c = *call;
  c.recording = std::make_shared<Recording>(options_.host_reads, notes_zeros);
  Recording& r = *c.recording;
  r.number_made = [&c](const trace::Value& v) { c.optimizers.made(v); };
  r.is_followed = [&c] { return c.optimizers.steps(); };
  touch_all(r, arguments);
  for (const auto& a : arguments)
    if (is_tpu(a)) c.gradients.note(a);
  c.modules = modules.all();
  r.knows_modes = !c.modules.empty();
  for (const auto& m : c.modules)
    for (const auto& p : m->parameters(/*recurse=*/false)) know(p);
  for (const auto& v : variables_)
    if (const auto alive = v.lock()) c.gradients.note(at::Tensor(alive));
  ++seed_;
  for (auto* o : options_.optimizers) c.follow(*o, seed_);
  std::erase_if(met_optimizers_, [](const auto& o) { return o.second.expired(); });
  for (const auto& o : met_optimizers_) c.follow(*o.first, seed_, o.second);
  for (auto* o : captured_optimizers(Closure::current())) {
    c.follow(*o, seed_);
    c.followed.pop_back();  // it may die in the call: looked at before it
    watch_structure(r, o);
    watch_tensors(r, {o, std::nullopt});
  }
  try {
    const OuterScope scope_of_outer(c);
    RecordingScope scope(c.recording);
    c.results = run();
  } catch (...) {
    {
      const exec::Lock lock(exec::mutex());
      meet_variables(c);
    }
    c.undo();
    throw;
  }
  c.end_optimizers();
  for (const auto& f : c.followed) watch_tensors(r, f);
  touch_all(r, c.results);
  return call;
}

void Tracer::join_outer() {
  Recording* r = recording();
  if (!r) return;
  for (const auto& m : modules.all()) {
    r->watch([m] { return m->is_training() ? 1 : 0; });
    r->knows_modes = true;
    if (outer) outer->modules.push_back(m);
  }
  if (!outer) return;
  outer->closures.push_back(Closure::current());
  for (const auto& m : modules.all())
    for (const auto& p : m->parameters(/*recurse=*/false)) outer->gradients.note(p, /*late=*/true);
  for (auto* o : options_.optimizers) {
    outer->follow(*o, ++seed_);
    watch_structure(*r, o);
  }
}

// Leaves that ops were given and that nobody had told of.
void Tracer::meet_variables(TracedCall& c) {
  for (const auto& s : c.recording->seen) {
    const auto alive = s.tensor.lock();
    if (!alive) continue;
    const at::Tensor tensor(alive);
    if (!is_tpu(tensor) || !tensor.is_leaf() || c.gradients.knows(alive.get())) continue;
    if (!tensor.requires_grad() && !alive->grad().defined()) continue;
    const auto* f = c.recording->found_of(&storage_of(tensor));
    if (f && !f->value) continue;  // made by the call
    c.gradients.note(tensor, /*late=*/true);
  }
  for (const auto& v : c.recording->variables) c.gradients.note(v, /*late=*/true);
  for (const auto& b : c.gradients.all())
    if (b.late) know(b.variable);
  for (auto& o : c.recording->optimizers)
    if (std::none_of(met_optimizers_.begin(), met_optimizers_.end(),
                     [&](auto& x) { return x.first == o.first; }))
      met_optimizers_.push_back(std::move(o));
}

Ended Tracer::finish(TracedCall& c, const std::vector<at::Tensor>& arguments, bool only_compile) {
  const exec::TierScope tiers(options_.tiered && !only_compile && !runner_);
  const exec::Lock lock(exec::mutex());
  try {
    while (exec::wait_for_others(pending_of(*c.recording))) {
    }
    meet_variables(c);
    Ended ended = bind_recording(*c.recording, arguments, c.results, c.gradients, c.optimizers,
                                 at::GradMode::is_enabled() || !c.optimizers.empty());
    Recorded& out = ended.recorded;
    for (const auto& m : c.modules) out.modules.push_back(image_of(m));
    c.closures.insert(c.closures.begin(), Closure::current());
    const Wanted looked_for = wanted(out, c);
    for (const auto& closure : c.closures) out.looks.push_back({closure, closure.windows(looked_for)});
    for (auto& found : {Closure::globals(looked_for), behind(out.modules, looked_for)})
      out.looks[0].windows.insert(out.looks[0].windows.end(), found.begin(), found.end());
    compute(*c.recording, ended, {runner_, only_compile});
    return ended;
  } catch (...) {
    c.results.clear();
    c.undo();
    throw;
  }
}

}  // namespace tpubridge::step
