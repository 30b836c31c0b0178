// Execute, write back.
#include "tpubridge/step/replay.h"

#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/device/dtype.h"
#include "tpubridge/device/generator.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/exec/spread.h"
#include "tpubridge/lower/program.h"

namespace tpubridge::step {

using trace::Value;

Replay::Replay(Recorded recorded, Runner* runner) : r_(std::move(recorded)), runner_(runner) {
  uses_.resize(r_.results.size());
  for (const auto& t : r_.targets)
    if (t.is_root) ++uses_[t.from];
  // Only what this very call overwrites may be taken over, and not what it passes on.
  std::unordered_set<const Storage*> written;
  for (const auto& t : r_.targets) written.insert(t.identity);
  donated_.resize(r_.leaves);
  spare_.resize(r_.leaves);
  for (int64_t i : r_.compiled->donated) donated_[static_cast<size_t>(i)] = true;
  for (size_t i = 0; i < r_.leaves; ++i) {
    const auto& s = r_.sources[i];
    spare_[i] = s.kind == Source::Kind::host || (s.identity && written.count(s.identity));
  }
  for (const auto& t : r_.targets)
    if (!t.is_root && t.from < r_.leaves) spare_[t.from] = false;
  for (const auto& g : r_.returned)
    if (g.kind == Given::Kind::source && g.from < r_.leaves) spare_[g.from] = false;
  for (const auto& s : r_.slots)
    if (s.given.kind == Given::Kind::source && s.given.from < r_.leaves) spare_[s.given.from] = false;
  known_.resize(r_.sources.size());
  storages_.resize(r_.sources.size());
  values_.resize(r_.sources.size());
  std::unordered_map<const Storage*, size_t> leaf_of;
  for (size_t i = 0; i < r_.sources.size(); ++i) {
    const auto& x = r_.sources[i];
    (x.kind == Source::Kind::captured ? captured_ : others_).push_back(i);
    if (x.kind != Source::Kind::captured) continue;
    captured_storages_.insert(x.identity);
    storages_[i] = x.identity;
    if (i < r_.leaves) leaf_of.emplace(x.identity, i);
  }
  for (size_t i = 0; i < r_.targets.size(); ++i) {
    const auto& t = r_.targets[i];
    if (t.kind == Target::Kind::captured) captured_storages_.insert(t.identity);
    const auto it = leaf_of.find(t.identity);
    if (t.kind == Target::Kind::captured && t.is_root && uses_[t.from] == 1 && it != leaf_of.end() &&
        *r_.sources[it->second].geometry == *t.geometry &&
        r_.sources[it->second].shape == intern(r_.results[t.from]->shapes[0])) {
      r_.sources[it->second].geometry = t.geometry;
      in_place_.push_back({it->second, t.from});
      in_place_targets_.push_back(i);
    } else {
      other_targets_.push_back(i);
    }
  }
  for (const auto& n : r_.numbers) {
    numbers_.push_back(n.value);
    numbers_vary_ |= n.kind != NumberSource::Kind::constant;
  }
  numbers_.insert(numbers_.end(), r_.loose.begin(), r_.loose.end());
  given_targets_.resize(r_.targets.size());
  for (const auto& g : r_.returned)
    if (g.kind == Given::Kind::target) ++given_targets_[g.from];
  gradients_.resize(r_.slots.size());
  for (size_t i = 0; i < r_.slots.size(); ++i) {
    const auto& s = r_.slots[i];
    if (s.given.kind == Given::Kind::target) ++given_targets_[s.given.from];
    if (s.start != GradientSlot::Start::any || s.end != GradientSlot::End::same) slots_.push_back(i);
  }
  for (const auto& c : r_.captured) {
    const auto& f = c.facts;
    checks_.push_back({c.identity, f.storage, f.keys, f.hooks, f.offset, f.dtype, f.requires_grad,
                       static_cast<uint16_t>(f.sizes.size()), c.written});
    check_dims_.insert(check_dims_.end(), f.sizes.begin(), f.sizes.end());
    check_dims_.insert(check_dims_.end(), f.strides.begin(), f.strides.end());
  }
  for (const auto& o : r_.optimizers)
    for (size_t i = 0; i < o.plain.size(); ++i, ++numbers_of_optimizers_)
      if (o.plain[i] == o.perturbed[i]) fixed_.push_back({numbers_of_optimizers_, o.plain[i]});
  for (const auto& o : r_.optimizers) {
    int64_t steps = 0;
    for (const auto& first : r_.optimizers)
      if (first.optimizer == o.optimizer && !first.counted.empty()) steps = first.counted[0].steps;
    steps_of_call_.push_back(steps);
  }
}

void Replay::pack_numbers() {
  if (packed_ && !numbers_vary_) return;
  auto packs = lower::number_packs(numbers_, r_.compiled->shared);
  packs_.resize(packs.size());
  for (size_t i = 0; i < packs.size(); ++i) {
    auto& pack = packs_[i];
    if (!pack.buffers.empty() && pack.bytes == packs[i].bytes) continue;  // they are there already
    pack.bytes = std::move(packs[i].bytes);
    pack.buffers.clear();
    const pjrt::HostArray array{pack.bytes.data(), packs[i].shape, {}};
    if (r_.compiled->spreading) {
      pack.buffers = exec::on_every_place(array, *r_.compiled->spreading->grid);
      continue;
    }
    const int devices = runner_ ? runner_->devices() : 1;
    for (int d = 0; d < devices; ++d)
      pack.buffers.push_back(exec::client().to_device(array, exec::device(r_.device + d)));
  }
  packed_ = true;
}

const Value& Replay::value_of(size_t source) const {
  if (storages_[source]) return storages_[source]->slot.value();
  return values_[source] ? values_[source] : r_.sources[source].value;
}

// The buffer of a value that is there and that nobody but its storage holds; null where it is another's too.
exec::BufferData* Replay::own_buffer(const Storage& s) {
  const Value& v = s.slot.value();
  if (!v || !v->is_leaf() || v->error() || v->references() != 1 || v->shapes().size() != 1) return nullptr;
  const auto& data = v->data(0);
  return data && exec::is_private(data) ? static_cast<exec::BufferData*>(data.get()) : nullptr;
}

// Gradients that the call throws away, and that nobody else looks at: their bytes.
int64_t Replay::find_thrown_away() {
  thrown_away_.clear();
  int64_t bytes = 0;
  for (size_t i : slots_) {
    if (r_.slots[i].start != GradientSlot::Start::any) continue;
    const at::Tensor& g = gradients_[i].variable->grad();
    if (!is_tpu(g) || g.use_count() != 1 || g.storage().use_count() != 1) continue;
    Storage& s = storage_of(g);
    const auto* buffer = own_buffer(s);
    if (!buffer) continue;
    thrown_away_.push_back(&s);
    bytes += buffer->as_it_is().shape().bytes();
  }
  return bytes;
}

// What the program is given, and what of it must outlive the call though it may be taken over.
void Replay::take_inputs(const std::vector<bool>& donated, bool over) {
  inputs_.clear();
  keep_.clear();
  for (size_t i = 0; i < r_.leaves; ++i) {
    Known& k = known_[i];
    if (!k.node) {  // an argument, or something of the host
      const Value& v = value_of(i);
      if (!over) inputs_.push_back(&exec::buffer_of(*v.node(), v.index()));
      if (donated[i] && (!spare_[i] || v->references() > 1 || !exec::is_private(v->data(v.index()))))
        keep_.push_back(static_cast<int64_t>(i));
      continue;
    }
    if (!over) inputs_.push_back(&k.data->buffer());
    // What somebody else can still see must outlive the call.
    k.private_ =
        k.node->references() == 1 && k.owner.use_count() == 1 + static_cast<long>(k.data->remembered);
    if (donated[i] && !(spare_[i] && k.private_)) keep_.push_back(static_cast<int64_t>(i));
  }
}

void Replay::execute() {
  const bool over = r_.compiled->spreading != nullptr;
  take_inputs(donated_, over);
  for (const auto& pack : packs_) inputs_.push_back(&pack.buffers[0]);
  const exec::Compiled& compiled = r_.compiled->best();
  auto run = [&] {
    exec::check_memory(r_.device, compiled.needs, "a compiled step");
    outputs_ = runner_ ? execute_everywhere(compiled)
               : over  ? execute_over(compiled)
                       : exec::execute(*compiled.program, inputs_, keep_);
    exec::wait_where_it_may_fail(*r_.compiled, outputs_);
  };
  try {
    run();
  } catch (const Error& e) {
    // With the memory of gradients that the call throws away it may do.
    const int64_t released = e.code() == Code::resource_exhausted ? find_thrown_away() : 0;
    if (released == 0) throw;
    exec::check_memory(r_.device, compiled.needs - released, "a compiled step");
    log::warn("step.gradients_given_up", {{"bytes", std::to_string(released)}, {"cause", e.what()}});
    for (Storage* s : thrown_away_) s->slot.set(Value());
    try {
      run();
    } catch (...) {
      for (size_t i : slots_)
        if (r_.slots[i].start == GradientSlot::Start::any)
          gradients_[i].variable->mutable_grad() = at::Tensor();
      throw;
    }
  }
  exec::count_execution(false);
}

Value Replay::result(const Target& t) {
  if (!t.is_root) return value_of(t.from);
  Value& made = results_[t.from];
  if (made) return made;
  auto data = std::make_shared<exec::BufferData>(std::move(output(t.from)), r_.device);
  if (!rest_.empty()) data->set_spread(std::move(rest_[t.from]));
  return made = trace::Node::leaf(std::move(data), r_.results[t.from], r_.device);
}

void Replay::replace(exec::BufferData& data, size_t root) {
  data.replace(std::move(output(root)));
  if (!rest_.empty()) data.set_spread(std::move(rest_[root]));
}

// State that nobody else looks at gets the new buffer in the place of the old one.
bool Replay::swap_in(const Target& t, Storage& s) {
  auto* held = uses_[t.from] == 1 ? own_buffer(s) : nullptr;
  if (!held || &held->as_it_is().shape() != &output(t.from).shape()) return false;
  replace(*held, t.from);
  return true;
}

void Replay::put(const std::vector<at::Tensor>& arguments) {
  const bool others = !other_targets_.empty();
  if (others) {
    results_.assign(r_.results.size(), Value());
    make_fresh();
  }
  // Before anything is overwritten: what is passed from storage to storage.
  std::vector<std::pair<size_t, Value>> passed;
  for (size_t i : other_targets_)
    if (!r_.targets[i].is_root) passed.emplace_back(i, result(r_.targets[i]));
  for (size_t i = 0; i < in_place_.size(); ++i) {
    if (i + kAhead < in_place_.size()) {
      const auto* next = reinterpret_cast<const char*>(known_[in_place_[i + kAhead].source].data);
      __builtin_prefetch(next, 1);
      __builtin_prefetch(next + 64, 1);
    }
    Known& k = known_[in_place_[i].source];
    if (k.private_ && k.single && (passed.empty() || k.node->references() == 1)) {
      replace(*k.data, in_place_[i].root);
    } else {
      if (results_.empty()) results_.resize(r_.results.size());
      storages_[in_place_[i].source]->slot.set(result(r_.targets[in_place_targets_[i]]));
    }
  }
  for (size_t i : other_targets_) put_other(i, arguments);
  for (auto& [i, v] : passed)
    if (Storage* s = target_storage(i, arguments)) s->slot.set(std::move(v));
  results_.clear();
}

void Replay::put_other(size_t i, const std::vector<at::Tensor>& arguments) {
  const auto& t = r_.targets[i];
  Storage* s = target_storage(i, arguments);
  if (!s) return;
  if (t.is_root && !swap_in(t, *s)) s->slot.set(result(t));
  if (s->geometry != t.geometry) s->geometry = t.geometry;
}

Storage* Replay::target_storage(size_t i, const std::vector<at::Tensor>& arguments) {
  const auto& t = r_.targets[i];
  switch (t.kind) {
    case Target::Kind::argument:
      return &storage_of(arguments[t.argument]);
    case Target::Kind::gradient:
      return gradients_[t.argument].storage;
    case Target::Kind::fresh:
      return i < fresh_.size() ? static_cast<Storage*>(fresh_[i].get()) : nullptr;
    default:
      return t.storage.expired() ? nullptr : t.identity;
  }
}

at::Tensor Replay::make(const Given& g, const std::vector<at::Tensor>& arguments) {
  if (g.kind == Given::Kind::undefined) return {};
  c10::intrusive_ptr<c10::StorageImpl> storage;
  if (Storage* s = g.kind == Given::Kind::target ? target_storage(g.from, arguments) : storages_[g.from]) {
    storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(s);
  } else {  // a constant, or something of the host
    storage = new_storage(static_cast<size_t>(r_.sources[g.from].shape->bytes()), r_.device);
    auto& made = static_cast<Storage&>(*storage);
    made.slot.set(value_of(g.from));
    made.geometry =
        std::make_shared<const trace::Geometry>(trace::contiguous(r_.sources[g.from].shape->dims));
  }
  return view_of(std::move(storage), g.sizes, g.strides, g.offset, g.dtype);
}

// New storages for what the call makes. A gradient that it throws away and nobody else holds is used again.
void Replay::make_fresh() {
  fresh_.assign(r_.targets.size(), {});
  for (size_t i : slots_) {
    const auto& s = r_.slots[i];
    if (s.end != GradientSlot::End::assigned || s.given.kind != Given::Kind::target ||
        r_.targets[s.given.from].kind != Target::Kind::fresh)
      continue;
    at::Tensor& g = gradients_[i].variable->mutable_grad();
    if (given_targets_[s.given.from] == 1 && is_tpu(g) && g.use_count() == 1 &&
        g.storage().use_count() == 1 && g.sizes() == s.given.sizes && g.strides() == s.given.strides &&
        g.storage_offset() == s.given.offset && g.scalar_type() == s.given.dtype &&
        g.requires_grad() == s.requires_grad && g.is_leaf() && !g.is_conj() && !g.is_neg() &&
        storage_of(g).nbytes() == r_.targets[s.given.from].bytes)
      fresh_[s.given.from] = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(&storage_of(g));
  }
  for (size_t i : other_targets_)
    if (r_.targets[i].kind == Target::Kind::fresh && !fresh_[i])
      fresh_[i] = new_storage(r_.targets[i].bytes, r_.device);
}

void Replay::put_gradients(const std::vector<at::Tensor>& arguments, int64_t rounds) {
  for (size_t i : slots_) {
    const auto& s = r_.slots[i];
    at::Tensor& g = gradients_[i].variable->mutable_grad();
    if (s.end == GradientSlot::End::same) {
      if (g.defined()) add_to_version(*g.unsafeGetTensorImpl(), s.version * static_cast<uint32_t>(rounds));
    } else if (s.end == GradientSlot::End::cleared) {
      g = at::Tensor();
    } else {
      const Storage* into =
          s.given.kind == Given::Kind::target ? target_storage(s.given.from, arguments) : nullptr;
      if (!into || !is_tpu(g) || g.use_count() != 1 || &storage_of(g) != into) {
        g = make(s.given, arguments);
        if (s.requires_grad) g.requires_grad_(true);
      }
      set_version(*g.unsafeGetTensorImpl(), s.version);
    }
  }
}

// The program runs: now, and only now, the rest of the world is told.
void Replay::commit(const std::vector<at::Tensor>& arguments, int64_t rounds) {
  for (const auto& [generator, next] : drawn_) set_next_draw(generator, next);
  put(arguments);
  put_gradients(arguments, rounds);
  for (const auto& c : checks_) add_to_version(*c.tensor, c.written * static_cast<uint32_t>(rounds));
  for (size_t i = 0; i < arguments.size(); ++i)
    if (r_.argument_writes[i] != 0)
      add_to_version(*arguments[i].unsafeGetTensorImpl(), r_.argument_writes[i]);
  for (int64_t i = 0; i < rounds; ++i)
    for (const auto& o : r_.optimizers) o.count();
}

void Replay::forget_call() {
  outputs_.clear();
  rest_.clear();
  fresh_.clear();
  for (size_t i : others_) values_[i] = Value();
}

std::optional<std::vector<at::Tensor>> Replay::run(const std::vector<at::Tensor>& arguments) {
  exec::Lock lock(exec::mutex());
  (void)exec::client();  // throws in a forked process
  if (!bind_computed(arguments)) return std::nullopt;
  pack_numbers();
  execute();
  commit(arguments);
  if (runner_) keep_everywhere();
  std::vector<at::Tensor> out;
  out.reserve(r_.returned.size());
  for (const auto& g : r_.returned) out.push_back(make(g, arguments));
  forget_call();
  return out;
}

}  // namespace tpubridge::step
