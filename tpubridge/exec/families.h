// Programs for graphs that differ in loose numbers alone (trace/family.h): `x[i]` with another i is no other
// program. The first graph of a family is compiled with its numbers as constants, which the compiler makes
// the most of; the second with those that differ as inputs. Under exec::mutex().
#pragma once

#include <memory>
#include <vector>

#include "tpubridge/exec/cache.h"

namespace tpubridge::exec {

struct FamilyAnswer {
  std::shared_ptr<const Compiled> program = nullptr;  // this one can be used as it is, or:
  std::vector<trace::Loose> inputs = {};              // what a program for this graph should take as inputs
};
[[nodiscard]] FamilyAnswer find_family(const trace::Graph& graph, const Mode& mode);
// After it was compiled so.
void join_family(const trace::Graph& graph, std::shared_ptr<const trace::Outline> outline, const Mode& mode,
                 std::shared_ptr<const Compiled> compiled);
void set_family_capacity(size_t programs);  // with that of the cache

}  // namespace tpubridge::exec
