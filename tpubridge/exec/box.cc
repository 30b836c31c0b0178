#include "tpubridge/exec/box.h"

#include <cstring>

namespace tpubridge::exec {
namespace {

// Elements before the row that stands at these places of the box.
int64_t row_at(const Shape& whole, const std::vector<int64_t>& begin, const std::vector<int64_t>& at) {
  int64_t n = 0;
  for (size_t i = 0; i < whole.dims.size(); ++i) {
    const int64_t inside = i < at.size() ? at[i] : 0;
    n = n * whole.dims[i] + inside + (begin.empty() ? 0 : begin[i]);
  }
  return n;
}

}  // namespace

void copy_box(const Shape& box, const BoxFrom& from, const BoxTo& to) {
  if (box.elements() == 0) return;
  const size_t rank = box.dims.size(), item = static_cast<size_t>(box.bytes() / box.elements());
  if (rank == 0) return (void)std::memcpy(to.data, from.data, item);
  const size_t row = static_cast<size_t>(box.dims.back()) * item;
  std::vector<int64_t> at(rank - 1, 0);
  for (bool more = true; more;) {
    std::memcpy(to.data + static_cast<size_t>(row_at(to.whole, to.begin, at)) * item,
                from.data + static_cast<size_t>(row_at(from.whole, from.begin, at)) * item, row);
    more = false;
    for (size_t d = at.size(); d-- > 0 && !more;) {
      more = ++at[d] < box.dims[d];
      if (!more) at[d] = 0;
    }
  }
}

}  // namespace tpubridge::exec
