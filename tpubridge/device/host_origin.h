// Where the tensors of the host that a recorded call uses come from: from outside (arguments, captured ones),
// made inside from nothing but the code (literals), or computed inside from tensors of the host, which only
// running the code again could do.
#pragma once

#include <unordered_map>
#include <vector>

#include "tpubridge/device/torch.h"

namespace tpubridge::device {

enum class HostOrigin : uint8_t { outside, literal, computed };

class HostOrigins {
 public:
  [[nodiscard]] HostOrigin of(const at::Tensor& t) const {
    const auto it = known_.find(t.storage().unsafeGetStorageImpl());
    return it == known_.end() ? HostOrigin::outside : it->second;
  }
  // An op was given it, or gave it.
  void note(const at::Tensor& t, HostOrigin origin) {
    if (known_.try_emplace(t.storage().unsafeGetStorageImpl(), origin).second)
      held_.push_back(t.storage());  // its address must not be used again meanwhile
  }
  void becomes_computed(const at::Tensor& t) {
    note(t, HostOrigin::computed);
    known_[t.storage().unsafeGetStorageImpl()] = HostOrigin::computed;
  }
  void clear() { known_.clear(), held_.clear(); }

 private:
  std::unordered_map<const c10::StorageImpl*, HostOrigin> known_;
  std::vector<c10::Storage> held_;
};

// A tensor of the host as the op that copies it to the device wants it: expanded, converted, dense.
[[nodiscard]] at::Tensor host_elements(const at::Tensor& host, c10::IntArrayRef sizes, c10::ScalarType dtype);

// While it lives, ops of this thread are our own and not the user's: recordings do not look at them.
class OwnOps {
 public:
  OwnOps();
  ~OwnOps();
  OwnOps(const OwnOps&) = delete;
  OwnOps& operator=(const OwnOps&) = delete;
};

// What shows each op of a recorded call to its recording.
[[nodiscard]] uint64_t start_observing();
void stop_observing(uint64_t handle);

}  // namespace tpubridge::device
