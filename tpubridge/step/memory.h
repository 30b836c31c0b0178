// Reading memory of this process that may not be there.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tpubridge/step/program.h"

namespace tpubridge::step {

inline constexpr size_t kNear = 48;  // how many words of an object on the heap are looked at

[[nodiscard]] inline uint64_t first_word(const void* object) {
  uint64_t word;
  std::memcpy(&word, object, sizeof word);
  return word;
}
[[nodiscard]] bool on_stack(uintptr_t from, size_t n);  // of this thread, above here
[[nodiscard]] inline bool is_address(uint64_t word) { return word >= 4096 && word < (uint64_t{1} << 48); }

// Memory that can be read as it is, now and by this thread: its stack above here, the heap, the globals.
class Readable {
 public:
  Readable();
  [[nodiscard]] bool has(uintptr_t from, size_t n) const {
    return stack_.has(from, n) || heap_.has(from, n) || on_data(from, n);
  }

 private:
  Range stack_, heap_;
};
[[nodiscard]] uint64_t word_at(uintptr_t readable);
// Whether the words there differ from those given in bytes of their masks.
[[nodiscard]] bool differ(uintptr_t readable, const uint64_t* values, const uint64_t* masks, size_t n);

// Reads that are asked of the kernel, which says what is not there, all at once.
class Reads {
 public:
  void add(uintptr_t from, void* to, size_t n);
  [[nodiscard]] std::vector<size_t> missing();  // does them; the numbers of those that could not be, from 0

 private:
  Readable readable_;
  std::vector<iovec> local_, remote_;
  std::vector<size_t> number_, missing_;
  size_t bytes_ = 0, added_ = 0;
};

[[nodiscard]] bool read_memory(uintptr_t from, void* to, size_t n);
// What stands at an address, as far as it can be read: up to the end of its page where the next is not there.
[[nodiscard]] std::vector<uint64_t> words_at(uintptr_t from, size_t most);
[[nodiscard]] std::string text_at(uintptr_t from, size_t most);  // up to the zero, or nothing

}  // namespace tpubridge::step
