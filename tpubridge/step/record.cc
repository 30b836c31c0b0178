// From a recording to sources and targets, and the program of the call.
#include "tpubridge/step/record.h"

#include <set>

#include "tpubridge/device/dtype.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/in_work.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/step/binder.h"

namespace tpubridge::step {
namespace {

using trace::Value;

// A result as data, whatever node gave it.
trace::SpecPtr data_spec(const Value& root) {
  const Shape& shape = root.shape();
  return std::make_shared<const trace::Spec>(nullptr, std::vector<trace::Arg>(), std::vector{shape},
                                             shape.dtype);
}

// Tensors from outside that ops were given: they must be as they were, and some were written.
void bind_captured(Recorded& out, const Recording& r, const std::vector<at::Tensor>& arguments,
                   const Binder& binder) {
  out.argument_writes.assign(arguments.size(), 0);
  std::unordered_map<const c10::TensorImpl*, size_t> argument_of;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].defined()) argument_of.try_emplace(arguments[i].unsafeGetTensorImpl(), i);
  for (const auto& seen : r.seen) {
    const auto t = seen.tensor.lock();
    if (!t) continue;
    const at::Tensor tensor(t);
    const uint32_t written = version_of(*t) - seen.version;
    bool changed = !seen.facts.hold(*t);
    if (const auto it = argument_of.find(t.get()); it != argument_of.end()) {
      out.argument_writes[it->second] = written;
      if (changed && out.trouble.empty())
        out.trouble = "it changes what one of its arguments is (sizes, requires_grad)";
      continue;
    }
    if (is_tpu(tensor)) {
      const Storage* s = &storage_of(tensor);
      const auto* f = r.found_of(s);
      if (!changed && ((f && !f->value) || binder.argument(s) || binder.slot(s))) continue;
    }
    changed |= seen.facts.hooks != hooks_of(*t);
    if (changed && out.trouble.empty())
      out.trouble = "it changes what a tensor from outside is (sizes, storage, requires_grad, hooks)";
    if (has_unseen_hooks(*t) && out.trouble.empty())
      out.trouble = "a tensor from outside has hooks of another language than C++";
    out.captured.push_back({seen.tensor, t.get(), seen.facts, written});
  }
}

// What became of each gradient.
void bind_gradients(Recorded& out, const Recording& r, const std::vector<at::Tensor>& arguments,
                    const GradientsBefore& gradients, Binder& binder, bool any) {
  any |= r.backward || !out.optimizers.empty();
  for (const auto& b : gradients.all()) {
    const at::Tensor& now = b.variable.unsafeGetTensorImpl()->grad();
    any |= !now.is_same(b.gradient) || (is_tpu(b.gradient) && r.found_of(&storage_of(b.gradient)));
  }
  for (const auto& b : gradients.all()) {
    GradientSlot s;
    c10::TensorImpl* v = b.variable.unsafeGetTensorImpl();
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].is_same(b.variable)) s.variable.argument = i;
    s.variable.identity = v;
    s.variable.tensor = weak(b.variable);
    s.late = b.late;
    const at::Tensor &before = b.gradient, &now = v->grad();
    for (const auto& g : {before, now})
      if (any && g.defined() && !is_tpu(g) && is_tpu(b.variable)) binder.trouble("a gradient is on the host");
    const bool touched = is_tpu(before) && r.found_of(&storage_of(before));
    if (is_tpu(before)) {
      s.facts = TensorFacts(before);
      s.bytes = storage_of(before).nbytes();
      s.found = weak(storage_of(before));
    }
    if (any && is_tpu(b.variable)) {
      s.end = now.is_same(before) ? GradientSlot::End::same
              : now.defined()     ? GradientSlot::End::assigned
                                  : GradientSlot::End::cleared;
      // One that was thrown away unseen would have been so whatever it was.
      s.start = !before.defined()                             ? GradientSlot::Start::undefined
                : touched || s.end == GradientSlot::End::same ? GradientSlot::Start::defined
                                                              : GradientSlot::Start::any;
      if (s.end == GradientSlot::End::assigned) {
        s.given = binder.given(now);
        s.requires_grad = now.requires_grad();
        s.version = version_of(*now.unsafeGetTensorImpl());
      } else if (now.defined()) {
        s.version = version_of(*now.unsafeGetTensorImpl()) - b.version;
      }
    } else if (is_tpu(b.variable) && !before.defined()) {
      // It may have been cleared, which shows where there is one. Of one that was there it is known.
      s.start = GradientSlot::Start::undefined;
    }
    out.slots.push_back(std::move(s));
  }
}

// A tensor that the call made and left somewhere it does not give it from: the next call would leave another.
void check_escapes(Recorded& out, const Binder& binder) {
  for (const auto& t : out.targets)
    if (t.kind == Target::Kind::fresh && !binder.is_given(t.identity) && out.trouble.empty())
      out.trouble = "it makes a tensor that outlives it and that it does not return";
}

std::string_view user_of(const trace::Graph& graph, const trace::Node* number) {
  for (const auto* n : graph.nodes)
    for (const auto& o : n->operands())
      if (o.node() == number) return n->op()->name;
  return "?";
}

void bind_numbers(Recorded& out, const trace::Graph& graph, const Recording& r,
                  const OptimizerWatches& optimizers) {
  std::unordered_map<const trace::Node*, NumberSource> known;
  for (size_t i = 0; i < r.drawn.size(); ++i)
    for (const auto& [seed, offset] : r.drawn[i].numbers) {
      known[seed.node()] = {NumberSource::Kind::seed, i, {}, {}};
      known[offset.node()] = {NumberSource::Kind::offset, i, {}, {}};
    }
  for (size_t i = 0; i < r.fed.size(); ++i)
    known[r.fed[i].number.node()] = {NumberSource::Kind::fed, i, {}, {}};
  for (const auto* n : graph.numbers) {
    NumberSource s;
    if (const auto it = known.find(n); it != known.end()) s = it->second;
    if (const auto j = optimizers.number_of(n)) s = {NumberSource::Kind::optimizer, *j, {}, {}};
    s.value = n->number();
    s.user = user_of(graph, n);
    out.numbers.push_back(std::move(s));
  }
}

// What the storage holds; only for one that is alive.
const Value& held(const Recording::Found& f) { return static_cast<Storage&>(*f.storage.lock()).slot.value(); }

// The places in `found` of storages that hold something else now. No values: a copy would count as a holder.
std::vector<size_t> written_by(const Recording& r) {
  std::vector<size_t> out;
  for (size_t i = 0; i < r.found.size(); ++i)
    if (!r.found[i].storage.expired())
      if (const Value& now = held(r.found[i]); now && now != r.found[i].value) out.push_back(i);
  return out;
}

// What the call found is held by the graph alone, so that the program may take it over.
class Released {
 public:
  Released(Recording& r, const trace::Graph& graph) : r_(r) {
    std::set<std::pair<const trace::Node*, uint32_t>> leaves;
    for (const auto& leaf : graph.leaves) leaves.emplace(leaf.node, leaf.index);
    for (size_t i = 0; i < r.found.size(); ++i) {
      Value& v = r.found[i].value;
      if (!v || !leaves.contains({v.node(), v.index()})) continue;
      places_.push_back({i, v.node(), v.index()});
      v = Value();
    }
  }
  void put_back() {  // while the graph is there to hold them
    for (const auto& p : places_) r_.found[p.found].value = Value(p.node, p.index);
  }

 private:
  struct Place {
    size_t found;
    trace::Node* node;
    uint32_t index;
  };
  Recording& r_;
  std::vector<Place> places_;
};

// The same as exec::run_whole(), by a runner.
void run_by(Runner& runner, const trace::Graph& graph, Recorded& out, bool only_compile) {
  for (size_t i = 0; i < out.leaves; ++i) {
    const auto& s = out.sources[i];
    out.split.push_back(s.kind == Source::Kind::argument && runner.splits(s.argument));
  }
  const exec::Ready ready = [&] {
    const exec::InWork work(graph);
    return runner.program(graph, out.split);
  }();
  out.compiled = ready.program;
  if (only_compile) return;
  const auto keep = exec::still_seen(graph, ready.program->donated);
  std::vector<Runner::Input> inputs;
  for (size_t i = 0; i < out.leaves; ++i) {
    if (out.split[i])
      inputs.push_back({nullptr, out.sources[i].argument});
    else
      inputs.push_back({graph.leaves[i].node->data(graph.leaves[i].index)});
  }
  std::vector<pjrt::Buffer> held;
  std::vector<std::vector<const pjrt::Buffer*>> packs;
  const auto numbers = lower::number_packs(graph);
  held.reserve(numbers.size() * static_cast<size_t>(runner.devices()));
  for (const auto& pack : numbers) {
    auto& of_one = packs.emplace_back();
    for (int d = 0; d < runner.devices(); ++d)
      of_one.push_back(&held.emplace_back(
          exec::client().to_device(pjrt::HostArray{pack.bytes.data(), pack.shape, {}}, exec::device(d))));
  }
  ready.count();
  exec::count_materialisation("partitioned call");
  auto outputs = runner.run(*ready.program, inputs, packs, keep);
  inputs.clear();
  (void)exec::resolve(graph, std::move(outputs));
  std::vector<Runner::Kept> kept;
  for (const auto& t : out.targets)
    if (t.kind == Target::Kind::captured && t.is_root) kept.push_back({t.from, t.identity->slot.value()});
  runner.keep(kept);
}

// What the host gave must still be there when nobody but the user holds it: else its memory was borrowed.
void check_host_sources(Recorded& out) {
  auto gone = [](const HostSource& h) { return !h.argument && h.storage.expired(); };
  bool any = false;
  for (const auto& s : out.sources) any |= s.kind == Source::Kind::host && gone(s.host);
  for (const auto& f : out.fed) any |= !f.ask && gone(f.host);
  if (any && out.trouble.empty())
    out.trouble = "it copies a tensor of the host that is gone when it ends (make it outside, or pass it)";
}

}  // namespace

void touch_all(Recording& r, const std::vector<at::Tensor>& tensors) {
  exec::Lock lock(exec::mutex());
  for (const auto& t : tensors)
    if (is_tpu(t)) r.touch(storage_of(t));
}

at::Tensor HostSource::get(const std::vector<at::Tensor>& arguments) const {
  if (argument) {
    const at::Tensor& a = arguments[*argument];
    if (offset == 0 && a.sizes() == sizes && a.strides() == strides) return a;
    return a.detach().as_strided(sizes, strides, a.storage_offset() + offset);
  }
  const auto alive = storage.lock();
  if (!alive) return {};
  return at::empty({0}, at::TensorOptions(dtype)).set_(c10::Storage(alive), offset, sizes, strides);
}

Ended bind_recording(Recording& r, const std::vector<at::Tensor>& arguments,
                     const std::vector<at::Tensor>& returned, const GradientsBefore& gradients,
                     const OptimizerWatches& optimizers, bool gradients_matter) {
  Ended ended;
  Recorded& out = ended.recorded;
  r.found_zeros(returned);
  r.check_generators();
  out.trouble = r.trouble;
  out.optimizers = optimizers.followed();
  out.options = optimizers.options();
  Binder binder(r, arguments, gradients, out);
  for (const auto& a : arguments) {
    auto* s = a.defined() && a.has_storage() ? a.storage().unsafeGetStorageImpl() : nullptr;
    out.argument_storages.push_back(s ? weak(*s) : no_storage());
    out.argument_identities.push_back(s);
  }
  for (const auto& a : arguments)
    if (is_tpu(a) && storage_of(a).quantized)
      binder.trouble("an argument is a quantised weight (capture it)");
  out.argument_varies.assign(arguments.size(), false);
  out.slot_varies.assign(gradients.all().size(), false);
  for (const auto& a : arguments)
    if (a.defined() && hooks_of(*a.unsafeGetTensorImpl()) != 0)
      binder.trouble("an argument has hooks, which may be others at the next call");
  for (const auto& a : arguments)
    if (a.defined() && a.requires_grad() && !a.is_leaf() && r.backward)
      binder.trouble("an argument brings a history of its own, through which backward runs");
  const auto written = written_by(r);
  std::vector<Value> roots;
  for (const size_t i : written)
    if (const Value& now = held(r.found[i]); now->is_pending()) roots.push_back(now);
  out.device = roots.empty() ? 0 : roots[0]->device();
  if (roots.empty()) binder.trouble("it computes nothing on the device");
  for (const auto& v : roots)
    if (v->device() != out.device) {
      out.trouble = "it computes on more than one device";
      return ended;
    }
  if (roots.empty()) return ended;

  ended.graph = trace::collect(std::move(roots));
  const trace::Graph& graph = ended.graph;
  out.outline = trace::outline_of(graph);
  for (const auto& leaf : graph.leaves) binder.source(leaf.node, leaf.index);
  out.leaves = out.sources.size();
  for (const auto& root : graph.roots) out.results.push_back(data_spec(root));
  for (const size_t i : written) {
    const auto& f = r.found[i];
    const auto alive = f.storage.lock();
    auto& s = static_cast<Storage&>(*alive);
    const Value& now = s.slot.value();
    Target t;
    t.identity = &s;
    t.geometry = s.geometry;
    t.bytes = s.nbytes();
    if (const auto a = binder.argument(&s)) {
      t.kind = Target::Kind::argument;
      t.argument = *a;
    } else if (const auto k = binder.slot(&s)) {
      t.kind = Target::Kind::gradient;
      t.argument = *k;
    } else {
      t.kind = f.value ? Target::Kind::captured : Target::Kind::fresh;
      t.storage = f.storage;
    }
    if (now->is_pending()) {
      t.from =
          static_cast<size_t>(std::find(graph.roots.begin(), graph.roots.end(), now) - graph.roots.begin());
    } else {
      t.is_root = false;
      t.from = binder.source(now.node(), now.index());
    }
    out.targets.push_back(std::move(t));
  }
  for (const auto& t : returned) out.returned.push_back(binder.given(t));
  bind_gradients(out, r, arguments, gradients, binder, gradients_matter);
  bind_captured(out, r, arguments, binder);
  check_escapes(out, binder);
  bind_numbers(out, graph, r, optimizers);
  for (const auto& d : r.drawn) out.draws.push_back({d.generator, d.elements});
  for (auto& f : r.fed) {
    FedNumber fed{std::move(f.ask), {}};
    if (!fed.ask) fed.host = binder.host(f.host);
    out.fed.push_back(std::move(fed));
  }
  out.watched = std::move(r.watched);
  return ended;
}

void compute(Recording& r, Ended& ended, Ending ending) {
  Recorded& out = ended.recorded;
  r.uploads.clear();
  r.fed.clear();
  r.host.clear();
  check_host_sources(out);
  if (ended.graph.roots.empty()) return;
  Released released(r, ended.graph);  // what only the graph holds may be given to the program
  try {
    if (ending.runner)
      run_by(*ending.runner, ended.graph, out, ending.only_compile);
    else if (ending.only_compile)
      out.compiled = exec::compile_only(ended.graph, out.device, "ahead of time");
    else
      out.compiled = exec::run_whole(ended.graph, out.device, "compiled step");
  } catch (...) {
    released.put_back();
    throw;
  }
  if (out.compiled) out.loose = trace::numbers_of(out.outline, out.compiled->inputs);
  if (ending.only_compile) released.put_back();
}

}  // namespace tpubridge::step
