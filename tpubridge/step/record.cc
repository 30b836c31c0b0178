// From a recording to sources, targets and numbers.
#include "tpubridge/step/record.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cmath>
#include <map>
#include <set>

#include "tpubridge/device/dtype.h"
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
  Binder(Recording& r, const std::vector<at::Tensor>& arguments, Recorded& out)
      : r_(r), arguments_(arguments), out_(out) {
    for (size_t i = 0; i < arguments.size(); ++i)
      if (is_tpu(arguments[i])) argument_of_.try_emplace(&storage_of(arguments[i]), i);
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

  std::optional<size_t> argument(Storage* s) const {
    const auto it = argument_of_.find(s);
    return it == argument_of_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  Source make(const trace::Node* node, uint32_t index) {
    Source s;
    s.shape = intern(node->shapes()[index]);
    if (const auto it = found_of_.find({node, index}); it != found_of_.end()) {
      const auto& f = r_.found[it->second];
      s.geometry = f.geometry;
      const auto alive = f.storage.lock();
      s.identity = alive ? static_cast<Storage*>(alive.get()) : nullptr;
      if (const auto a = argument(s.identity)) {
        s.kind = Source::Kind::argument;
        s.argument = *a;
      } else if (alive) {
        s.storage = f.storage;
      } else {
        trouble("it uses a tensor that it also frees");
      }
      return s;
    }
    if (const auto it = upload_of_.find(node); it != upload_of_.end())
      return uploaded(std::move(s), r_.uploads[it->second]);
    trouble("part of it was computed before it ended (another thread synchronised the device)");
    return s;
  }

  Source uploaded(Source s, const Recording::Upload& u) {
    s.value = u.leaf;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const auto& a = arguments_[i];
      if (a.defined() && a.device().is_cpu() && a.is_alias_of(u.host) && a.sizes() == u.host.sizes() &&
          a.strides() == u.host.strides() && a.storage_offset() == u.host.storage_offset() &&
          a.scalar_type() == u.host.scalar_type()) {
        s.kind = Source::Kind::host_argument;
        s.argument = i;
        s.value = Value();
        return s;
      }
    }
    s.kind = Source::Kind::host;
    s.host = u.host;
    const at::Tensor dense = u.host.contiguous();
    s.content = XXH3_64bits(dense.const_data_ptr(), dense.nbytes());
    return s;
  }

  void trouble(std::string_view what) {
    if (out_.trouble.empty()) out_.trouble = what;
  }

  using Output = std::pair<const trace::Node*, uint32_t>;
  Recording& r_;
  const std::vector<at::Tensor>& arguments_;
  Recorded& out_;
  std::unordered_map<Storage*, size_t> argument_of_;
  std::map<Output, size_t> found_of_, sources_;
  std::unordered_map<const trace::Node*, size_t> upload_of_;
};

std::string_view user_of(const trace::Graph& graph, const trace::Node* number) {
  for (const auto* n : graph.nodes)
    for (const auto& o : n->operands())
      if (o.node() == number) return n->op()->name;
  return "?";
}

void bind_numbers(Recorded& out, const trace::Graph& graph, const Recording& r,
                  const std::vector<double>& perturbed, const std::vector<double>& plain) {
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
    const double v = n->number().real;
    for (size_t j = 0; j < perturbed.size() && s.kind == NumberSource::Kind::constant; ++j) {
      // An infinity is as far from every number as it is large; a mask's is none of the optimizers'.
      if (n->number().dtype == DType::s64 || !std::isfinite(v) ||
          std::abs(v - perturbed[j]) > 4e-15 * std::abs(v) || v == plain[j])
        continue;
      s.kind = NumberSource::Kind::optimizer;
      s.index = j;
      const_cast<trace::Node*>(n)->set_number(plain[j]);  // it must run with the true options
    }
    s.value = n->number();
    s.user = user_of(graph, n);
    out.numbers.push_back(std::move(s));
  }
}

// A result as data, whatever node gave it.
trace::SpecPtr data_spec(const Value& root) {
  const Shape& shape = root.shape();
  return std::make_shared<const trace::Spec>(nullptr, std::vector<trace::Arg>(), std::vector{shape},
                                             shape.dtype);
}

void bind_returned(Recorded& out, const std::vector<at::Tensor>& returned, Binder& binder) {
  for (const auto& t : returned) {
    Returned r;
    if (t.defined() && !is_tpu(t)) {
      out.trouble = "it returns a tensor of the host";
    } else if (t.defined()) {
      r.sizes = t.sizes().vec();
      r.strides = t.strides().vec();
      r.offset = t.storage_offset();
      r.dtype = t.scalar_type();
      Storage* s = &storage_of(t);
      const auto it =
          std::find_if(out.targets.begin(), out.targets.end(), [&](auto& x) { return x.identity == s; });
      if (it != out.targets.end()) {
        r.kind = Returned::Kind::target;
        r.from = static_cast<size_t>(it - out.targets.begin());
        it->returned = true;
      } else if (s->slot.value() && s->slot.value()->is_leaf()) {
        r.kind = Returned::Kind::source;
        r.from = binder.source(s->slot.value().node(), s->slot.value().index());
      } else {
        out.trouble = "it returns a tensor that was never written";
      }
    }
    out.returned.push_back(std::move(r));
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

std::vector<Value> left_pending(const Recording& r) {
  std::vector<Value> out;
  for (const size_t i : written_by(r))
    if (const Value& now = held(r.found[i]); now->is_pending()) out.push_back(now);
  return out;
}

bool Source::same(const Source& o) const {
  if (kind != o.kind || shape != o.shape || !same_geometry(geometry, o.geometry)) return false;
  if (kind == Kind::captured) return identity == o.identity;
  if (kind == Kind::argument || kind == Kind::host_argument) return argument == o.argument;
  if (kind == Kind::host) return host.is_alias_of(o.host);
  return content == o.content;
}

bool Target::same(const Target& o) const {
  return kind == o.kind && argument == o.argument && is_root == o.is_root && from == o.from &&
         bytes == o.bytes && returned == o.returned && same_geometry(geometry, o.geometry) &&
         (kind != Kind::captured || identity == o.identity);
}

Recorded finish_recording(Recording& r, const std::vector<at::Tensor>& arguments,
                          const std::vector<at::Tensor>& returned, const std::vector<double>& perturbed,
                          const std::vector<double>& plain, Ending ending) {
  exec::Lock lock(exec::mutex());
  Recorded out;
  r.found_zeros(returned);
  r.check_generators();
  out.trouble = r.trouble;
  Binder binder(r, arguments, out);
  const auto written = written_by(r);
  std::vector<Value> roots = left_pending(r);
  out.device = roots.empty() ? 0 : roots[0]->device();
  for (const auto& v : roots)
    if (v->device() != out.device) out.trouble = "it computes on more than one device";
  if (roots.empty()) {
    out.trouble = "it computes nothing on the device";
    return out;
  }
  if (!out.trouble.empty() && out.trouble.find("more than one") != std::string::npos) return out;

  const trace::Graph graph = trace::collect(std::move(roots));
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
    t.storage = f.storage;
    t.geometry = s.geometry;
    t.bytes = s.nbytes();
    if (const auto a = binder.argument(&s)) {
      t.kind = Target::Kind::argument;
      t.argument = *a;
    } else {
      t.kind = f.value ? Target::Kind::captured : Target::Kind::fresh;
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
  bind_returned(out, returned, binder);
  bind_numbers(out, graph, r, perturbed, plain);
  for (const auto& d : r.drawn) out.draws.push_back({d.generator, d.elements});
  for (auto& f : r.fed) out.fed.push_back(std::move(f.ask));
  out.watched = std::move(r.watched);
  r.uploads.clear();
  for (auto& s : out.sources)  // a copy of something that is gone: it cannot change any more
    if (s.kind == Source::Kind::host && s.host.use_count() == 1 && s.host.storage().use_count() == 1)
      s.kind = Source::Kind::constant, s.host = at::Tensor();
  if (!ending.runner && !ending.only_compile) {
    for (auto& f : r.found) f.value = Value();  // what only the graph holds may be given to the program
    out.compiled = exec::compute(graph, out.device, "compiled step");
    return out;
  }
  Released released(r, graph);  // the same, but it can be undone
  try {
    if (ending.runner)
      run_by(*ending.runner, graph, out, ending.only_compile);
    else
      out.compiled = exec::compile_only(graph, out.device, "ahead of time");
  } catch (...) {
    released.put_back();
    throw;
  }
  if (ending.only_compile) released.put_back();
  return out;
}

std::string difference(const Recorded& before, const Recorded& now) {
  if (!now.trouble.empty()) return now.trouble;
  auto lists_differ = [](const auto& a, const auto& b) {
    return !std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return x.same(y); });
  };
  if (before.hash != now.hash) return "its ops or shapes differed from one call to the next";
  if (lists_differ(before.sources, now.sources)) return "it read other tensors than in the call before";
  if (lists_differ(before.targets, now.targets) || before.returned != now.returned)
    return "it wrote or returned other tensors than in the call before";
  for (size_t i = 0; i < now.numbers.size(); ++i) {
    const auto &a = before.numbers[i], &b = now.numbers[i];
    if (a.kind != b.kind || a.index != b.index) return "a number of " + b.user + " came from somewhere else";
    if (a.kind != NumberSource::Kind::constant) continue;
    if (a.value.real != b.value.real || a.value.integer != b.value.integer)
      return "a number of " + b.user + " changed on the host from " +
             std::to_string(a.value.dtype == DType::s64 ? static_cast<double>(a.value.integer)
                                                        : a.value.real) +
             " to " +
             std::to_string(b.value.dtype == DType::s64 ? static_cast<double>(b.value.integer)
                                                        : b.value.real) +
             " (pass it as an argument or as a tensor; name the optimizer in StepOptions if it is one of "
             "its)";
  }
  return {};
}

}  // namespace tpubridge::step
