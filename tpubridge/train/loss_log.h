// Losses that are still on the device, with what is needed when one turns out to be no number. For train/.
#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "tpubridge/train/step_runner.h"

namespace tpubridge::train {

struct Step {
  int64_t number = 0, epoch = 0;  // number: from 1 on
  nlohmann::json position;        // of its first batch in the data
  double rate = 0;
  StepResult result;
};

// Thrown inside the trainer alone, which makes a NonFiniteLossError of it.
struct NonFinite {
  Step step;
  double loss;
};

class LossLog {
 public:
  void add(Step step) { pending_.push_back(std::move(step)); }
  // Reads all but the newest `keep`; throws NonFinite for the first that is no number.
  void read(size_t keep);
  void clear() { pending_.clear(), rows_ = host_ = at::Tensor(); }
  // Of the first step that was not read.
  [[nodiscard]] std::optional<int64_t> next_epoch() const {
    return pending_.empty() ? std::nullopt : std::optional(pending_.front().epoch);
  }
  [[nodiscard]] double loss() const { return loss_; }  // the latest that was read
  [[nodiscard]] double norm() const { return norm_; }
  [[nodiscard]] double rate() const { return rate_; }
  [[nodiscard]] int64_t step() const { return step_; }

 private:
  std::deque<Step> pending_;
  [[nodiscard]] double number(const at::Tensor& of, int64_t row);
  at::Tensor rows_, host_;  // the numbers of several steps that were read last, and where they are read from
  double loss_ = 0, norm_ = 0, rate_ = 0;
  int64_t step_ = 0;
};

}  // namespace tpubridge::train
