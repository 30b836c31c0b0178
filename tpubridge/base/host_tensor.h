// A named tensor in host memory: row-major, dense, little endian, 64-byte aligned (so that a plugin can use
// it without a copy).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "tpubridge/base/shape.h"

namespace tpubridge {

inline constexpr size_t kTensorAlignment = 64;

// Memory for a tensor, not initialised; never null. Throws std::bad_alloc where there is none.
[[nodiscard]] std::shared_ptr<std::byte[]> aligned_bytes(size_t count);

struct HostTensor {
  std::string name;
  Shape shape;
  std::shared_ptr<const std::byte[]> data;  // shape.bytes() of them

  [[nodiscard]] std::span<const std::byte> bytes() const;  // throws ArgumentError where data is missing

  // The elements as values of T, which must have their size (uint16_t for bf16).
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    check_element_size(sizeof(T));
    const auto all = bytes();
    return {reinterpret_cast<const T*>(all.data()), all.size() / sizeof(T)};
  }
  void check_element_size(size_t size) const;  // throws ArgumentError where it is another
};

// A tensor with a copy of the bytes; throws ArgumentError where they are not as many as the shape needs.
[[nodiscard]] HostTensor make_tensor(std::string name, Shape shape, std::span<const std::byte> bytes);

}  // namespace tpubridge
