// Owns one object of the C API. Public headers name it for their members.
#pragma once

#include <utility>

struct PJRT_Api;
struct PJRT_Buffer;
struct PJRT_Client;
struct PJRT_Event;
struct PJRT_Executable;
struct PJRT_LoadedExecutable;
struct PJRT_TopologyDescription;

namespace tpubridge::pjrt {

// One for each kind of object; errors are logged, since a destructor has nobody to tell.
void destroy(const PJRT_Api* api, PJRT_Buffer* raw) noexcept;
void destroy(const PJRT_Api* api, PJRT_Client* raw) noexcept;
void destroy(const PJRT_Api* api, PJRT_Event* raw) noexcept;
void destroy(const PJRT_Api* api, PJRT_Executable* raw) noexcept;
void destroy(const PJRT_Api* api, PJRT_LoadedExecutable* raw) noexcept;
void destroy(const PJRT_Api* api, PJRT_TopologyDescription* raw) noexcept;

template <class T>
class Handle {
 public:
  Handle() = default;
  Handle(const PJRT_Api* api, T* raw) : api_(api), raw_(raw) {}
  Handle(Handle&& other) noexcept : api_(other.api_), raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Handle() {
    if (raw_) destroy(api_, raw_);
  }
  [[nodiscard]] T* get() const { return raw_; }
  [[nodiscard]] const PJRT_Api* api() const { return api_; }
  explicit operator bool() const { return raw_ != nullptr; }

 private:
  const PJRT_Api* api_ = nullptr;
  T* raw_ = nullptr;
};

}  // namespace tpubridge::pjrt
