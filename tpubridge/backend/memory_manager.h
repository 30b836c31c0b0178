// The memory of one device: what is in it, tensors and pools of tensors made in it, and what it would take.
//
//   TPUMemoryManager manager(config);
//   auto x = manager.allocate_tensor({1000, 1000});
//   auto pool = manager.create_memory_pool(10, {512, 512});
//   if (auto t = manager.get_tensor_from_pool(pool)) { …; manager.return_tensor_to_pool(pool, *t); }
//   manager.get_memory_stats().allocated_memory;
//
// All figures are live: the ledger's (exec/ledger.h), against the budget that apply() enforces. Figures,
// allocation, pools and monitoring may be used by several threads. Wrong sizes and what goes past the budget
// are told before anything is allocated.
#pragma once

#include <optional>

#include "tpubridge/backend/memory_info.h"
#include "tpubridge/backend/memory_monitor.h"
#include "tpubridge/backend/memory_pool.h"
#include "tpubridge/backend/tpu_backend.h"

namespace tpubridge {

struct TPUAllocation {
  double timestamp = 0;  // seconds of the Unix epoch
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  int64_t bytes = 0;
  std::string pool_id;  // empty: a tensor of its own
  std::string purpose;
};

// Something that would make a model cheaper.
struct MemoryRecommendation {
  std::string type;     // "dimension_padding"
  std::string layer;    // "encoder.0.linear"
  std::string current;  // "63x31"
  std::string reason, expected_benefit;
};
struct ModelMemory {
  int64_t parameter_bytes = 0, buffer_bytes = 0, total_bytes = 0, parameter_count = 0;
  double total_mb = 0;  // of 1024² bytes
  std::vector<MemoryRecommendation> recommendations = {};
  [[nodiscard]] std::string to_json() const;
};
// Also where there is no manager. Layers (Linear, Conv) whose sizes are no multiples of 8 are recommended to
// be padded.
[[nodiscard]] ModelMemory model_memory(const torch::nn::Module& model);

// What sizes are padded to: multiples of 8 (the reference's), or a TPU's whole tile of 8 rows by 128 lanes.
enum class TensorLayout : uint8_t { by_8, lanes_128 };

class TPUMemoryManager {
 public:
  static constexpr size_t kMostAllocations = 10'000;  // kept in the history, however young
  static constexpr size_t kMostSamples = 100'000;     // kept by monitoring

  // With a backend of its own, or with one that must outlive it; of the device that the backend then has.
  explicit TPUMemoryManager(const Config& config = {});
  explicit TPUMemoryManager(const TPUConfig& config);
  explicit TPUMemoryManager(TPUBackend& backend);
  ~TPUMemoryManager();
  TPUMemoryManager(const TPUMemoryManager&) = delete;
  TPUMemoryManager& operator=(const TPUMemoryManager&) = delete;

  [[nodiscard]] const at::Device& device() const { return device_; }
  [[nodiscard]] std::string repr() const;  // TPUMemoryManager(allocated=4.0MB, pools=1, fraction=0.9)

  // Zeros. With a pool, one of its tensors where it has one free of these sizes and this type (in strict mode
  // TPUMemoryPoolError where not), else one of its own. Throws ArgumentError for a negative size,
  // TPUMemoryLimitError for what is past the budget.
  [[nodiscard]] at::Tensor allocate_tensor(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat,
                                           bool requires_grad = false, const std::string& pool_id = {},
                                           const std::string& purpose = "unknown");
  // Allocations of the last allocation_history_retention_seconds, kMostAllocations at most.
  [[nodiscard]] std::vector<TPUAllocation> get_allocation_history() const;

  // Padded with zeros at the end: a matrix in both sizes, an image batch (rank 4) in its channels. Everything
  // else, and what fits already, is the same tensor.
  [[nodiscard]] static at::Tensor optimize_tensor_layout(const at::Tensor& tensor,
                                                         TensorLayout layout = TensorLayout::by_8);

  // `pool_size` tensors, allocated when this returns; gives the pool's id. Throws TPUMemoryPoolError for
  // sizes below 1, TPUMemoryLimitError for what is past the budget.
  [[nodiscard]] std::string create_memory_pool(int64_t pool_size, at::IntArrayRef tensor_size,
                                               at::ScalarType dtype = at::kFloat);
  // Zeros; first in, first out. Nothing where all are in use, or there is no such pool (strict: throws).
  [[nodiscard]] std::optional<at::Tensor> get_tensor_from_pool(const std::string& pool_id);
  // False where there is no such pool, or the tensor (told by its storage) is not one that it has given out;
  // in strict mode TPUMemoryPoolError.
  bool return_tensor_to_pool(const std::string& pool_id, const at::Tensor& tensor);
  bool return_to_pool(const at::Tensor& tensor);  // to whichever pool it is from
  // What is in use stays its user's, but belongs to no pool any more.
  bool clear_pool(const std::string& pool_id);  // whether there was one
  void clear_memory_pools();
  [[nodiscard]] std::optional<PoolStats> get_pool_stats(const std::string& pool_id) const;
  [[nodiscard]] AllPoolStats get_pool_stats() const;

  [[nodiscard]] TPUMemoryStats get_memory_stats() const;
  [[nodiscard]] TPUMemoryStats get_tpu_memory_stats() const { return get_memory_stats(); }
  [[nodiscard]] TPUMemoryInfo get_memory_info() const;  // error "TPU not available" on the simulated device
  void reset_peak_memory();

  [[nodiscard]] bool check_memory_available(int64_t bytes) const;
  // Throws ArgumentError for a negative size and for more bytes than can be counted.
  [[nodiscard]] static int64_t estimate_tensor_size(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat);
  [[nodiscard]] static ModelMemory optimize_model_memory(const torch::nn::Module& model) {
    return model_memory(model);
  }

  // A sample at once and after each interval of the duration; without them, the configuration's. Throws
  // ArgumentError for what is not above 0, and for more than kMostSamples.
  [[nodiscard]] std::vector<TPUMemoryStats> monitor_memory(std::optional<double> interval_seconds = {},
                                                           std::optional<double> duration_seconds = {}) const;
  // The same on a thread, until stopped, or the manager ends; the samples of the last
  // monitoring_duration_seconds are kept. Started again, it begins anew.
  void start_monitoring(std::optional<double> interval_seconds = {});
  void stop_monitoring();  // the samples stay
  [[nodiscard]] bool is_monitoring() const;
  [[nodiscard]] std::vector<TPUMemoryStats> monitoring_history() const;

  // Waits for the device and forgets allocations that are past their retention. Never throws: false where the
  // device failed, which is logged.
  bool optimize_memory_usage() noexcept;
  bool optimize_memory() noexcept;  // the same; false also where there is no TPU
  bool clear_cache();               // of the backend; false where there is no TPU
  void empty_cache() { clear_cache(); }
  void synchronize();
  void cleanup();  // stops monitoring, forgets pools and history, waits

 private:
  struct State;
  TPUMemoryManager(std::unique_ptr<TPUBackend> own, TPUBackend* backend);
  [[nodiscard]] const TPUConfig& tpu() const { return backend_.config().hardware.tpu; }
  [[nodiscard]] std::optional<at::Tensor> from_pool(const std::string& pool_id, at::IntArrayRef shape,
                                                    at::ScalarType dtype);

  std::unique_ptr<TPUBackend> own_;
  TPUBackend& backend_;
  const at::Device device_;
  std::unique_ptr<State> state_;
};

}  // namespace tpubridge
