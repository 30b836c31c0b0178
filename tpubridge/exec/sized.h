// Programs for many sizes: where the same program comes with other sizes again and again, one is compiled
// that is told the sizes when it runs (hlo/sized_text.h). Its buffers are as large as any size up to the next
// power of two needs, and what it gives may be larger than the value in it (BufferData). All under
// exec::mutex().
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/trace/graph.h"

namespace tpubridge::exec {

// How a graph is to be taken.
enum class Sizes {
  one,       // as it is: a compiled step
  many,      // its sizes may have come otherwise before
  changing,  // they are known to change
};

// What a program for many sizes takes and gives, and the sizes of one graph.
struct Sizing {
  std::vector<Shape> parameters, results;
  std::vector<int64_t> sizes;
  mutable int64_t runs = 0;  // with these sizes
};
// A size that comes so often is worth a program of its own, which wastes nothing.
inline constexpr int64_t kWorthItsOwn = 256;

struct SizedProgram {
  std::string text;
  Sizing sizing;
};
// For a graph that no program is known for, of this text: nothing where it did not come with other sizes
// before, or where there is no such program.
[[nodiscard]] std::shared_ptr<const SizedProgram> sized_program(const std::string& text, const Mode& mode,
                                                                Sizes how);
// That program did not compile: there will be none.
void refuse_sized(const std::string& text, const Mode& mode);

// What the program is given: these leaves, made larger where they must be. `made` keeps those.
[[nodiscard]] std::vector<const pjrt::Buffer*> sized_arguments(std::span<const GivenLeaf> leaves,
                                                               const Sizing& sizing,
                                                               std::vector<pjrt::Buffer>& made);

}  // namespace tpubridge::exec
