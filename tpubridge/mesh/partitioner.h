// The runner of partitioned calls: splits arguments, keeps copies of captured tensors on every device, runs
// one program on all. For the sources of mesh/.
#pragma once

#include <mutex>
#include <unordered_map>

#include "tpubridge/mesh/partitioned.h"
#include "tpubridge/step/runner.h"

namespace tpubridge::mesh {

class Partitioner final : public step::Runner {
 public:
  [[nodiscard]] int devices() const override { return devices_; }
  void begin(const std::vector<at::Tensor>& arguments) override;
  [[nodiscard]] bool splits(size_t argument) const override { return split_.at(argument); }
  [[nodiscard]] exec::Ready program(const trace::Graph& graph, const std::vector<bool>& split) override;
  [[nodiscard]] std::vector<pjrt::Buffer> run(const exec::Compiled& compiled,
                                              const std::vector<Input>& leaves,
                                              const std::vector<std::vector<const pjrt::Buffer*>>& packs,
                                              const std::vector<int64_t>& not_donated) override;
  void keep(const std::vector<Kept>& kept) override;

  [[nodiscard]] int64_t copied() const;
  [[nodiscard]] std::vector<Shape> parameters() const;  // of the latest program

 private:
  // A computed value on every device but the first; good while the first one's data is there and the same.
  struct Copies {
    std::weak_ptr<trace::DeviceData> of;
    uint64_t version = 0;
    std::vector<trace::Value> values;  // on devices 1, 2, …
  };
  using Parts = std::vector<trace::Value>;  // one for each device

  [[nodiscard]] Parts parts_of(const at::Tensor& whole);
  [[nodiscard]] const Copies& copies_of(const std::shared_ptr<trace::DeviceData>& first);

  const int devices_ = exec::device_count();
  // A program like any other, so that from the third call on nothing is traced.
  CompiledStep<std::function<std::vector<at::Tensor>(at::Tensor)>> slice_ = slicer(devices_);
  static CompiledStep<std::function<std::vector<at::Tensor>(at::Tensor)>> slicer(int devices);

  std::vector<bool> split_;   // per argument of the call
  std::vector<Parts> parts_;  // the same; empty for one that is not split
  std::unordered_map<const trace::DeviceData*, Copies> copies_;
  std::vector<std::vector<pjrt::Buffer>> others_;  // results of the other devices
  mutable std::mutex mutex_;                       // guards what follows
  int64_t copied_ = 0;
  std::vector<Shape> parameters_;
};

}  // namespace tpubridge::mesh
