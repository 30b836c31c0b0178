// The allocator, as all libraries of this program see it. Under a sanitizer, which has its own, C++'s alone.
#include <dlfcn.h>

#include <cerrno>
#include <cstddef>
#include <new>

#include "tests/faults/interpose.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void* operator new(size_t size) {
  static auto* const next = reinterpret_cast<void* (*)(size_t)>(::dlsym(RTLD_NEXT, "_Znwm"));
  if (tpubridge::faults::refuse_allocation()) throw std::bad_alloc();
  return next(size);
}
// The two with an alignment; what was made by one is given back by its own operator delete.
using AlignedNew = void* (*)(size_t, std::align_val_t);
void* operator new(size_t size, std::align_val_t alignment) {
  static auto* const next = reinterpret_cast<AlignedNew>(::dlsym(RTLD_NEXT, "_ZnwmSt11align_val_t"));
  if (tpubridge::faults::refuse_allocation()) throw std::bad_alloc();
  return next(size, alignment);
}
void* operator new[](size_t size, std::align_val_t alignment) {
  static auto* const next = reinterpret_cast<AlignedNew>(::dlsym(RTLD_NEXT, "_ZnamSt11align_val_t"));
  if (tpubridge::faults::refuse_allocation()) throw std::bad_alloc();
  return next(size, alignment);
}

#else

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) noexcept {
  if (!tpubridge::faults::refuse_allocation()) return __libc_malloc(size);
  errno = ENOMEM;
  return nullptr;
}
// What C++'s aligned operator new calls.
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  if (!tpubridge::faults::refuse_allocation()) return __libc_memalign(alignment, size);
  errno = ENOMEM;
  return nullptr;
}
}

#endif
