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

#else

extern "C" {
void* __libc_malloc(size_t size);

void* malloc(size_t size) noexcept {
  if (!tpubridge::faults::refuse_allocation()) return __libc_malloc(size);
  errno = ENOMEM;
  return nullptr;
}
}

#endif
