// The values that somebody can still see: each storage has a Slot, and slots whose value is not computed yet
// stand in a list for each device and lane. Materialising computes such a list in one program.
#pragma once

#include <memory>
#include <vector>

#include "tpubridge/trace/node.h"

namespace tpubridge::exec {

struct Layout;  // grid.h

// A pending value, and the computed one (result `index` of the node `id`) whose place it takes.
struct Successor {
  trace::Value value;
  uint64_t id = 0;
  uint32_t index = 0;
  std::shared_ptr<const Layout> layout = nullptr;  // how that one lay, where it was on several devices
};

class Slot {
 public:
  Slot() = default;
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  // All under exec::mutex().
  [[nodiscard]] const trace::Value& value() const { return value_; }
  void set(trace::Value value);
  // The value takes the place of this one, which was computed only now.
  void replaces(const trace::Value& computed) {
    before_id_ = computed->id();
    before_index_ = computed.index();
  }
  // The zeros that it began with, which it lost to another pending value: their node (zeros.h). 0: it did
  // not.
  [[nodiscard]] uint64_t began_with() const { return zeros_id_; }
  void has_begun() { zeros_id_ = 0; }
  [[nodiscard]] bool lies_on_several() const;  // devices: its value, or the computed one before it
  void clear();                                // takes the mutex itself

 private:
  friend std::vector<trace::Value> pending_values(int device);
  friend std::vector<Successor> successors(int device);
  friend std::vector<Slot*> slots_that_began(int device);
  void link();
  void unlink();
  trace::Value value_;
  uint64_t before_id_ = 0;                    // the computed value that was here last: its node
  uint32_t before_index_ = 0;                 // and which of its results
  std::shared_ptr<const Layout> layout_;      // how it lay, where it was on several devices
  uint64_t zeros_id_ = 0;                     // began_with()
  Slot *next_ = nullptr, **place_ = nullptr;  // place_: the pointer that points here; null where not listed
};

// The values that are not computed yet, one for each slot: of this thread, and of threads that ended.
[[nodiscard]] std::vector<trace::Value> pending_values(int device);
// The slots of such values that began with zeros.
[[nodiscard]] std::vector<Slot*> slots_that_began(int device);
// Which of all threads' values replace a computed value: a program that is given the old one should write the
// new one there.
[[nodiscard]] std::vector<Successor> successors(int device);

}  // namespace tpubridge::exec
