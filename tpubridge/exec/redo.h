// Programs that ran out of memory after the call that started them had returned. PJRT tells it by the events
// of the results, which nobody looks at before a result is read; by then the trace has let go of what they
// are computed from. So what a traced program was given is remembered until it is known to have ended well.
// Nothing on XLA's CPU plugin, which cannot run out of memory so.
#pragma once

#include <memory>
#include <shared_mutex>
#include <vector>

#include "tpubridge/base/errors.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {

// What a program was started with.
struct Given {
  std::shared_ptr<const Compiled> program;
  std::vector<GivenLeaf> leaves;
  std::vector<pjrt::Buffer> packs;
  bool may_take = false;  // leaves were donated to it
};

// Remembers it until its results (which are `made` now) are there. Under exec::mutex().
void remember_given(Given given, const std::vector<std::shared_ptr<trace::DeviceData>>& made);

// Reading `wanted` failed for want of memory, with this error. Computes it once more, and before it what it
// is made of and failed so too; whoever reads it then has it. Throws TPUOutOfMemoryError where memory is
// still too small (and it can be tried again), or, with Code::data_loss, where it can never be computed:
// what the program was given had been donated to it, or it was a compiled step.
void compute_again(const trace::DeviceData& wanted, const TPUOutOfMemoryError& error);
[[nodiscard]] bool computing_again();  // this thread does

// What `read` gives, which reads this data; where the program that makes it ran out of memory, once more
// after it ran again.
template <class F>
auto read_or_again(const trace::DeviceData& data, const F& read) {
  try {
    return read();
  } catch (const TPUOutOfMemoryError& e) {
    if (e.code() == Code::data_loss || computing_again()) throw;
    compute_again(data, e);
  }
  return read();
}

void forget_ended();  // what is known by now to have ended well: it holds memory. From any thread
void forget_given();  // all of it

// Held shared by who reads a buffer without exec::mutex(), and alone while buffers are put in another's
// place.
[[nodiscard]] std::shared_mutex& reading();

}  // namespace tpubridge::exec
