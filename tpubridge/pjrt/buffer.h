// An array on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/pjrt/event.h"

namespace tpubridge::pjrt {

class Device;
struct Memory;

// Move-only owner of a PJRT buffer. A buffer that a program took by donation is deleted: it can be destroyed
// and asked for its shape, everything else throws ArgumentError. Not for use from two threads at once while
// one of them moves or deletes it; reading and executing from many threads is fine.
class Buffer {
 public:
  // `shape` is interned.
  Buffer(std::shared_ptr<const ClientCore> core, PJRT_Buffer* raw, const Shape* shape, const Device* device);

  [[nodiscard]] const Shape& shape() const { return *shape_; }
  [[nodiscard]] const Device& device() const { return *device_; }
  [[nodiscard]] std::string memory_kind() const;
  [[nodiscard]] int64_t device_bytes() const;  // what it takes on the device, padding included
  [[nodiscard]] bool deleted() const;          // true too for a moved-from buffer
  void erase();                                // frees the device memory now (PJRT's Delete)

  // Copies to host memory, dense and row-major; `bytes` must be shape().bytes().
  void to_host(void* to, size_t bytes) const;
  [[nodiscard]] Event to_host_async(void* to, size_t bytes) const;  // `to` must live until the event
  template <class T>
  [[nodiscard]] std::vector<T> to_vector() const {
    std::vector<T> out(static_cast<size_t>(shape().bytes()) / sizeof(T));
    to_host(out.data(), out.size() * sizeof(T));
    return out;
  }

  [[nodiscard]] Event ready() const;  // the value is there, or the program that makes it failed
  void wait() const;

  [[nodiscard]] Buffer copy_to(const Device& device) const;
  [[nodiscard]] Buffer copy_to(const Memory& memory) const;
  [[nodiscard]] uintptr_t unsafe_pointer() const;  // valid while the buffer lives; wait() before reading it

  [[nodiscard]] PJRT_Buffer* raw() const { return raw_.get(); }

 private:
  friend class LoadedExecutable;
  void require_alive(const char* what) const;
  std::shared_ptr<const ClientCore> core_;
  Handle<PJRT_Buffer> raw_;
  const Shape* shape_ = nullptr;
  const Device* device_ = nullptr;
};

}  // namespace tpubridge::pjrt
