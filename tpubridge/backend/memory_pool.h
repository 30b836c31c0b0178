// A fixed number of tensors alike, made at once and handed out again and again. For the sources of backend/:
// users go by TPUMemoryManager.
//
// A tensor is known by its storage, never by its values. What is handed out is another tensor of the same
// storage, so nothing that a user does to it (requires_grad, set_data, resize_) changes the pool's own. Not
// for several threads at once.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace tpubridge {

struct PoolStats {
  std::string pool_id;
  size_t total_tensors = 0, available_tensors = 0, in_use_tensors = 0;
  double utilization = 0;    // in use, of all
  double created_at = 0;     // seconds of the Unix epoch
  int64_t tensor_bytes = 0;  // of one tensor
};
struct AllPoolStats {
  size_t total_pools = 0;
  std::map<std::string, PoolStats> pool_details = {};
};

class MemoryPool {
 public:
  // The tensors are there, and zero, when this returns.
  MemoryPool(std::string id, size_t count, at::IntArrayRef sizes, at::ScalarType dtype, at::Device device);

  [[nodiscard]] const std::string& id() const { return id_; }
  // Zeros; the one that came back longest ago. Nothing where all are in use.
  [[nodiscard]] std::optional<at::Tensor> take();
  enum class Returned { taken, foreign, not_in_use };
  Returned give_back(const at::Tensor& tensor);
  [[nodiscard]] bool owns(const at::Tensor& tensor) const;
  [[nodiscard]] bool makes(at::IntArrayRef sizes, at::ScalarType dtype) const;
  [[nodiscard]] PoolStats stats() const;
  // Bytes that the tensors which nobody has hold on the device; one that was zeroed holds none before the
  // next program.
  [[nodiscard]] int64_t idle_bytes() const;

 private:
  std::string id_;
  double created_at_;
  std::deque<at::Tensor> idle_;
  std::unordered_map<const c10::StorageImpl*, at::Tensor> in_use_;
  std::vector<int64_t> sizes_;
  at::ScalarType dtype_;
};

}  // namespace tpubridge
