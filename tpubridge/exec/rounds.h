// Loops that read nothing: training steps, say, whose loss is looked at after a hundred of them. What was
// traced would become one program, as long as the loop. So it is noticed where the same ops write to the same
// storages again, and each round becomes a program of its own: the same one.
#pragma once

#include "tpubridge/trace/node.h"

namespace tpubridge::exec {

// All under exec::mutex().
// A pending value was given to a storage: `old` where that one has had a computed value before.
void note_written(const trace::Value& value, const void* old);
// Everything that was pending in the lane of this thread is computed, for another reason.
void note_all_computed();

// After an op: computes rounds that are over.
[[nodiscard]] bool wants_cut();
void cut_rounds(int device);

}  // namespace tpubridge::exec
