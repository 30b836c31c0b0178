// Noting what a call touches.
#include "tpubridge/device/recording.h"

#include <atomic>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/place.h"
#include "tpubridge/device/quantized.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/exec/zeros.h"

namespace tpubridge::device {
namespace {

const auto kKind = c10::DebugInfoKind::TEST_INFO_2;  // the one slot that no part of libtorch uses
std::atomic<int> active{0};

}  // namespace

WeakStorage weak(c10::StorageImpl& s) {
  return WeakStorage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(&s));
}

Recording::Recording(HostReads policy, bool notes_zeros) : policy_(policy), notes_zeros_(notes_zeros) {
  for (int i = 0; i < exec::device_count(); ++i) {
    const auto& g = default_generator(static_cast<c10::DeviceIndex>(i));
    generators_.push_back({g, state_of(g), settings_of(g)});
  }
}

Recording* recording() {
  if (active.load(std::memory_order_relaxed) == 0) return nullptr;
  return static_cast<Recording*>(c10::ThreadLocalDebugInfo::get(kKind));
}

RecordingScope::RecordingScope(std::shared_ptr<Recording> r)
    : guard_(kKind, std::move(r)), observer_(start_observing()) {
  ++active;
}
RecordingScope::~RecordingScope() {
  stop_observing(observer_);
  --active;
}

void Recording::touch(Storage& s) {
  if (s.quantized) {  // has no value of its own
    touch(*s.quantized->packed);
    return touch(*s.quantized->scales);
  }
  // What another thread left pending is computed before the call: a call's program is its own work.
  if (s.slot.value() && s.slot.value()->is_pending() && !places_.contains(&s))
    exec::materialise_only({s.slot.value()}, "input of a compiled step");
  const auto [it, fresh] = places_.try_emplace(&s, found.size());
  if (fresh) {
    // Tensors that hold one value now (clone, copy_) may hold two at the next call: each is an input.
    if (const trace::Value v = s.slot.value(); v && v->is_leaf() && !v->error()) {
      auto& indices = values_[v.node()];
      if (std::find(indices.begin(), indices.end(), v.index()) == indices.end())
        indices.push_back(v.index());
      else
        s.slot.set(trace::Node::leaf(v->data(v.index()), v.shape(), v->device()));
    }
    found.push_back({weak(s), s.slot.value(), s.geometry, s.nbytes()});
  } else if (Found& f = found[it->second];
             notes_zeros_ && !f.value && !f.zeros && exec::are_zeros(s.slot.value())) {
    f.zeros = s.slot.value();
    f.zeros_geometry = s.geometry;
  }
}

void Recording::found_zeros(const std::vector<at::Tensor>& returned) {
  for (Found& f : found) {
    const trace::Value zeros = std::move(f.zeros);
    const auto alive = f.storage.lock();
    if (!zeros || !zeros->is_pending() || !alive) continue;
    auto& s = static_cast<Storage&>(*alive);
    const trace::Value& now = s.slot.value();
    if (!now || !now->is_pending() || now == zeros || now.shape() != zeros.shape() ||
        std::any_of(returned.begin(), returned.end(),
                    [&](const at::Tensor& t) { return is_tpu(t) && &storage_of(t) == &s; }))
      continue;
    exec::put_zeros(zeros);
    s.slot.replaces(zeros);
    f.value = zeros;
    f.geometry = f.zeros_geometry;
  }
}

void Recording::see(const at::Tensor& t) {
  const auto [it, fresh] = seen_places_.try_emplace(t.unsafeGetTensorImpl(), seen.size());
  if (fresh) seen.push_back({weak(t), TensorFacts(t), version_of(*t.unsafeGetTensorImpl())});
}

const Recording::Found* Recording::found_of(const Storage* s) const {
  const auto it = places_.find(s);
  return it == places_.end() ? nullptr : &found[it->second];
}

void Recording::note_trouble(std::string_view what) {
  if (trouble.empty()) trouble = std::string(what) + " (called from " + user_place() + ")";
}

void Recording::upload(const at::Tensor& from, c10::IntArrayRef sizes, c10::ScalarType dtype,
                       const trace::Value& leaf) {
  if (host.of(from) == HostOrigin::computed)
    note_trouble("it computes on the host what it copies to the device");
  uploads.push_back({from, sizes.vec(), dtype, leaf});
}

void Recording::feed(trace::Value number, const at::Tensor& from) {
  const bool literal = from.unsafeGetTensorImpl()->is_wrapped_number();
  const HostOrigin origin = literal ? HostOrigin::literal : host.of(from);
  if (origin == HostOrigin::computed) note_trouble("it computes a number on the host");
  if (origin == HostOrigin::outside)
    fed.push_back({std::move(number), nullptr, from});
  else
    number_made(number);
}

// A replayed call draws once for each entry, in order. The same state again is the same draw: a checkpoint
// computes it a second time.
void Recording::draw(const at::Generator& generator, int64_t elements, Draw at, trace::Value seed,
                     trace::Value offset) {
  for (auto& d : drawn) {
    if (d.generator != generator || d.at != at || d.elements != elements) continue;
    d.numbers.emplace_back(std::move(seed), std::move(offset));
    return;
  }
  if (std::none_of(generators_.begin(), generators_.end(), [&](auto& g) { return g.generator == generator; }))
    generators_.push_back({generator, at, settings_of(generator)});
  drawn.push_back({generator, elements, at, {{std::move(seed), std::move(offset)}}});
}

void Recording::check_generators() {
  for (const auto& g : generators_)
    if (trouble.empty() && g.was_set())
      trouble = "it sets the state of a random number generator (do that outside of the step)";
}

void after_op(int device) {
  // A step is one program, however long.
  recording() && !exec::eager() ? exec::count_traced() : exec::after_op(device);
}

bool Recording::host_read(std::string_view what) {
  if (policy_ == HostReads::unused) return true;
  if (policy_ == HostReads::refuse)
    throw UnsupportedError(
        "a compiled step wants a value on the host: " + std::string(what), {{"called from", user_place()}},
        "Return the tensor and read it after the step (tpubridge::clip_grad_norm_ does), or see "
        "StepOptions::host_reads.");
  note_trouble("it reads a value on the host: " + std::string(what));
  return false;
}

// Back to where the call found them, unless another thread has drawn meanwhile: its numbers must not come
// again.
void Recording::undo_draws() {
  for (const auto& met : generators_) {
    if (met.was_set()) {
      auto g = met.generator;
      const std::scoped_lock lock(g.mutex());
      g.set_current_seed(met.at.seed);
      g.set_offset(met.at.offset);
      continue;
    }
    for (auto d = drawn.rbegin(); d != drawn.rend(); ++d)
      if (d->generator == met.generator &&
          next_draw(d->generator) == Draw{d->at.seed, d->at.offset + advance_of(d->elements)})
        set_next_draw(d->generator, d->at);
  }
}

void Recording::undo() {
  for (auto f = undo_.rbegin(); f != undo_.rend(); ++f) (*f)();
  undo_.clear();
  for (const auto& s : seen)
    if (const auto t = s.tensor.lock()) set_version(*t, s.version);
  for (const auto& f : found) {
    const auto alive = f.storage.lock();
    if (!alive) continue;
    auto& s = static_cast<Storage&>(*alive);
    s.slot.set(f.value);
    s.geometry = f.geometry;
    s.set_nbytes(f.bytes);
  }
  undo_draws();
}

}  // namespace tpubridge::device
