// Intrusive lists: a slot enters with a pending value and leaves when it gets another or is seen
// computed.
#include "tpubridge/exec/live.h"

#include <deque>

#include "tpubridge/base/forked.h"
#include "tpubridge/exec/rounds.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/exec/zeros.h"

namespace tpubridge::exec {
namespace {

using Heads = std::deque<Slot*>;  // of each device; first slots point to them, so they must not move
std::deque<Heads>& lanes() {
  static auto* all = new std::deque<Heads>;  // tensors with static storage die after it would
  return *all;
}

Slot*& head(const trace::Lane& lane, int device) {
  auto& all = lanes();
  if (lane.index >= all.size()) all.resize(lane.index + 1);
  Heads& heads = all[lane.index];
  if (static_cast<size_t>(device) >= heads.size()) heads.resize(static_cast<size_t>(device) + 1);
  return heads[static_cast<size_t>(device)];
}

std::shared_ptr<const Layout> layout_of(const trace::Value& computed) {
  if (!computed->is_leaf() || computed->error()) return nullptr;
  const auto* data = static_cast<const BufferData*>(computed->data(computed.index()).get());
  return data && data->spread() ? std::make_shared<const Layout>(data->spread()->layout) : nullptr;
}

}  // namespace

Slot::~Slot() { clear(); }

void Slot::clear() {
  if (!value_) return;
  if (in_forked_child()) return (void)value_.release();  // nothing of the device may be touched there
  trace::Value dropped;
  Lock lock(mutex());
  if (place_) unlink();
  dropped = std::move(value_);
}

void Slot::link() {
  Slot*& first = head(value_->lane(), value_->device());
  next_ = first;
  place_ = &first;
  if (next_) next_->place_ = &next_;
  first = this;
}

void Slot::unlink() {
  *place_ = next_;
  if (next_) next_->place_ = place_;
  next_ = nullptr;
  place_ = nullptr;
}

bool Slot::lies_on_several() const {
  if (!any_grid() || !value_) return false;
  return value_->is_pending() ? layout_ != nullptr : layout_of(value_) != nullptr;
}

void Slot::set(trace::Value value) {
  if (place_) unlink();
  if (value_ && !value_->is_pending()) {
    before_id_ = value_->id(), before_index_ = value_.index();
    if (any_grid()) layout_ = layout_of(value_);
  }
  if (before_id_ == 0 && are_zeros(value_))
    zeros_id_ = value && value.shape() == value_.shape() ? value_->id() : 0;
  value_ = std::move(value);
  if (!value_ || !value_->is_pending()) return;
  link();
  note_written(value_, before_id_ != 0 ? this : nullptr);
}

std::vector<trace::Value> pending_values(int device) {
  std::vector<trace::Value> out;
  for (const auto* lane : trace::free_lanes(trace::this_lane()))
    for (Slot* s = head(*lane, device); s;) {
      Slot* next = s->next_;
      if (s->value_->is_pending())
        out.push_back(s->value_);
      else
        s->unlink();
      s = next;
    }
  return out;
}

std::vector<Slot*> slots_that_began(int device) {
  std::vector<Slot*> out;
  for (const auto* lane : trace::free_lanes(trace::this_lane()))
    for (Slot* s = head(*lane, device); s; s = s->next_)
      if (s->zeros_id_ != 0 && s->value_->is_pending()) out.push_back(s);
  return out;
}

std::vector<Successor> successors(int device) {
  std::vector<Successor> out;
  for (const Heads& heads : lanes())
    for (const Slot* s = static_cast<size_t>(device) < heads.size() ? heads[static_cast<size_t>(device)]
                                                                    : nullptr;
         s; s = s->next_)
      if (s->before_id_ != 0 && s->value_->is_pending())
        out.push_back({s->value_, s->before_id_, s->before_index_, s->layout_});
  return out;
}

}  // namespace tpubridge::exec
