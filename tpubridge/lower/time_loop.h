// A loop over the steps of a sequence, and what its body needs.
#pragma once

#include <functional>

#include "tpubridge/hlo/linalg.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

class TimeLoop {
 public:
  // `sizes` is empty or [time] of integers: step t is of the first sizes[t] rows.
  TimeLoop(int64_t steps, bool reversed, Value sizes, hlo::Precision precision)
      : steps_(steps), reversed_(reversed), sizes_(sizes), precision_(precision) {}

  // `body` gets the step and the carried values and gives these anew, for each step in its order.
  using Step = std::function<hlo::Values(Value t, std::span<const Value> carried)>;
  [[nodiscard]] hlo::Values run(hlo::Values carried, const Step& body) const;

  [[nodiscard]] static Value at(Value series, Value t);            // [time, n, k] → [n, k]
  [[nodiscard]] static Value put(Value series, Value v, Value t);  // in the type of the series
  // `now` in the rows that the step is of, `otherwise` in the others.
  [[nodiscard]] Value where_valid(Value t, Value now, Value otherwise) const;
  // What stood before each step: `first`, then the series without its last step.
  [[nodiscard]] Value before(Value series, Value first) const;

  // Products are summed up in f32 at least.
  [[nodiscard]] Value dot(Value a, Value b, int64_t over_a, int64_t over_b) const;

 private:
  int64_t steps_;
  bool reversed_;
  Value sizes_;
  hlo::Precision precision_;
};

}  // namespace tpubridge::lower
