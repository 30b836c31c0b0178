// An intrusive list per device: a slot enters with a pending value and leaves when it gets another or is seen
// computed.
#include "tpubridge/exec/live.h"

#include <array>

#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {
namespace {

constexpr int kDevices = 64;
std::array<Slot*, kDevices> heads{};
Slot*& head(int device) { return heads[static_cast<size_t>(device) % kDevices]; }

}  // namespace

Slot::~Slot() { clear(); }

void Slot::clear() {
  if (!value_) return;
  trace::Value dropped;
  Lock lock(mutex());
  if (place_) unlink();
  dropped = std::move(value_);
}

void Slot::link(int device) {
  Slot*& first = head(device);
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

void Slot::set(trace::Value value) {
  if (place_) unlink();
  if (value_ && !value_->is_pending()) before_id_ = value_->id(), before_index_ = value_.index();
  value_ = std::move(value);
  if (value_ && value_->is_pending()) link(value_->device());
}

std::vector<trace::Value> pending_values(int device) {
  std::vector<trace::Value> out;
  for (Slot* s = head(device); s;) {
    Slot* next = s->next_;
    if (s->value_->is_pending())
      out.push_back(s->value_);
    else
      s->unlink();
    s = next;
  }
  return out;
}

std::vector<Successor> successors(int device) {
  std::vector<Successor> out;
  for (const Slot* s = head(device); s; s = s->next_)
    if (s->before_id_ != 0 && s->value_->is_pending())
      out.push_back({s->value_, s->before_id_, s->before_index_});
  return out;
}

}  // namespace tpubridge::exec
