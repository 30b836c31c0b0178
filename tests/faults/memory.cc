// The allocator, as all libraries of this program see it. Under a sanitizer, which has its own, C++'s alone.
#include <cerrno>
#include <cstdlib>
#include <new>

#include "tests/faults/interpose.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void* operator new(size_t size) {
  void* const out = tpubridge::faults::refuse_allocation() ? nullptr : std::malloc(size);
  if (out == nullptr) throw std::bad_alloc();
  return out;
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, size_t) noexcept { std::free(at); }

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
