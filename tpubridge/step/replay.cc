// Guard, execute, write back.
#include "tpubridge/step/replay.h"

#include "tpubridge/device/dtype.h"
#include "tpubridge/device/generator.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/program.h"

namespace tpubridge::step {

using trace::Value;

namespace {

// Work that waits for memory: the next one is asked for while this one is done.
constexpr size_t kAhead = 6;

}  // namespace

Replay::Replay(Recorded recorded, Runner* runner) : r_(std::move(recorded)), runner_(runner) {
  donated_.resize(r_.leaves);
  for (int64_t i : r_.compiled->donated) donated_[static_cast<size_t>(i)] = true;
  uses_.resize(r_.results.size());
  for (const auto& t : r_.targets)
    if (t.is_root) ++uses_[t.from];
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
}

bool Replay::bind_captured(size_t i) {
  Known& k = known_[i];
  // Its memory stays while we hold the mutex: freeing a storage takes it, and the source holds it weakly.
  if (k.node && c10::raw::weak_intrusive_ptr::use_count(k.storage) != 0) {
    const Value& v = k.storage->slot.value();
    if (v.node() == k.node && v.index() == k.index && k.node->id() == k.id &&
        k.storage->geometry.get() == k.geometry)
      return true;
  }
  auto& s = r_.sources[i];
  k = {};
  if (s.storage.expired() || !check(i)) return false;
  s.geometry = s.identity->geometry;  // equal, and next time the same
  const Value& v = s.identity->slot.value();
  k.storage = s.identity;
  k.geometry = s.geometry.get();
  k.owner = v->data(v.index());
  k.data = static_cast<exec::BufferData*>(v->data(v.index()).get());
  k.node = v.node();
  k.id = v->id();
  k.index = v.index();
  k.single = v->shapes().size() == 1;
  return k.data != nullptr;
}

bool Replay::bind_other(size_t i, const std::vector<at::Tensor>& arguments) {
  auto& s = r_.sources[i];
  if (s.kind == Source::Kind::host_argument) {
    const at::Tensor dense = arguments[s.argument].contiguous();
    values_[i] = exec::to_device(dense.const_data_ptr(), *s.shape, {}, r_.device);
  } else if (s.kind == Source::Kind::host) {
    s.value = exec::to_device(s.host.contiguous().const_data_ptr(), *s.shape, {}, r_.device);
  } else if (s.kind == Source::Kind::argument) {
    storages_[i] = &storage_of(arguments[s.argument]);
    return check(i);
  }
  return true;
}

// The storage holds what the program takes.
bool Replay::check(size_t i) {
  const auto& s = r_.sources[i];
  const Storage& st = *storages_[i];
  if (!st.slot.value()) return false;
  if (st.geometry != s.geometry && *st.geometry != *s.geometry) return false;
  if (st.slot.value()->is_pending())
    exec::materialise(r_.device, {st.slot.value()}, "input of a compiled step");
  const Value& v = st.slot.value();
  return v->device() == r_.device && v.shape() == *s.shape;
}

bool Replay::bind(const std::vector<at::Tensor>& arguments) {
  for (const auto& w : r_.watched)
    if (w.ask() != w.answer) return false;
  for (size_t i = 0; i < captured_.size(); ++i) {
    if (i + kAhead < captured_.size()) {
      const Known& next = known_[captured_[i + kAhead]];
      __builtin_prefetch(next.storage);
      if (next.storage) __builtin_prefetch(&next.storage->slot);
      __builtin_prefetch(next.node);
      __builtin_prefetch(next.data, /*write=*/1);
    }
    if (!bind_captured(captured_[i])) return false;
  }
  for (size_t i : others_)
    if (!bind_other(i, arguments)) return false;
  // An argument that looks at a captured storage, where the recorded one did not.
  for (const auto& a : arguments)
    if (is_tpu(a) && captured_storages_.count(&storage_of(a))) return false;
  for (size_t i : other_targets_)
    if (r_.targets[i].kind == Target::Kind::captured && r_.targets[i].storage.expired()) return false;
  return true;
}

void Replay::pack_numbers(const std::vector<double>& of_optimizers) {
  if (!numbers_vary_ && !packs_.empty()) return;
  std::vector<Draw> draws;
  for (const auto& d : r_.draws)
    draws.push_back(draw(d.generator, static_cast<c10::DeviceIndex>(r_.device), d.elements));
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const auto& n = r_.numbers[i];
    if (n.kind == NumberSource::Kind::optimizer) numbers_[i].real = of_optimizers[n.index];
    if (n.kind == NumberSource::Kind::fed) numbers_[i].real = r_.fed[n.index]();
    if (n.kind == NumberSource::Kind::seed) numbers_[i].integer = static_cast<int64_t>(draws[n.index].seed);
    if (n.kind == NumberSource::Kind::offset)
      numbers_[i].integer = static_cast<int64_t>(draws[n.index].offset);
  }
  auto packs = lower::number_packs(numbers_);
  packs_.resize(packs.size());
  for (size_t i = 0; i < packs.size(); ++i) {
    auto& pack = packs_[i];
    if (!pack.buffers.empty() && pack.bytes == packs[i].bytes) continue;  // they are there already
    pack.bytes = std::move(packs[i].bytes);
    pack.buffers.clear();
    const int devices = runner_ ? runner_->devices() : 1;
    for (int d = 0; d < devices; ++d)
      pack.buffers.push_back(exec::client().to_device(pjrt::HostArray{pack.bytes.data(), packs[i].shape, {}},
                                                      exec::device(r_.device + d)));
  }
}

const Value& Replay::value_of(size_t source) const {
  if (storages_[source]) return storages_[source]->slot.value();
  return values_[source] ? values_[source] : r_.sources[source].value;
}

// What this call writes anew, and nobody else looks at, gives its memory back first: gradients of the call
// before need not stand beside the new ones.
void Replay::find_overwritten() {
  overwritten_.clear();
  for (size_t i : other_targets_) {
    const auto& t = r_.targets[i];
    if (t.kind != Target::Kind::fresh || t.returned || !t.is_root || t.storage.expired()) continue;
    const Value& v = t.identity->slot.value();
    if (!v || !v->is_leaf() || v->error() || v->references() != 1 || v->shapes().size() != 1) continue;
    const auto& data = v->data(0);
    if (data && data.use_count() == 1) overwritten_.push_back(t.identity);
  }
}

void Replay::execute() {
  inputs_.clear();
  keep_.clear();
  for (size_t i = 0; i < r_.leaves; ++i) {
    Known& k = known_[i];
    if (!k.node) {  // an argument, or something of the host
      const Value& v = value_of(i);
      inputs_.push_back(&exec::buffer_of(*v.node(), v.index()));
      if (donated_[i] && (v->references() > 1 || v->data(v.index()).use_count() > 1))
        keep_.push_back(static_cast<int64_t>(i));
      continue;
    }
    inputs_.push_back(&k.data->buffer);
    // What somebody else can still see must outlive the call.
    k.private_ = k.node->references() == 1 && k.owner.use_count() == 1;
    if (donated_[i] && !k.private_) keep_.push_back(static_cast<int64_t>(i));
  }
  for (const auto& pack : packs_) inputs_.push_back(&pack.buffers[0]);
  find_overwritten();
  auto held = [](Storage * s) -> auto& { return static_cast<exec::BufferData&>(*s->slot.value()->data(0)); };
  int64_t released = 0;
  for (Storage* s : overwritten_) released += held(s).bytes;
  const exec::Compiled& compiled = r_.compiled->best();
  exec::check_memory(r_.device, compiled.needs - released, "a compiled step");
  for (Storage* s : overwritten_) held(s).buffer.erase();
  try {
    outputs_ = runner_ ? execute_everywhere(compiled) : exec::execute(*compiled.program, inputs_, keep_);
  } catch (...) {
    for (Storage* s : overwritten_) s->slot.set(Value());
    throw;
  }
  exec::count_execution(false);
}

std::vector<pjrt::Buffer> Replay::execute_everywhere(const exec::Compiled& compiled) {
  std::vector<Runner::Input> leaves;
  for (size_t i = 0; i < r_.leaves; ++i) {
    if (r_.split[i])
      leaves.push_back({nullptr, r_.sources[i].argument});
    else if (known_[i].node)
      leaves.push_back({known_[i].owner.lock()});
    else
      leaves.push_back({value_of(i)->data(value_of(i).index())});
  }
  std::vector<std::vector<const pjrt::Buffer*>> packs;
  for (const auto& pack : packs_) {
    auto& of_one = packs.emplace_back();
    for (const auto& b : pack.buffers) of_one.push_back(&b);
  }
  return runner_->run(compiled, leaves, packs, keep_);
}

void Replay::keep_everywhere() {
  std::vector<Runner::Kept> kept;
  for (const auto& t : r_.targets)
    if (t.kind == Target::Kind::captured && t.is_root && !t.storage.expired())
      kept.push_back({t.from, t.identity->slot.value()});
  runner_->keep(kept);
}

Value Replay::result(const Target& t) {
  if (!t.is_root) return value_of(t.from);
  Value& made = results_[t.from];
  if (!made)
    made = trace::Node::leaf(std::make_shared<exec::BufferData>(std::move(outputs_[t.from]), r_.device),
                             r_.results[t.from], r_.device);
  return made;
}

// State that nobody else looks at gets the new buffer in the place of the old one.
bool Replay::swap_in(const Target& t, Storage& s) {
  const Value& v = s.slot.value();
  if (!v || !v->is_leaf() || v->error() || v->references() != 1 || v->shapes().size() != 1 ||
      uses_[t.from] != 1)
    return false;
  const auto& data = v->data(0);
  if (!data || data.use_count() != 1) return false;
  auto& held = static_cast<exec::BufferData&>(*data);
  if (&held.buffer.shape() != &outputs_[t.from].shape()) return false;
  held.replace(std::move(outputs_[t.from]));
  return true;
}

void Replay::put(const std::vector<at::Tensor>& arguments) {
  const bool others = !other_targets_.empty();
  if (others) {
    results_.assign(r_.results.size(), Value());
    fresh_.assign(r_.targets.size(), {});
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
      k.data->replace(std::move(outputs_[in_place_[i].root]));
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
  if (t.kind == Target::Kind::fresh && t.returned) fresh_[i] = new_storage(t.bytes, r_.device);
  Storage* s = target_storage(i, arguments);
  if (!s) return;  // a gradient or the like that nobody holds any more
  if (t.is_root && !swap_in(t, *s)) s->slot.set(result(t));
  if (s->geometry != t.geometry) s->geometry = t.geometry;
}

Storage* Replay::target_storage(size_t i, const std::vector<at::Tensor>& arguments) {
  if (i < fresh_.size() && fresh_[i]) return static_cast<Storage*>(fresh_[i].get());
  const auto& t = r_.targets[i];
  if (t.kind == Target::Kind::argument) return &storage_of(arguments[t.argument]);
  return t.storage.expired() ? nullptr : t.identity;
}

std::vector<at::Tensor> Replay::make_returned(const std::vector<at::Tensor>& arguments) {
  std::vector<at::Tensor> out;
  for (const auto& r : r_.returned) {
    if (r.kind == Returned::Kind::undefined) {
      out.emplace_back();
      continue;
    }
    c10::intrusive_ptr<c10::StorageImpl> storage;
    if (r.kind == Returned::Kind::target) {
      const auto& t = r_.targets[r.from];
      if (t.kind == Target::Kind::argument)
        storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(&storage_of(arguments[t.argument]));
      else
        storage = r.from < fresh_.size() && fresh_[r.from] ? fresh_[r.from] : t.storage.lock();
    } else if (storages_[r.from]) {
      storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storages_[r.from]);
    } else {  // a constant
      storage = new_storage(static_cast<size_t>(r_.sources[r.from].shape->bytes()), r_.device);
      auto& s = static_cast<Storage&>(*storage);
      s.slot.set(value_of(r.from));
      s.geometry = std::make_shared<const trace::Geometry>(trace::contiguous(r_.sources[r.from].shape->dims));
    }
    out.push_back(view_of(std::move(storage), r.sizes, r.strides, r.offset, r.dtype));
  }
  return out;
}

std::optional<std::vector<at::Tensor>> Replay::run(const std::vector<at::Tensor>& arguments,
                                                   const std::vector<double>& numbers) {
  exec::Lock lock(exec::mutex());
  (void)exec::client();  // throws in a forked process
  if (!bind(arguments)) return std::nullopt;
  pack_numbers(numbers);
  execute();
  put(arguments);
  if (runner_) keep_everywhere();
  auto out = make_returned(arguments);
  outputs_.clear();
  fresh_.clear();
  for (size_t i : others_) values_[i] = Value();
  return out;
}

}  // namespace tpubridge::step
