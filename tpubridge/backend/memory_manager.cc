// Allocation and pools.
#include "tpubridge/backend/memory_manager.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdio>

#include "tpubridge/backend/memory_state.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/exec/ledger.h"

namespace tpubridge {
namespace {

std::string text_of(at::IntArrayRef shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}

}  // namespace

TPUMemoryManager::TPUMemoryManager(std::unique_ptr<TPUBackend> own, TPUBackend* backend)
    : own_(std::move(own)),
      backend_(own_ ? *own_ : *backend),
      device_(backend_.device()),
      state_(
          std::make_unique<State>(static_cast<double>(tpu().allocation_history_retention_seconds.value()))) {}
TPUMemoryManager::TPUMemoryManager(const Config& config)
    : TPUMemoryManager(std::make_unique<TPUBackend>(config), nullptr) {}
TPUMemoryManager::TPUMemoryManager(const TPUConfig& config)
    : TPUMemoryManager(std::make_unique<TPUBackend>(config), nullptr) {}
TPUMemoryManager::TPUMemoryManager(TPUBackend& backend) : TPUMemoryManager(nullptr, &backend) {}
TPUMemoryManager::~TPUMemoryManager() { stop_monitoring(); }

std::string TPUMemoryManager::repr() const {
  const TPUMemoryStats s = get_memory_stats();
  char text[128];
  std::snprintf(text, sizeof text, "TPUMemoryManager(allocated=%.1fMB, pools=%zu, fraction=%g)",
                static_cast<double>(s.allocated_memory) / 1e6, get_pool_stats().total_pools,
                s.memory_fraction);
  return text;
}

int64_t TPUMemoryManager::estimate_tensor_size(at::IntArrayRef shape, at::ScalarType dtype) {
  auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (const int64_t n : shape) {
    if (n < 0) throw ArgumentError("a tensor of sizes " + text_of(shape), {}, "Sizes cannot be negative.");
    if (!empty && __builtin_mul_overflow(bytes, n, &bytes))
      throw ArgumentError("a tensor of sizes " + text_of(shape) + " has more bytes than can be counted");
  }
  return empty ? 0 : bytes;
}

at::Tensor TPUMemoryManager::allocate_tensor(at::IntArrayRef shape, at::ScalarType dtype, bool requires_grad,
                                             const std::string& pool_id, const std::string& purpose) {
  const int64_t bytes = estimate_tensor_size(shape, dtype);
  std::optional<at::Tensor> out;
  if (!pool_id.empty()) out = from_pool(pool_id, shape, dtype);
  const bool pooled = out.has_value();
  if (!pooled) {
    exec::check_memory(device_.index(), bytes, "allocate_tensor");
    out = at::zeros(shape, at::TensorOptions(device_).dtype(dtype));
  }
  out->set_requires_grad(requires_grad);
  const std::lock_guard lock(state_->mutex);
  if (!pooled) state_->handed.add(*out);
  state_->history.add({unix_seconds(), shape.vec(), dtype, bytes, pooled ? pool_id : std::string(), purpose},
                      steady_seconds());
  return *std::move(out);
}

std::optional<at::Tensor> TPUMemoryManager::from_pool(const std::string& pool_id, at::IntArrayRef shape,
                                                      at::ScalarType dtype) {
  const std::lock_guard lock(state_->mutex);
  const auto it = state_->pools.find(pool_id);
  std::string problem = "there is no such pool";
  if (it != state_->pools.end()) {
    if (!it->second.makes(shape, dtype))
      problem = "its tensors are not " + text_of(shape) + " of " + c10::toString(dtype);
    else if (auto found = it->second.take())
      return found;
    else
      problem = "all its tensors are in use";
  }
  if (tpu().enable_strict_validation) throw memory_pool_error(pool_id, "allocate", problem);
  return std::nullopt;
}

std::vector<TPUAllocation> TPUMemoryManager::get_allocation_history() const {
  const std::lock_guard lock(state_->mutex);
  state_->history.prune(steady_seconds());
  return state_->history.all();
}

at::Tensor TPUMemoryManager::optimize_tensor_layout(const at::Tensor& tensor, TensorLayout layout) {
  const bool lanes = layout == TensorLayout::lanes_128;
  const auto missing = [&](int64_t dim, int64_t unit) { return (unit - tensor.size(dim) % unit) % unit; };
  std::vector<int64_t> pad;  // from the last dimension on, before and after
  if (tensor.dim() == 2)
    pad = {0, missing(1, lanes ? 128 : 8), 0, missing(0, 8)};
  else if (tensor.dim() == 4)
    pad = {0, 0, 0, 0, 0, missing(1, lanes ? 128 : 8)};
  const bool fits = std::all_of(pad.begin(), pad.end(), [](int64_t n) { return n == 0; });
  return fits ? tensor : at::constant_pad_nd(tensor, pad, 0);
}

std::string TPUMemoryManager::create_memory_pool(int64_t pool_size, at::IntArrayRef tensor_size,
                                                 at::ScalarType dtype) {
  const std::string what = std::to_string(pool_size) + " tensors of " + text_of(tensor_size);
  int64_t n = 0;
  {
    const std::lock_guard lock(state_->mutex);
    n = state_->pools_made++;
  }
  std::string id =
      "tpu_pool_" + std::to_string(n) + "_" + std::to_string(static_cast<int64_t>(unix_seconds()));
  const bool sound =
      pool_size > 0 && std::all_of(tensor_size.begin(), tensor_size.end(), [](int64_t d) { return d > 0; });
  if (!sound)
    throw memory_pool_error(id, "create", what, "Give at least one tensor, and sizes of at least 1.");
  int64_t bytes = 0;
  if (__builtin_mul_overflow(estimate_tensor_size(tensor_size, dtype), pool_size, &bytes))
    throw memory_pool_error(id, "create", what + " have more bytes than can be counted");
  exec::check_memory(device_.index(), bytes, "a pool of " + what);
  MemoryPool pool(id, static_cast<size_t>(pool_size), tensor_size, dtype, device_);
  const std::lock_guard lock(state_->mutex);
  state_->pools.emplace(id, std::move(pool));
  return id;
}

std::optional<at::Tensor> TPUMemoryManager::get_tensor_from_pool(const std::string& pool_id) {
  const std::lock_guard lock(state_->mutex);
  const auto it = state_->pools.find(pool_id);
  if (it != state_->pools.end()) return it->second.take();
  if (tpu().enable_strict_validation) throw memory_pool_error(pool_id, "get", "there is no such pool");
  return std::nullopt;
}

bool TPUMemoryManager::return_tensor_to_pool(const std::string& pool_id, const at::Tensor& tensor) {
  const std::lock_guard lock(state_->mutex);
  const auto it = state_->pools.find(pool_id);
  std::string problem = "there is no such pool";
  if (it != state_->pools.end()) switch (it->second.give_back(tensor)) {
      case MemoryPool::Returned::taken:
        return true;
      case MemoryPool::Returned::foreign:
        problem = "the tensor is not from this pool";
        break;
      case MemoryPool::Returned::not_in_use:
        problem = "the tensor was returned already";
        break;
    }
  if (tpu().enable_strict_validation)
    throw memory_pool_error(pool_id, "return", problem,
                            "Return each tensor once, to the pool that it is from.");
  return false;
}

bool TPUMemoryManager::return_to_pool(const at::Tensor& tensor) {
  std::string id;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [name, pool] : state_->pools)
      if (pool.owns(tensor)) id = name;
  }
  return return_tensor_to_pool(id, tensor);
}

bool TPUMemoryManager::clear_pool(const std::string& pool_id) {
  const std::lock_guard lock(state_->mutex);
  return state_->pools.erase(pool_id) > 0;
}

void TPUMemoryManager::clear_memory_pools() {
  const std::lock_guard lock(state_->mutex);
  state_->pools.clear();
}

std::optional<PoolStats> TPUMemoryManager::get_pool_stats(const std::string& pool_id) const {
  const std::lock_guard lock(state_->mutex);
  const auto it = state_->pools.find(pool_id);
  return it == state_->pools.end() ? std::nullopt : std::optional(it->second.stats());
}

AllPoolStats TPUMemoryManager::get_pool_stats() const {
  const std::lock_guard lock(state_->mutex);
  AllPoolStats out{state_->pools.size()};
  for (const auto& [id, pool] : state_->pools) out.pool_details.emplace(id, pool.stats());
  return out;
}

}  // namespace tpubridge
