// Learning-rate schedules: the factor by which the optimizer's own rate is multiplied at a step (from 0 on).
// They have no state, so training resumes by the step's number alone.
#pragma once

#include <cstdint>
#include <functional>

namespace tpubridge {

using Schedule = std::function<double(int64_t step)>;

namespace schedule {

[[nodiscard]] Schedule constant();
// Grows in a straight line to 1 within `warmup` steps, then falls along half a cosine to `floor` at `total`.
[[nodiscard]] Schedule warmup_cosine(int64_t warmup, int64_t total, double floor = 0);
// Multiplied by `factor` after every `every` steps.
[[nodiscard]] Schedule step_decay(int64_t every, double factor);

}  // namespace schedule
}  // namespace tpubridge
