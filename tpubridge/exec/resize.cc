#include "tpubridge/exec/resize.h"

#include "tpubridge/exec/box.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/redo.h"

namespace tpubridge::exec {
namespace {

// The first elements of the buffer along each dimension, dense. Waits for it.
std::vector<std::byte> part_of(const pjrt::Buffer& buffer, const Shape& part) {
  const Shape& whole = buffer.shape();
  std::vector<std::byte> all(static_cast<size_t>(whole.bytes()));
  buffer.to_host(all.data(), all.size());
  if (whole == part) return all;
  std::vector<std::byte> out(static_cast<size_t>(part.bytes()));
  copy_box(part, {all.data(), whole, {}}, {out.data(), part, {}});
  return out;
}

}  // namespace

pjrt::Buffer resized(const BufferData& data, const Shape& part, const Shape& to) {
  std::vector<std::byte> bytes = read_or_again(data, [&] { return part_of(data.as_it_is(), part); });
  count_resized(to.bytes());
  if (part != to) {
    std::vector<std::byte> larger(static_cast<size_t>(to.bytes()));
    copy_box(part, {bytes.data(), part, {}}, {larger.data(), to, {}});
    bytes = std::move(larger);
  }
  return client().to_device(pjrt::HostArray{bytes.data(), to, {}}, device(data.device));
}

}  // namespace tpubridge::exec
