// A source whose batches are changed on the way; position and epochs are those of the source itself. For the
// sources of train/ and backend/.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "tpubridge/train/data.h"

namespace tpubridge {

class MappedData final : public DataSource {
 public:
  MappedData(DataSource& source, std::function<Batch(const Batch&)> change)
      : source_(source), change_(std::move(change)) {}
  std::optional<Batch> next() override {
    const auto batch = source_.next();
    return batch ? std::optional(change_(*batch)) : std::nullopt;
  }
  nlohmann::json position() const override { return source_.position(); }
  void seek(const nlohmann::json& position) override { source_.seek(position); }
  int64_t batches_per_epoch() const override { return source_.batches_per_epoch(); }

 private:
  DataSource& source_;
  std::function<Batch(const Batch&)> change_;
};

}  // namespace tpubridge
