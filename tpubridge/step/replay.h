// Running a recorded call again.
#pragma once

#include <unordered_set>

#include "tpubridge/step/record.h"

namespace tpubridge::step {

class Replay {
 public:
  explicit Replay(Recorded recorded);

  // Empty where something it stands on is gone or has another shape: the call must be traced again.
  // `numbers`: the optimizers' numbers of this step.
  std::optional<std::vector<at::Tensor>> run(const std::vector<at::Tensor>& arguments,
                                             const std::vector<double>& numbers);

 private:
  bool bind(const std::vector<at::Tensor>& arguments);
  bool bind_one(size_t i, const std::vector<at::Tensor>& arguments);
  void pack_numbers(const std::vector<double>& of_optimizers);
  [[nodiscard]] const trace::Value& value_of(size_t source) const;
  void execute();
  void put(const std::vector<at::Tensor>& arguments);
  [[nodiscard]] trace::Value result(const Target& t);
  bool swap_in(const Target& t, Storage& s);
  Storage* target_storage(size_t target, const std::vector<at::Tensor>& arguments);
  std::vector<at::Tensor> make_returned(const std::vector<at::Tensor>& arguments);

  struct Pack {
    std::vector<std::byte> bytes;  // what the buffer holds
    std::optional<pjrt::Buffer> buffer;
  };
  Recorded r_;
  std::vector<Pack> packs_;
  std::vector<trace::Number> numbers_;  // as they were last sent
  std::vector<bool> donated_;           // per leaf
  std::vector<size_t> uses_;            // targets per root
  std::unordered_set<const Storage*> captured_;
  // Of the call that runs at the moment.
  std::vector<Storage*> storages_;    // per source; null for constants
  std::vector<trace::Value> values_;  // per source that has no storage
  std::vector<const pjrt::Buffer*> inputs_;
  std::vector<int64_t> keep_;
  std::vector<pjrt::Buffer> outputs_;
  std::vector<trace::Value> results_;  // per root, where made already
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> fresh_;
};

}  // namespace tpubridge::step
