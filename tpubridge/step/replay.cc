// Guard, execute, write back.
#include "tpubridge/step/replay.h"

#include "tpubridge/device/dtype.h"
#include "tpubridge/device/generator.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/program.h"

namespace tpubridge::step {

using trace::Value;

Replay::Replay(Recorded recorded) : r_(std::move(recorded)) {
  donated_.resize(r_.leaves);
  for (int64_t i : r_.compiled->donated) donated_[static_cast<size_t>(i)] = true;
  uses_.resize(r_.results.size());
  for (const auto& t : r_.targets)
    if (t.is_root) ++uses_[t.from];
  for (const auto& x : r_.sources)
    if (x.kind == Source::Kind::captured) captured_.insert(x.identity);
  for (const auto& t : r_.targets)
    if (t.kind == Target::Kind::captured) captured_.insert(t.identity);
  for (const auto& n : r_.numbers) numbers_.push_back(n.value);
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
  for (const auto& w : r_.watched)
    if (w.ask() != w.answer) return false;
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

void Replay::pack_numbers(const std::vector<double>& of_optimizers) {
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
    if (packs_[i].buffer && packs_[i].bytes == packs[i].bytes)
      continue;  // numbers that stay are there already
    packs_[i].bytes = std::move(packs[i].bytes);
    packs_[i].buffer.emplace(exec::client().to_device(
        pjrt::HostArray{packs_[i].bytes.data(), packs[i].shape, {}}, exec::device(r_.device)));
  }
}

const Value& Replay::value_of(size_t source) const {
  if (storages_[source]) return storages_[source]->slot.value();
  return values_[source] ? values_[source] : r_.sources[source].value;
}

void Replay::execute() {
  inputs_.clear();
  keep_.clear();
  for (size_t i = 0; i < r_.leaves; ++i) {
    const Value& v = value_of(i);
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
    Storage* s = target_storage(i, arguments);
    if (!s) continue;  // a gradient or the like that nobody holds any more
    if (t.is_root && !swap_in(t, *s)) s->slot.set(result(t));
    if (s->geometry != t.geometry) s->geometry = t.geometry;
  }
  for (auto& [i, v] : passed)
    if (Storage* s = target_storage(i, arguments)) s->slot.set(std::move(v));
  results_.clear();
}

Storage* Replay::target_storage(size_t i, const std::vector<at::Tensor>& arguments) {
  if (fresh_[i]) return static_cast<Storage*>(fresh_[i].get());
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
        storage = fresh_[r.from] ? fresh_[r.from] : t.storage.lock();
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
