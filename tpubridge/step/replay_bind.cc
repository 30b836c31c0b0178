// What a replayed call stands on: all of it is found and checked before anything happens.
#include "tpubridge/device/generator.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/step/replay.h"

namespace tpubridge::step {

using trace::Value;

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
  if (v->is_pending()) return true;
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
  if (window_ && window_->loop.stacked[i]) return bind_stack(i, arguments);
  if (s.kind == Source::Kind::host) {
    if (window_ && values_[i]) return true;  // it is bound a second time
    const at::Tensor from = s.host.get(arguments);
    if (!from.defined()) return false;
    values_[i] =
        exec::to_device(host_elements(from, s.sizes, s.dtype).const_data_ptr(), *s.shape, {}, r_.device);
  } else if (s.kind == Source::Kind::argument) {
    storages_[i] = &storage_of(arguments[s.argument]);
    return check(i);
  } else if (s.kind == Source::Kind::gradient) {
    storages_[i] = gradients_[s.argument].storage;
    return storages_[i] && check(i);
  }
  return true;
}

// The variable has a gradient, or has none, as the call needs it.
bool Replay::bind_gradient(size_t i, const std::vector<at::Tensor>& arguments) {
  const auto& s = r_.slots[i];
  Gradient& g = gradients_[i];
  g.variable = s.variable.get(arguments);
  if (!g.variable) return false;
  if (s.start == GradientSlot::Start::any) return true;
  const at::Tensor& now = g.variable->grad();
  if (s.start == GradientSlot::Start::undefined) return !now.defined();
  if (!now.defined() || !is_tpu(now)) return false;
  if (!s.facts.hold_elsewhere(*now.unsafeGetTensorImpl())) return false;
  Storage* storage = &storage_of(now);
  if (storage == g.storage) return true;
  // Another than before: it must be reached through the parameter alone.
  if (storage->nbytes() != s.bytes || captured_storages_.count(storage) ||
      (!r_.slot_varies[i] && s.found != weak(*storage)))
    return false;
  for (const auto& a : arguments)
    if (is_tpu(a) && &storage_of(a) == storage) return false;
  g.storage = storage;
  g.held = weak(*storage);
  new_storages_.push_back(i);
  return true;
}

bool Replay::bind_gradients(const std::vector<at::Tensor>& arguments) {
  new_storages_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (i + kAhead < slots_.size()) __builtin_prefetch(r_.slots[slots_[i + kAhead]].variable.identity);
    if (!bind_gradient(slots_[i], arguments)) {
      for (auto& g : gradients_) g.storage = nullptr;
      return false;
    }
  }
  if (new_storages_.empty()) return true;
  std::unordered_set<const Storage*> all;
  for (size_t i : slots_)
    if (r_.slots[i].start == GradientSlot::Start::defined && !all.insert(gradients_[i].storage).second) {
      gradients_[i].storage = nullptr;
      return false;
    }
  return true;
}

// The numbers that this call needs, or one so many later, and where it leaves the generators.
bool Replay::bind_numbers(const std::vector<at::Tensor>& arguments, int64_t round) {
  of_optimizers_.clear();
  for (size_t i = 0; i < r_.optimizers.size(); ++i) {
    const auto& o = r_.optimizers[i];
    next_numbers(*o.optimizer, o.ahead + round * steps_of_call_[i], of_optimizers_);
  }
  if (of_optimizers_.size() != numbers_of_optimizers_) return false;
  for (const auto& f : fixed_)
    if (of_optimizers_[f.number] != f.value) return false;
  std::vector<Draw> draws;
  if (round == 0) drawn_.clear();
  for (const auto& d : r_.draws) {
    auto it = std::find_if(drawn_.begin(), drawn_.end(), [&](auto& x) { return x.first == d.generator; });
    if (it == drawn_.end()) it = drawn_.emplace(drawn_.end(), d.generator, next_draw(d.generator));
    draws.push_back(it->second);
    it->second.offset += advance_of(d.elements);
  }
  for (size_t i = 0; i < r_.numbers.size(); ++i) {
    const auto& n = r_.numbers[i];
    if (n.kind == NumberSource::Kind::optimizer) numbers_[i].real = of_optimizers_[n.index];
    if (n.kind == NumberSource::Kind::seed) numbers_[i].integer = static_cast<int64_t>(draws[n.index].seed);
    if (n.kind == NumberSource::Kind::offset)
      numbers_[i].integer = static_cast<int64_t>(draws[n.index].offset);
    if (n.kind != NumberSource::Kind::fed) continue;
    const auto& fed = r_.fed[n.index];
    if (fed.ask) {
      numbers_[i].real = fed.ask();
      continue;
    }
    const at::Tensor from = fed.host.get(arguments);
    if (!from.defined()) return false;
    if (numbers_[i].dtype == DType::s64)
      numbers_[i].integer = from.item<int64_t>();
    else
      numbers_[i].real = from.item<double>();
  }
  return trace::are_shared(r_.compiled->shared, numbers_);
}

// The storage holds what the program takes, or will when what is pending is computed.
bool Replay::check(size_t i) {
  const auto& s = r_.sources[i];
  const Storage& st = *storages_[i];
  if (!st.slot.value()) return false;
  if (st.geometry != s.geometry && *st.geometry != *s.geometry) return false;
  const Value& v = st.slot.value();
  if (v->device() != r_.device || v.shape() != *s.shape) return false;
  if (v->is_pending()) pending_.push_back(v);
  return true;
}

bool Replay::holds_captured() const {
  const int64_t* dims = check_dims_.data();
  for (size_t i = 0; i < checks_.size(); ++i) {
    if (i + kAhead < checks_.size()) {
      const auto* next = reinterpret_cast<const char*>(checks_[i + kAhead].tensor);
      for (size_t line = 0; line < sizeof(c10::TensorImpl); line += 64) __builtin_prefetch(next + line);
    }
    const Check& c = checks_[i];
    if (!alive(c.tensor)) return false;
    const c10::TensorImpl& t = *c.tensor;
    if (t.unsafe_storage().unsafeGetStorageImpl() != c.storage || t.key_set().raw_repr() != c.keys ||
        t.dtype() != c10::scalarTypeToTypeMeta(c.dtype) || t.requires_grad() != c.requires_grad ||
        hooks_of(t) != c.hooks)
      return false;
    if (c.storage && t.storage_offset() != c.offset) return false;
    const c10::IntArrayRef sizes(dims, c.dims), strides(dims + c.dims, c.dims);
    if (t.sizes() != sizes || t.strides() != strides) return false;
    dims += 2 * c.dims;
  }
  return true;
}

bool Replay::bind_computed(const std::vector<at::Tensor>& arguments) {
  while (true) {
    why_not_ = bind(arguments);
    if (!why_not_.empty() || pending_.empty()) break;
    // The mutex may be let go meanwhile: everything is looked at again.
    exec::materialise(r_.device, std::exchange(pending_, {}), "input of a compiled step");
  }
  pending_.clear();
  if (why_not_.empty() && !lies_as_compiled())
    why_not_ = "a tensor lies on other devices than when it was compiled";
  return why_not_.empty();
}

// Why it cannot be replayed, of what is no tensor and no number; empty where it can.
std::string_view Replay::surroundings() {
  if (!hold(r_.looks)) return "a variable that it captures, or one beside it, changed";
  if (!hold(r_.modules)) return "a member of a module changed";
  for (const auto& o : r_.options) {
    if (o.gone()) return "an optimizer that stepped in it is gone";
    if (!o.hold()) return "an option of an optimizer changed for the first time";
  }
  for (const auto& w : r_.watched)
    if (w.ask() != w.answer) return "a mode of a step inside changed";
  return {};
}

// Why it cannot be replayed now; empty where it can.
std::string_view Replay::bind(const std::vector<at::Tensor>& arguments) {
  if (opened_ != exec::openings()) return "the device was opened again";
  if (const auto why = round_ ? "" : surroundings(); !why.empty()) return why;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& a = arguments[i];
    if (!r_.argument_varies[i] && a.defined() && a.has_storage() &&
        r_.argument_identities[i] != a.storage().unsafeGetStorageImpl())
      return "another tensor was given where it had always been the same";
  }
  if (!holds_captured()) return "a tensor that it captures is gone, or is another";
  for (size_t i = 0; i < captured_.size(); ++i) {
    if (i + kAhead < captured_.size()) {
      const Known& next = known_[captured_[i + kAhead]];
      __builtin_prefetch(next.storage);
      if (next.storage) __builtin_prefetch(&next.storage->slot);
      __builtin_prefetch(next.node);
      __builtin_prefetch(next.data, /*write=*/1);
    }
    if (!bind_captured(captured_[i])) return "a tensor that it captures is laid out in another way";
  }
  if (!bind_gradients(arguments)) return "a gradient is there, is not there, or is another";
  for (size_t i : others_)
    if (!bind_other(i, arguments)) return "an argument, a gradient or a tensor of the host is another";
  // An argument that looks at a captured storage, where the recorded one did not.
  for (const auto& a : arguments)
    if (is_tpu(a) && captured_storages_.count(&storage_of(a)))
      return "an argument shares its memory with a tensor that it captures";
  for (size_t i : other_targets_) {
    const auto& t = r_.targets[i];
    if (t.kind == Target::Kind::captured && t.storage.expired()) return "a tensor that it writes to is gone";
    if (const Storage* s = target_storage(i, arguments); s && s->nbytes() != t.bytes)
      return "a tensor that it writes to has another size";
  }
  if (window_) return {};  // its numbers come round by round
  if (round_) {
    numbers_ = round_->numbers;
    drawn_ = round_->drawn;
    return {};
  }
  if (!bind_numbers(arguments)) return "a number of an optimizer or of the host is another";
  return {};
}

}  // namespace tpubridge::step
