#include "tpubridge/base/host_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "tpubridge/base/errors.h"

namespace tpubridge {

static_assert(std::endian::native == std::endian::little, "tensors are little endian in memory and in files");

std::shared_ptr<std::byte[]> aligned_bytes(size_t count) {
  constexpr std::align_val_t alignment{kTensorAlignment};
  auto* const at = static_cast<std::byte*>(::operator new[](std::max<size_t>(count, 1), alignment));
  return {at, [](std::byte* p) { ::operator delete[](p, std::align_val_t{kTensorAlignment}); }};
}

std::span<const std::byte> HostTensor::bytes() const {
  const auto count = static_cast<size_t>(shape.bytes());
  if (count > 0 && data == nullptr)
    throw ArgumentError(fmt::format("the tensor {} ({}) has no data", name, shape.str()));
  return {data.get(), count};
}

void HostTensor::check_element_size(size_t size) const {
  if (size * 8 != static_cast<size_t>(bits(shape.dtype)))
    throw ArgumentError(fmt::format("the elements of {} ({}) have {} bytes, not {}", name, shape.str(),
                                    bits(shape.dtype) / 8, size));
}

HostTensor make_tensor(std::string name, Shape shape, std::span<const std::byte> bytes) {
  if (static_cast<size_t>(shape.bytes()) != bytes.size())
    throw ArgumentError(fmt::format("the tensor {} of shape {} needs {} bytes, not {}", name, shape.str(),
                                    shape.bytes(), bytes.size()));
  const auto data = aligned_bytes(bytes.size());
  if (!bytes.empty()) std::memcpy(data.get(), bytes.data(), bytes.size());
  return {std::move(name), std::move(shape), data};
}

}  // namespace tpubridge
