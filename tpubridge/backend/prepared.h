// The models that a backend has prepared: known by what they are, not kept alive. For the sources of
// backend/.
#pragma once

#include <functional>

#include "tpubridge/backend/tpu_backend.h"

namespace tpubridge {

struct TPUBackend::Prepared {
  struct Key {
    const void* model;
    OptimizationLevel::Value level;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const { return std::hash<const void*>()(k.model) * 4 + k.level; }
  };
  // Whether the model at this address is still the one that was prepared, and still on its device.
  using Still = std::shared_ptr<const std::function<bool(const c10::Device&)>>;

  explicit Prepared(size_t most) : cache(most) {}
  LruCache<Key, Still, Hash> cache;
};

}  // namespace tpubridge
