#include "tpubridge/backend/memory_pool.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>

#include "tpubridge/device/api.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge {
namespace {

const c10::StorageImpl* storage_of(const at::Tensor& t) {
  return t.defined() && t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr;
}

bool is_computed(const at::Tensor& t) {
  const exec::Lock lock(exec::mutex());
  const trace::Value& value = device::storage_of(t).slot.value();
  return value && value->is_leaf();
}

}  // namespace

MemoryPool::MemoryPool(std::string id, size_t count, at::IntArrayRef sizes, at::ScalarType dtype,
                       at::Device device)
    : id_(std::move(id)),
      created_at_(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()),
      sizes_(sizes.vec()),
      dtype_(dtype) {
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < count; ++i) all.push_back(at::zeros(sizes, at::TensorOptions(device).dtype(dtype)));
  sync(all);
  idle_.assign(all.begin(), all.end());
}

std::optional<at::Tensor> MemoryPool::take() {
  if (idle_.empty()) return std::nullopt;
  at::Tensor t = std::move(idle_.front());
  idle_.pop_front();
  const at::NoGradGuard no_grad;
  at::Tensor out = t.zero_().detach();
  in_use_.emplace(storage_of(t), std::move(t));
  return out;
}

MemoryPool::Returned MemoryPool::give_back(const at::Tensor& tensor) {
  const auto it = in_use_.find(storage_of(tensor));
  if (it == in_use_.end()) return owns(tensor) ? Returned::not_in_use : Returned::foreign;
  idle_.push_back(std::move(it->second));
  in_use_.erase(it);
  return Returned::taken;
}

bool MemoryPool::owns(const at::Tensor& tensor) const {
  const c10::StorageImpl* storage = storage_of(tensor);
  if (storage == nullptr) return false;
  return in_use_.contains(storage) ||
         std::any_of(idle_.begin(), idle_.end(), [&](const auto& t) { return storage_of(t) == storage; });
}

bool MemoryPool::makes(at::IntArrayRef sizes, at::ScalarType dtype) const {
  return dtype == dtype_ && sizes == at::IntArrayRef(sizes_);
}

PoolStats MemoryPool::stats() const {
  const size_t all = idle_.size() + in_use_.size();
  const auto& any = idle_.empty() ? in_use_.begin()->second : idle_.front();
  return {id_,
          all,
          idle_.size(),
          in_use_.size(),
          static_cast<double>(in_use_.size()) / static_cast<double>(all),
          created_at_,
          static_cast<int64_t>(any.nbytes())};
}

int64_t MemoryPool::idle_bytes() const {
  int64_t bytes = 0;
  for (const auto& t : idle_)
    if (is_computed(t)) bytes += static_cast<int64_t>(t.nbytes());
  return bytes;
}

}  // namespace tpubridge
