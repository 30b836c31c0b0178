#include "tpubridge/step/blocks.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <malloc.h>

#include <bit>
#include <cstdlib>
#include <mutex>
#include <set>

#include "tpubridge/base/log.h"
#include "tpubridge/step/memory.h"

namespace tpubridge::step {
namespace {

using BytesOf = size_t (*)(uintptr_t address);

template <class F>
F symbol(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}
void* pointer(uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// glibc: the word before a block tells its bytes, and three flags. Those it shares with the next are not its
// own.
size_t bytes_by_word_before(uintptr_t address) {
  constexpr uint64_t kFlags = 7, kStep = 16, kMapped = 2;
  uint64_t size = 0;
  if (address % kStep != 0 || !read_memory(address - kWord, &size, kWord)) return 0;
  const uint64_t bytes = size & ~kFlags;
  if (bytes % kStep != 0 || bytes < 2 * kStep || bytes > (uint64_t{1} << 24) || (size & kMapped)) return 0;
  return bytes - kWord;
}

// The others are asked whether it is theirs before they are asked for its size: for what is not they end the
// program.
size_t bytes_by_sanitizer(uintptr_t address) {
  static const auto owns = symbol<int (*)(const void*)>("__sanitizer_get_ownership");
  static const auto size = symbol<size_t (*)(const void*)>("__sanitizer_get_allocated_size");
  return owns(pointer(address)) ? size(pointer(address)) : 0;
}

size_t bytes_by_mimalloc(uintptr_t address) {
  static const auto owns = symbol<bool (*)(const void*)>("mi_is_in_heap_region");
  return owns(pointer(address)) ? malloc_usable_size(pointer(address)) : 0;
}

size_t bytes_by_tcmalloc(uintptr_t address) {
  static const auto owner = symbol<int (*)(const void*)>("MallocExtension_GetOwnership");
  constexpr int kOwned = 1;
  return owner(pointer(address)) == kOwned ? malloc_usable_size(pointer(address)) : 0;
}

// jemalloc may be asked only about addresses near those of blocks of its own: it has tables for parts of
// memory, of 128 MiB and more, and does not look whether there is one.
class Jemalloc {
 public:
  size_t bytes_of(uintptr_t address) {
    if (!is_near(address)) return 0;
    unsigned arena = 0;
    size_t size = sizeof arena;
    void* p = pointer(address);
    if (control_("arenas.lookup", &arena, &size, static_cast<void*>(&p), sizeof p) != 0) return 0;
    const size_t bytes = malloc_usable_size(p);
    return bytes <= kMost ? bytes : 0;  // of a block that was freed it is any number
  }

 private:
  static constexpr size_t kMost = size_t{1} << 24;
  static uintptr_t part_of(uintptr_t address) { return address >> 27; }

  bool is_near(uintptr_t address) {
    const std::lock_guard lock(mutex_);
    if (parts_.contains(part_of(address))) return true;
    if (std::has_single_bit(++asked_))  // less and less often: where it lies changes slowly
      for (size_t bytes = 16; bytes <= kMost / 16; bytes += bytes / 2) {
        void* block = std::malloc(bytes);
        parts_.insert(part_of(reinterpret_cast<uintptr_t>(block)));
        std::free(block);
      }
    return parts_.contains(part_of(address));
  }

  using Control = int (*)(const char* name, void* old, size_t* old_size, void* value, size_t size);
  Control control_ = symbol<Control>("mallctl");
  std::mutex mutex_;
  std::set<uintptr_t> parts_;
  uint64_t asked_ = 0;
};
size_t bytes_by_jemalloc(uintptr_t address) {
  static auto* jemalloc = new Jemalloc;
  return jemalloc->bytes_of(address);
}

size_t unknown(uintptr_t) {
  static const bool told = (log::warn("step.allocator", {{"problem",
                                                          "the allocator of this program does not tell "
                                                          "how large its blocks are"},
                                                         {"effect",
                                                          "a compiled step sees changes of plain variables "
                                                          "in the first words of a block alone"},
                                                         {"remedy", "docs/compile.md"}}),
                            true);
  (void)told;
  return 0;
}

BytesOf allocator() {
  Dl_info malloc_is, libc_is;
  const auto address = [](auto* function) { return reinterpret_cast<const void*>(function); };
  if (dladdr(address(&std::malloc), &malloc_is) == 0 || dladdr(address(&gnu_get_libc_version), &libc_is) == 0)
    return unknown;
  if (malloc_is.dli_fbase == libc_is.dli_fbase) return bytes_by_word_before;
  const auto has = [](const char* name) { return dlsym(RTLD_DEFAULT, name) != nullptr; };
  if (has("__sanitizer_get_ownership")) return bytes_by_sanitizer;
  if (has("mi_is_in_heap_region")) return bytes_by_mimalloc;
  const bool for_debugging = has("_ZN11MallocBlock10alloc_map_E");
  if (has("MallocExtension_GetOwnership")) return for_debugging ? unknown : bytes_by_tcmalloc;
  return has("mallctl") ? bytes_by_jemalloc : unknown;
}

}  // namespace

size_t words_of_block(uintptr_t address) {
  static const BytesOf bytes_of = allocator();
  return (bytes_of(address) + kWord - 1) / kWord;  // some tell what was asked for, to the byte
}

}  // namespace tpubridge::step
