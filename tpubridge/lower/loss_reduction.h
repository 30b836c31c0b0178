// What a loss makes of the losses of its samples: torch's numbers. Anything else is their sum.
#pragma once

namespace tpubridge::lower {

enum Reduction { none = 0, mean = 1 };

}  // namespace tpubridge::lower
