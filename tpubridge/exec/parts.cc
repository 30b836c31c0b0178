#include "tpubridge/exec/parts.h"

#include <set>

#include "tpubridge/exec/box.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/resize.h"

namespace tpubridge::exec {
namespace {

const pjrt::Buffer& part_at(const BufferData& data, size_t place) {
  return place == 0 ? data.as_it_is() : data.spread()->others[place - 1];
}

std::vector<int64_t> dense_strides(const Shape& shape) {
  std::vector<int64_t> out(shape.dims.size());
  int64_t step = shape.elements() == 0 ? 1 : shape.bytes() / shape.elements();
  for (size_t d = out.size(); d-- > 0; step *= shape.dims[d]) out[d] = step;
  return out;
}

}  // namespace

void put_together(const BufferData& data, std::byte* to) {
  const Spread& s = *data.spread();
  std::set<std::vector<int64_t>> have;
  struct Copy {
    std::vector<std::byte> bytes;
    std::vector<int64_t> begin;
    pjrt::Event done;
  };
  std::vector<Copy> copies;  // all of them on their way at once
  copies.reserve(s.layout.grid->devices.size());
  for (size_t place = 0; place < s.layout.grid->devices.size(); ++place) {
    auto begin = s.layout.begin(s.whole, place);
    if (!have.insert(begin).second) continue;  // the same part as another device's
    const pjrt::Buffer& part = part_at(data, place);
    std::vector<std::byte> bytes(static_cast<size_t>(part.shape().bytes()));
    auto* const into = bytes.data();
    const size_t size = bytes.size();
    copies.push_back({std::move(bytes), std::move(begin), part.to_host_async(into, size)});
  }
  const Shape part = s.layout.part(s.whole);
  for (auto& c : copies) {
    c.done.wait();
    copy_box(part, {c.bytes.data(), part, {}}, {to, s.whole, c.begin});
  }
}

void BufferData::set_spread(Spread spread) {
  drop_others();
  spread_ = std::make_unique<Spread>(std::move(spread));
  other_.store(!spread_->layout.replicated(), std::memory_order_release);
  count_others();
}

const std::vector<pjrt::Buffer>& BufferData::copies_over(const GridPtr& grid) const {
  if (copies_ && copies_->grid == grid) return copies_->others;
  const pjrt::Buffer& value = buffer();
  auto made = std::make_unique<Copies>(Copies{grid, {}});
  for (size_t i = 1; i < grid->devices.size(); ++i) {
    const int to = grid->devices[i];
    check_memory(to, value.shape().bytes(), "copying " + value.shape().str() + " between devices");
    made->others.push_back(value.copy_to(exec::device(to)));
  }
  copies_ = std::move(made);
  count_others();
  return copies_->others;
}

const pjrt::Buffer& BufferData::whole() const {
  const Lock lock(mutex());
  if (!other_) return buffer_;
  if (spread_) {
    if (!gathered_) gather();
    return *gathered_;
  }
  cut();
  return buffer_;
}

void BufferData::gather() const {
  const Shape& shape = spread_->whole;
  check_memory(device, shape.bytes(), "gathering " + shape.str() + " from several devices");
  std::vector<std::byte> host(static_cast<size_t>(shape.bytes()));
  put_together(*this, host.data());
  gathered_ = client().to_device(pjrt::HostArray{host.data(), shape, {}}, exec::device(device));
  count_gathered(shape.bytes());
  count(buffer_.shape().bytes() + shape.bytes());
}

void BufferData::cut() const {
  buffer_ = resized(*this, *exact_, *exact_);
  other_.store(false, std::memory_order_release);
  count(buffer_.shape().bytes());
}

void BufferData::drop_others() const {
  copies_.reset();
  gathered_.reset();
  uncount_others();
}

void BufferData::count_others() const {
  uncount_others();
  const auto add = [&](const Grid& grid, const std::vector<pjrt::Buffer>& others) {
    for (size_t i = 0; i < others.size(); ++i)
      counted_.emplace_back(grid.devices[i + 1], bytes_held(others[i]));
  };
  if (spread_) add(*spread_->layout.grid, spread_->others);
  if (copies_) add(*copies_->grid, copies_->others);
  for (const auto& [on, bytes] : counted_) count_device_bytes(on, bytes);
}

void BufferData::uncount_others() const {
  for (const auto& [on, bytes] : counted_) count_device_bytes(on, -bytes);
  counted_.clear();
}

trace::Value spread_leaf(std::vector<pjrt::Buffer> parts, const Shape& whole, const Layout& layout) {
  const int first = layout.grid->devices[0];
  auto data = std::make_shared<BufferData>(std::move(parts[0]), first);
  parts.erase(parts.begin());
  data->set_spread({layout, whole, std::move(parts)});
  return trace::Node::leaf(std::move(data), whole, first);
}

trace::Value to_devices(const void* data, const Shape& shape, const std::vector<int64_t>& byte_strides,
                        const Layout& layout) {
  const auto strides = byte_strides.empty() ? dense_strides(shape) : byte_strides;
  const Shape part = layout.part(shape);
  std::vector<pjrt::Buffer> parts;
  for (size_t place = 0; place < layout.grid->devices.size(); ++place) {
    const int to = layout.grid->devices[place];
    check_memory(to, part.bytes(), "copying " + part.str() + " to the device");
    const auto begin = layout.begin(shape, place);
    int64_t offset = 0;
    for (size_t d = 0; d < begin.size(); ++d) offset += begin[d] * strides[d];
    const auto* from = static_cast<const std::byte*>(data) + offset;
    parts.push_back(client().to_device(pjrt::HostArray{from, part, strides}, device(to)));
    count_to_device(part.bytes());
  }
  return spread_leaf(std::move(parts), shape, layout);
}

}  // namespace tpubridge::exec
