#include "tpubridge/exec/resize.h"

#include <cstring>

#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/redo.h"

namespace tpubridge::exec {
namespace {

// The elements of `part` from an array of the shape `from_shape` to one of `to_shape`, both dense.
void copy_part(const Shape& part, const std::byte* from, const Shape& from_shape, std::byte* to,
               const Shape& to_shape) {
  if (part.elements() == 0) return;
  const size_t rank = part.dims.size(), item = static_cast<size_t>(part.bytes() / part.elements());
  if (rank == 0) return (void)std::memcpy(to, from, item);
  const size_t row = static_cast<size_t>(part.dims.back()) * item;
  std::vector<int64_t> at(rank - 1, 0);
  const auto place = [&](const Shape& s) {
    int64_t n = 0;
    for (size_t i = 0; i < at.size(); ++i) n = n * s.dims[i] + at[i];
    return static_cast<size_t>(n * s.dims.back()) * item;
  };
  for (bool more = true; more;) {
    std::memcpy(to + place(to_shape), from + place(from_shape), row);
    more = false;
    for (size_t d = at.size(); d-- > 0 && !more;) {
      more = ++at[d] < part.dims[d];
      if (!more) at[d] = 0;
    }
  }
}

// The first elements of the buffer along each dimension, dense. Waits for it.
std::vector<std::byte> part_of(const pjrt::Buffer& buffer, const Shape& part) {
  const Shape& whole = buffer.shape();
  std::vector<std::byte> all(static_cast<size_t>(whole.bytes()));
  buffer.to_host(all.data(), all.size());
  if (whole == part) return all;
  std::vector<std::byte> out(static_cast<size_t>(part.bytes()));
  copy_part(part, all.data(), whole, out.data(), part);
  return out;
}

}  // namespace

pjrt::Buffer resized(const BufferData& data, const Shape& part, const Shape& to) {
  std::vector<std::byte> bytes = read_or_again(data, [&] { return part_of(data.as_it_is(), part); });
  count_resized(to.bytes());
  if (part != to) {
    std::vector<std::byte> larger(static_cast<size_t>(to.bytes()));
    copy_part(part, bytes.data(), part, larger.data(), to);
    bytes = std::move(larger);
  }
  return client().to_device(pjrt::HostArray{bytes.data(), to, {}}, device(data.device));
}

}  // namespace tpubridge::exec
