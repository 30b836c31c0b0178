// From a recording to sources, targets and numbers.
#include "tpubridge/step/record.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <unordered_set>

#include "tpubridge/device/dtype.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::step {
namespace {

using trace::Value;

bool same_geometry(const std::shared_ptr<const trace::Geometry>& a,
                   const std::shared_ptr<const trace::Geometry>& b) {
  return a == b || (a && b && *a == *b);
}

class Binder {
 public:
  Binder(Recording& r, const std::vector<at::Tensor>& arguments, const GradientsBefore& gradients,
         Recorded& out)
      : r_(r), arguments_(arguments), out_(out) {
    for (size_t i = 0; i < arguments.size(); ++i)
      if (is_tpu(arguments[i])) argument_of_.try_emplace(&storage_of(arguments[i]), i);
    for (size_t i = 0; i < gradients.all().size(); ++i)
      if (const auto& b = gradients.all()[i]; is_tpu(b.gradient)) {
        const Storage* s = &storage_of(b.gradient);
        const auto* f = r.found_of(s);
        // What a variable that was met late has now may have been made by the call.
        if (!b.late || !f || f->value) slot_of_.try_emplace(s, i);
      }
    for (size_t i = 0; i < r.found.size(); ++i)
      if (const auto& v = r.found[i].value; v && v->is_leaf())
        found_of_.try_emplace({v.node(), v.index()}, i);
    for (size_t i = 0; i < r.uploads.size(); ++i) upload_of_.try_emplace(r.uploads[i].leaf.node(), i);
  }

  // The source that gives this computed value at the next call.
  size_t source(const trace::Node* node, uint32_t index) {
    const auto [it, fresh] = sources_.try_emplace({node, index}, out_.sources.size());
    if (fresh) out_.sources.push_back(make(node, index));
    return it->second;
  }

  std::optional<size_t> argument(const Storage* s) const { return place(argument_of_, s); }
  std::optional<size_t> slot(const Storage* s) const { return place(slot_of_, s); }

  // The tensor as a view of a target or of a source.
  Given given(const at::Tensor& t) {
    Given g;
    if (!t.defined()) return g;
    if (!is_tpu(t)) {
      trouble("it gives a tensor of the host");
      return g;
    }
    if (t.is_conj() || t.is_neg()) trouble("it gives a tensor with a conjugate or negative bit");
    g.sizes = t.sizes().vec();
    g.strides = t.strides().vec();
    g.offset = t.storage_offset();
    g.dtype = t.scalar_type();
    const Storage* s = &storage_of(t);
    const auto it =
        std::find_if(out_.targets.begin(), out_.targets.end(), [&](auto& x) { return x.identity == s; });
    if (it != out_.targets.end()) {
      g.kind = Given::Kind::target;
      g.from = static_cast<size_t>(it - out_.targets.begin());
      given_.insert(s);
    } else if (const Value& v = s->slot.value(); v && v->is_leaf()) {
      g.kind = Given::Kind::source;
      g.from = source(v.node(), v.index());
    } else {
      trouble("it gives a tensor that was never written");
    }
    return g;
  }
  [[nodiscard]] bool is_given(const Storage* s) const { return given_.count(s) != 0; }

  // A part of an argument, or of a tensor from outside.
  HostSource host(const at::Tensor& t) {
    HostSource h;
    h.sizes = t.sizes().vec();
    h.strides = t.strides().vec();
    h.dtype = t.scalar_type();
    h.offset = t.storage_offset();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const auto& a = arguments_[i];
      if (!a.defined() || !a.device().is_cpu() || !a.is_alias_of(t)) continue;
      if (a.scalar_type() != t.scalar_type()) trouble("it sees an argument of the host as another type");
      h.argument = i;
      h.offset -= a.storage_offset();
      return h;
    }
    h.identity = t.storage().unsafeGetStorageImpl();
    h.storage = weak(*h.identity);
    if (t.is_conj() || t.is_neg()) trouble("it copies a tensor of the host with a conjugate or negative bit");
    return h;
  }

  void trouble(std::string_view what) {
    if (out_.trouble.empty()) out_.trouble = what;
  }

 private:
  static std::optional<size_t> place(const std::unordered_map<const Storage*, size_t>& map, const Storage* s) {
    const auto it = map.find(s);
    return it == map.end() ? std::nullopt : std::optional(it->second);
  }

  Source make(const trace::Node* node, uint32_t index) {
    Source s;
    s.shape = intern(node->shapes()[index]);
    if (const auto it = found_of_.find({node, index}); it != found_of_.end()) {
      const auto& f = r_.found[it->second];
      s.geometry = f.geometry;
      const auto alive = f.storage.lock();
      s.identity = alive ? static_cast<Storage*>(alive.get()) : nullptr;
      if (!alive) {
        trouble("it uses a tensor that it also frees");
      } else if (const auto a = argument(s.identity)) {
        s.kind = Source::Kind::argument;
        s.argument = *a;
      } else if (const auto k = slot(s.identity)) {
        s.kind = Source::Kind::gradient;
        s.argument = *k;
      } else {
        s.storage = f.storage;
      }
      return s;
    }
    if (const auto it = upload_of_.find(node); it != upload_of_.end())
      return uploaded(std::move(s), r_.uploads[it->second]);
    trouble("part of it was computed before it ended (another thread synchronised the device)");
    return s;
  }

  Source uploaded(Source s, const Recording::Upload& u) {
    s.sizes = u.sizes;
    s.dtype = u.dtype;
    if (r_.host.of(u.host) != HostOrigin::outside) {  // a literal, or it is in trouble already
      s.kind = Source::Kind::constant;
      s.value = u.leaf;
      s.content = host_elements(u.host, u.sizes, u.dtype);
      return s;
    }
    s.kind = Source::Kind::host;
    s.host = host(u.host);
    return s;
  }

  using Output = std::pair<const trace::Node*, uint32_t>;
  Recording& r_;
  const std::vector<at::Tensor>& arguments_;
  Recorded& out_;
  std::unordered_map<const Storage*, size_t> argument_of_, slot_of_;
  std::unordered_set<const Storage*> given_;
  std::map<Output, size_t> found_of_, sources_;
  std::unordered_map<const trace::Node*, size_t> upload_of_;
};

std::string_view user_of(const trace::Graph& graph, const trace::Node* number) {
  for (const auto* n : graph.nodes)
    for (const auto& o : n->operands())
      if (o.node() == number) return n->op()->name;
  return "?";
}

// Whether a number of the trace is this one, as far as the arithmetic of two compilers can tell.
bool same_number(double a, double b) { return a == b || std::abs(a - b) <= 4e-15 * std::abs(a); }

// Numbers of the optimizers are told by the perturbed options: see OptimizerWatch.
class NumberBinder {
 public:
  NumberBinder(const Recording& r, const Recorded& out, const Recorded* before) {
    for (size_t i = 0; i < r.drawn.size(); ++i)
      for (const auto& [seed, offset] : r.drawn[i].numbers) {
        known_[seed.node()] = {NumberSource::Kind::seed, i, {}, {}};
        known_[offset.node()] = {NumberSource::Kind::offset, i, {}, {}};
      }
    for (size_t i = 0; i < r.fed.size(); ++i)
      known_[r.fed[i].number.node()] = {NumberSource::Kind::fed, i, {}, {}};
    for (const auto& o : out.optimizers) {
      plain_.insert(plain_.end(), o.plain.begin(), o.plain.end());
      perturbed_.insert(perturbed_.end(), o.perturbed.begin(), o.perturbed.end());
    }
    perturbs_ = plain_ != perturbed_;
    if (before)
      for (const auto& n : before->numbers) before_.insert(n.value.real);
  }

  // True where it can only be the step's own arithmetic over perturbed options.
  bool bind(const trace::Graph& graph, Recorded& out) {
    bool polluted = false;
    out.plain = plain_;
    for (const auto* n : graph.numbers) {
      NumberSource s;
      if (const auto it = known_.find(n); it != known_.end()) s = it->second;
      if (s.kind == NumberSource::Kind::constant && n->number().dtype != DType::s64 && perturbs_)
        polluted |= follow(s, *const_cast<trace::Node*>(n));
      s.value = n->number();
      s.user = user_of(graph, n);
      out.numbers.push_back(std::move(s));
    }
    return polluted;
  }

 private:
  bool follow(NumberSource& s, trace::Node& n) const {
    const double v = n.number().real;
    for (size_t j = 0; j < perturbed_.size(); ++j) {
      if (perturbed_[j] == plain_[j] || !std::isfinite(v) || !same_number(v, perturbed_[j])) continue;
      s.kind = NumberSource::Kind::optimizer;
      s.index = j;
      n.set_number(plain_[j]);  // it must run with the true options
      return false;
    }
    return !before_.count(v) && !std::isnan(v);
  }

  std::unordered_map<const trace::Node*, NumberSource> known_;
  std::vector<double> plain_, perturbed_;
  std::set<double> before_;
  bool perturbs_ = false;
};

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
    const bool changed = !seen.facts.hold(*t);
    if (const auto it = argument_of.find(t.get()); it != argument_of.end()) {
      out.argument_writes[it->second] = written;
      if (changed && out.trouble.empty()) out.trouble = "it changes what one of its arguments is (sizes, requires_grad)";
      continue;
    }
    if (is_tpu(tensor)) {
      const Storage* s = &storage_of(tensor);
      const auto* f = r.found_of(s);
      if (!changed && ((f && !f->value) || binder.argument(s) || binder.slot(s))) continue;
    }
    if (changed && out.trouble.empty())
      out.trouble = "it changes what a tensor from outside is (sizes, storage, requires_grad)";
    out.captured.push_back({seen.tensor, t.get(), seen.facts, written});
  }
}

// What became of each gradient.
void bind_gradients(Recorded& out, const Recording& r, const std::vector<at::Tensor>& arguments,
                    const GradientsBefore& gradients, Binder& binder) {
  bool any = r.backward || !out.optimizers.empty();
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
      s.start = !before.defined()                                  ? GradientSlot::Start::undefined
                : touched || s.end == GradientSlot::End::same ? GradientSlot::Start::defined
                                                              : GradientSlot::Start::any;
      if (s.end == GradientSlot::End::assigned) {
        s.given = binder.given(now);
        s.requires_grad = now.requires_grad();
        s.version = version_of(*now.unsafeGetTensorImpl());
      } else if (now.defined()) {
        s.version = version_of(*now.unsafeGetTensorImpl()) - b.version;
      }
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

// The same as exec::compute(), by a runner.
void run_by(Runner& runner, const trace::Graph& graph, Recorded& out, bool only_compile) {
  for (size_t i = 0; i < out.leaves; ++i) {
    const auto& s = out.sources[i];
    out.split.push_back(s.kind == Source::Kind::argument && runner.splits(s.argument));
  }
  const exec::Ready ready = runner.program(graph, out.split);
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
  exec::resolve(graph, std::move(outputs));
  std::vector<Runner::Kept> kept;
  for (const auto& t : out.targets)
    if (t.kind == Target::Kind::captured && t.is_root) kept.push_back({t.from, t.identity->slot.value()});
  runner.keep(kept);
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

bool HostSource::same(const HostSource& o) const {
  return argument == o.argument && identity == o.identity && sizes == o.sizes && strides == o.strides &&
         offset == o.offset && dtype == o.dtype;
}

bool Source::same(const Source& o) const {
  if (kind != o.kind || shape != o.shape || !same_geometry(geometry, o.geometry)) return false;
  if (kind == Kind::captured) return identity == o.identity;
  if (kind == Kind::argument || kind == Kind::gradient) return argument == o.argument;
  if (sizes != o.sizes || dtype != o.dtype) return false;
  if (kind == Kind::host) return host.same(o.host);
  return std::memcmp(content.const_data_ptr(), o.content.const_data_ptr(), content.nbytes()) == 0;
}

bool Target::same(const Target& o) const {
  return kind == o.kind && argument == o.argument && is_root == o.is_root && from == o.from &&
         bytes == o.bytes && same_geometry(geometry, o.geometry) &&
         (kind != Kind::captured || identity == o.identity);
}

bool GradientSlot::same(const GradientSlot& o) const {
  if (late || o.late) return variable == o.variable;
  // Thrown away unseen, and not there: the same, but for what shows.
  const bool starts = start == o.start || start == Start::any || o.start == Start::any;
  const auto shows = [](const GradientSlot& s) {
    return s.end == End::same && s.start == Start::undefined ? End::cleared : s.end;
  };
  return variable == o.variable && starts && (end == o.end || (start != o.start && shows(*this) == shows(o))) &&
         given == o.given && requires_grad == o.requires_grad;
}

Ended bind_recording(Recording& r, const std::vector<at::Tensor>& arguments,
                     const std::vector<at::Tensor>& returned, const GradientsBefore& gradients,
                     std::vector<FollowedOptimizer> optimizers, const Recorded* before) {
  Ended ended;
  Recorded& out = ended.recorded;
  r.found_zeros(returned);
  r.check_generators();
  out.trouble = r.trouble;
  out.optimizers = std::move(optimizers);
  Binder binder(r, arguments, gradients, out);
  for (const auto& a : arguments) {
    auto* s = a.defined() && a.has_storage() ? a.storage().unsafeGetStorageImpl() : nullptr;
    out.argument_storages.push_back(s ? weak(*s) : no_storage());
    out.argument_identities.push_back(s);
  }
  out.argument_varies.assign(arguments.size(), false);
  out.slot_varies.assign(gradients.all().size(), false);
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
  out.hash = graph.hash;
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
  bind_gradients(out, r, arguments, gradients, binder);
  bind_captured(out, r, arguments, binder);
  check_escapes(out, binder);
  out.polluted = NumberBinder(r, out, before).bind(graph, out);
  for (const auto& d : r.drawn) out.draws.push_back({d.generator, d.elements});
  for (auto& f : r.fed) {
    FedNumber fed{std::move(f.ask), {}};
    if (!fed.ask) fed.host = binder.host(f.host);
    out.fed.push_back(std::move(fed));
  }
  out.watched = std::move(r.watched);
  return ended;
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
  if (ending.only_compile) released.put_back();
}

namespace {

std::string shown(const trace::Number& n) {
  return std::to_string(n.dtype == DType::s64 ? static_cast<double>(n.integer) : n.real);
}

// Before: a number of the plain options. Now: told by the perturbed ones.
bool became_known(const Recorded& before, const NumberSource& a, const NumberSource& b) {
  return a.kind == NumberSource::Kind::constant && b.kind == NumberSource::Kind::optimizer &&
         b.index < before.plain.size() && same_number(a.value.real, before.plain[b.index]);
}

}  // namespace

std::string difference(const Recorded& before, Recorded& now) {
  if (!now.trouble.empty()) return now.trouble;
  auto lists_differ = [](const auto& a, const auto& b) {
    return !std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return x.same(y); });
  };
  if (before.hash != now.hash) return "its ops or shapes differed from one call to the next";
  if (lists_differ(before.sources, now.sources)) return "it read other tensors than in the call before";
  if (lists_differ(before.targets, now.targets) || before.returned != now.returned)
    return "it wrote or returned other tensors than in the call before";
  // Variables that were met later stand at the end.
  for (size_t i = 0; i < now.slots.size(); ++i) {
    if (now.slots[i].late) return "it met a parameter for the first time";
    if (i < before.slots.size() && !now.slots[i].same(before.slots[i]))
      return "it did something else to a gradient than in the call before";
  }
  for (size_t i = 0; i < now.numbers.size(); ++i) {
    const auto &a = before.numbers[i], &b = now.numbers[i];
    if (became_known(before, a, b)) continue;
    if (a.kind != b.kind || a.index != b.index) return "a number of " + b.user + " came from somewhere else";
    if (a.kind != NumberSource::Kind::constant) continue;
    if (a.value.real != b.value.real || a.value.integer != b.value.integer)
      return "a number of " + b.user + " changed on the host from " + shown(a.value) + " to " +
             shown(b.value) +
             " (pass it as an argument or as a tensor; name the optimizer in StepOptions if it is one of its)";
  }
  now.wasted = before.wasted;
  if (std::string why = merge_windows(before.windows, now.windows, now.wasted); !why.empty()) return why;
  for (size_t i = 0; i < now.argument_varies.size() && i < before.argument_varies.size(); ++i)
    now.argument_varies[i] =
        before.argument_varies[i] || before.argument_identities[i] != now.argument_identities[i];
  for (size_t i = 0; i < now.slots.size() && i < before.slots.size(); ++i) {
    now.slot_varies[i] = before.slot_varies[i] || before.slots[i].found != now.slots[i].found;
    if (before.slots[i].start == GradientSlot::Start::any && !before.slots[i].late)
      now.slots[i].start = GradientSlot::Start::any, now.slots[i].end = before.slots[i].end;
  }
  return {};
}

}  // namespace tpubridge::step
