#include "tpubridge/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tpubridge/base/errors.h"

namespace tpubridge::schedule {

Schedule constant() {
  return [](int64_t) { return 1.0; };
}

Schedule warmup_cosine(int64_t warmup, int64_t total, double floor) {
  if (warmup < 0 || total < 1 || warmup > total || !(floor >= 0 && floor <= 1))
    throw ArgumentError("a cosine schedule needs 0 <= warmup <= total, total >= 1 and a floor from 0 to 1",
                        {{"warmup", std::to_string(warmup)},
                         {"total", std::to_string(total)},
                         {"floor", std::to_string(floor)}});
  return [=](int64_t step) {
    // Never 0: a rate of nothing would be another program.
    if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
    const auto span = static_cast<double>(std::max<int64_t>(total - warmup, 1));
    const double done = std::min(1.0, static_cast<double>(step - warmup) / span);
    return floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  };
}

Schedule step_decay(int64_t every, double factor) {
  if (every < 1 || !(factor > 0))
    throw ArgumentError("a step schedule needs every >= 1 and a factor above 0",
                        {{"every", std::to_string(every)}, {"factor", std::to_string(factor)}});
  return [=](int64_t step) {
    const int64_t times = step / every;
    return std::pow(factor, static_cast<double>(times));
  };
}

}  // namespace tpubridge::schedule
