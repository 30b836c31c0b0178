// Guard, execute, write back.
#include "tpubridge/step/replay.h"

#include <cstring>

#include "tpubridge/device/dtype.h"
#include "tpubridge/device/generator.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::step {
namespace {

using trace::Value;

size_t width(DType t) { return t == DType::f32 ? 4 : 8; }

}  // namespace

Replay::Replay(Recorded recorded) : r_(std::move(recorded)) {
  donated_.resize(r_.leaves);
  for (int64_t i : r_.compiled->donated) donated_[static_cast<size_t>(i)] = true;
  uses_.resize(r_.results.size());
  for (const auto& t : r_.targets)
    if (t.is_root) ++uses_[t.from];
  for (size_t i = 0; i < r_.sources.size(); ++i)
    if (r_.sources[i].kind == Source::Kind::captured) captured_[r_.sources[i].identity] = i;
  for (const auto& t : r_.targets)
    if (t.kind == Target::Kind::captured) captured_.try_emplace(t.identity, ~size_t{0});
  for (DType type : {DType::f32, DType::f64, DType::s64}) {
    Pack pack{type, {}, std::nullopt};
    for (const auto& n : r_.numbers)
      if (n.value.dtype == type) pack.bytes.resize(pack.bytes.size() + width(type));
    if (!pack.bytes.empty()) packs_.push_back(std::move(pack));
  }
}

bool Replay::bind_one(size_t i, const std::vector<at::Tensor>& arguments) {
  auto& s = r_.sources[i];
  switch (s.kind) {
    case Source::Kind::argument:
      storages_[i] = &storage_of(arguments[s.argument]);
      break;
    case Source::Kind::captured:
      // Its memory stays while we hold the mutex: freeing a storage takes it.
      if (s.storage.expired()) return false;
      storages_[i] = s.identity;
      break;
    case Source::Kind::host_argument: {
      const at::Tensor dense = arguments[s.argument].contiguous();
      values_[i] = exec::to_device(dense.const_data_ptr(), *s.shape, {}, r_.device);
      return true;
    }
    case Source::Kind::host:
      s.value = exec::to_device(s.host.contiguous().const_data_ptr(), *s.shape, {}, r_.device);
      return true;
    case Source::Kind::constant:
      return true;
  }
  const Storage& st = *storages_[i];
  if (!st.slot.value()) return false;
  if (st.geometry != s.geometry && *st.geometry != *s.geometry) return false;
  if (st.slot.value()->is_pending())
    exec::materialise(r_.device, {st.slot.value()}, "input of a compiled step");
  const Value& v = st.slot.value();
  return v->device() == r_.device && v.shape() == *s.shape;
}

bool Replay::bind(const std::vector<at::Tensor>& arguments) {
  storages_.assign(r_.sources.size(), nullptr);
  values_.resize(r_.sources.size());
  for (size_t i = 0; i < r_.sources.size(); ++i)
    if (!bind_one(i, arguments)) return false;
  // An argument that looks at a captured storage, where the recorded one did not.
  for (const auto& a : arguments)
    if (is_tpu(a) && captured_.count(&storage_of(a))) return false;
  for (const auto& t : r_.targets)
    if (t.kind == Target::Kind::captured && t.storage.expired()) return false;
  return true;
}

void Replay::pack_numbers(const std::vector<double>& numbers) {
  std::vector<Draw> draws;
  for (const auto& d : r_.draws)
    draws.push_back(draw(d.generator, static_cast<c10::DeviceIndex>(r_.device), d.elements));
  for (auto& pack : packs_) {
    std::byte* at = pack.bytes.data();
    bool changed = !pack.buffer;
    for (const auto& n : r_.numbers) {
      if (n.value.dtype != pack.dtype) continue;
      double real = n.value.real;
      int64_t integer = n.value.integer;
      if (n.kind == NumberSource::Kind::optimizer) real = numbers[n.index];
      if (n.kind == NumberSource::Kind::seed) integer = static_cast<int64_t>(draws[n.index].seed);
      if (n.kind == NumberSource::Kind::offset) integer = static_cast<int64_t>(draws[n.index].offset);
      auto store = [&](auto v) {
        changed |= std::memcmp(at, &v, sizeof(v)) != 0;
        std::memcpy(at, &v, sizeof(v));
        at += sizeof(v);
      };
      if (pack.dtype == DType::f32) store(static_cast<float>(real));
      if (pack.dtype == DType::f64) store(real);
      if (pack.dtype == DType::s64) store(integer);
    }
    if (!changed) continue;
    const Shape shape{pack.dtype, {static_cast<int64_t>(pack.bytes.size() / width(pack.dtype))}};
    pack.buffer.emplace(
        exec::client().to_device(pjrt::HostArray{pack.bytes.data(), shape, {}}, exec::device(r_.device)));
  }
}

void Replay::execute() {
  inputs_.clear();
  keep_.clear();
  for (size_t i = 0; i < r_.leaves; ++i) {
    const Value& v = storages_[i] ? storages_[i]->slot.value()
                     : values_[i] ? values_[i]
                                  : r_.sources[i].value;
    inputs_.push_back(&exec::buffer_of(*v.node(), v.index()));
    // What somebody else can still see must outlive the call.
    if (donated_[i] && (v->references() > 1 || v->data(v.index()).use_count() > 1))
      keep_.push_back(static_cast<int64_t>(i));
  }
  for (const auto& pack : packs_) inputs_.push_back(&*pack.buffer);
  exec::check_memory(r_.device, r_.compiled->needs, "a compiled step");
  pjrt::ExecuteOptions options;
  options.not_donatable = keep_;
  outputs_ = r_.compiled->program->execute(inputs_, options);
  exec::count_execution(false, 0);
}

Value Replay::result(const Target& t) {
  if (!t.is_root) {
    const auto& s = storages_[t.from];
    return s ? s->slot.value() : values_[t.from] ? values_[t.from] : r_.sources[t.from].value;
  }
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
  auto& buffer = static_cast<exec::BufferData&>(*data).buffer;
  if (&buffer.shape() != &outputs_[t.from].shape()) return false;
  buffer = std::move(outputs_[t.from]);
  return true;
}

void Replay::put(const std::vector<at::Tensor>& arguments) {
  results_.assign(r_.results.size(), Value());
  fresh_.assign(r_.targets.size(), {});
  // Before anything is overwritten: what is passed from storage to storage.
  std::vector<std::pair<size_t, Value>> passed;
  for (size_t i = 0; i < r_.targets.size(); ++i)
    if (!r_.targets[i].is_root) passed.emplace_back(i, result(r_.targets[i]));
  for (size_t i = 0; i < r_.targets.size(); ++i) {
    const auto& t = r_.targets[i];
    if (t.kind == Target::Kind::fresh && t.returned) fresh_[i] = new_storage(t.bytes, r_.device);
    Storage* s = fresh_[i] ? static_cast<Storage*>(fresh_[i].get()) : target_storage(t, arguments);
    if (!s) continue;  // a gradient or the like that nobody holds any more
    if (t.is_root && !swap_in(t, *s)) s->slot.set(result(t));
    if (s->geometry != t.geometry) s->geometry = t.geometry;
  }
  for (auto& [i, v] : passed)
    if (Storage* s =
            fresh_[i] ? static_cast<Storage*>(fresh_[i].get()) : target_storage(r_.targets[i], arguments))
      s->slot.set(std::move(v));
  results_.clear();
}

Storage* Replay::target_storage(const Target& t, const std::vector<at::Tensor>& arguments) {
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
        storage = fresh_[r.from] ? fresh_[r.from] : t.storage.lock();
    } else if (storages_[r.from]) {
      storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storages_[r.from]);
    } else {  // a constant
      storage = new_storage(static_cast<size_t>(r_.sources[r.from].shape->bytes()), r_.device);
      auto& s = static_cast<Storage&>(*storage);
      s.slot.set(values_[r.from] ? values_[r.from] : r_.sources[r.from].value);
      s.geometry = std::make_shared<const trace::Geometry>(trace::contiguous(r_.sources[r.from].shape->dims));
    }
    out.push_back(view_of(std::move(storage), r.sizes, r.strides, r.offset, r.dtype));
  }
  return out;
}

std::optional<std::vector<at::Tensor>> Replay::run(const std::vector<at::Tensor>& arguments,
                                                   const std::vector<double>& numbers) {
  exec::Lock lock(exec::mutex());
  if (!bind(arguments)) return std::nullopt;
  pack_numbers(numbers);
  execute();
  put(arguments);
  auto out = make_returned(arguments);
  outputs_.clear();
  fresh_.clear();
  std::fill(values_.begin(), values_.end(), Value());
  return out;
}

}  // namespace tpubridge::step
