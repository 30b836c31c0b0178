// The values that somebody can still see: each storage has a Slot, and slots whose value is not computed yet
// stand in a list per device. Materialising computes that list in one program.
#pragma once

#include <vector>

#include "tpubridge/trace/node.h"

namespace tpubridge::exec {

class Slot {
 public:
  Slot() = default;
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  // All under exec::mutex().
  [[nodiscard]] const trace::Value& value() const { return value_; }
  void set(trace::Value value);
  void clear();  // takes the mutex itself

 private:
  friend std::vector<trace::Value> pending_values(int device);
  void link(int device);
  void unlink();
  trace::Value value_;
  Slot *next_ = nullptr, **place_ = nullptr;  // place_: the pointer that points here; null where not listed
};

// The distinct values of the slots that are not computed yet.
[[nodiscard]] std::vector<trace::Value> pending_values(int device);

}  // namespace tpubridge::exec
