#include "tpubridge/step/memory.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

namespace tpubridge::step {
namespace {

// A sanitizer would object to reading beside a variable.
__attribute__((no_sanitize("address", "thread", "undefined"))) void copy_words(uintptr_t from, void* to,
                                                                               size_t n) {
  auto* out = static_cast<unsigned char*>(to);
  if (from % kWord == 0 && n % kWord == 0) {
    for (size_t i = 0; i < n; i += kWord) {
      const uint64_t word = *reinterpret_cast<const volatile uint64_t*>(from + i);
      std::memcpy(out + i, &word, kWord);
    }
    return;
  }
  for (size_t i = 0; i < n; ++i) out[i] = *reinterpret_cast<const volatile unsigned char*>(from + i);
}

uintptr_t top_of_stack() {
  thread_local const uintptr_t top = [] {
    pthread_attr_t attributes;
    void* low = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return uintptr_t{0};
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    return reinterpret_cast<uintptr_t>(low) + size;
  }();
  return top;
}

pid_t self() {
  thread_local const pid_t id = getpid();  // the device is of no use in a forked process anyway
  return id;
}

}  // namespace

bool on_stack(uintptr_t from, size_t n) {
  return Range{reinterpret_cast<uintptr_t>(__builtin_frame_address(0)), top_of_stack()}.has(from, n);
}

// Of the heap, the part that grows by sbrk(): it is all there.
Readable::Readable() : stack_{reinterpret_cast<uintptr_t>(__builtin_frame_address(0)), top_of_stack()} {
  static const uintptr_t start = [] {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.ends_with("[heap]")) return static_cast<uintptr_t>(std::stoull(line, nullptr, 16));
    return ~uintptr_t{0};
  }();
  heap_ = {start, reinterpret_cast<uintptr_t>(sbrk(0))};
}

uint64_t word_at(uintptr_t readable) {
  uint64_t word;
  copy_words(readable, &word, kWord);
  return word;
}

__attribute__((no_sanitize("address", "thread", "undefined"))) bool differ(uintptr_t readable,
                                                                           const uint64_t* values,
                                                                           const uint64_t* masks, size_t n) {
  if (readable % kWord != 0) {
    for (size_t i = 0; i < n; ++i)
      if ((word_at(readable + i * kWord) ^ values[i]) & masks[i]) return true;
    return false;
  }
  const auto* words = reinterpret_cast<const uint64_t*>(readable);  // NOLINT(performance-no-int-to-ptr)
  uint64_t any = 0;
  for (size_t i = 0; i < n; ++i) any |= (words[i] ^ values[i]) & masks[i];
  return any != 0;
}

void Reads::add(uintptr_t from, void* to, size_t n) {
  const size_t number = added_++;
  if (!is_address(from)) {
    missing_.push_back(number);
  } else if (readable_.has(from, n)) {
    copy_words(from, to, n);
  } else {
    local_.push_back({to, n});
    remote_.push_back({reinterpret_cast<void*>(from), n});  // NOLINT(performance-no-int-to-ptr)
    number_.push_back(number);
    bytes_ += n;
  }
}

std::vector<size_t> Reads::missing() {
  constexpr size_t kMost = 512;  // the kernel's limit is twice that
  size_t got = 0;
  for (size_t i = 0; i < local_.size(); i += kMost) {
    const size_t n = std::min(kMost, local_.size() - i);
    const ssize_t some = process_vm_readv(self(), &local_[i], n, &remote_[i], n, 0);
    if (some <= 0) break;
    got += static_cast<size_t>(some);
  }
  for (size_t i = 0; i < local_.size() && got != bytes_; ++i)
    if (process_vm_readv(self(), &local_[i], 1, &remote_[i], 1, 0) != static_cast<ssize_t>(local_[i].iov_len))
      missing_.push_back(number_[i]);
  return std::move(missing_);
}

bool read_memory(uintptr_t from, void* to, size_t n) {
  Reads one;
  one.add(from, to, n);
  return one.missing().empty();
}

std::vector<uint64_t> words_at(uintptr_t from, size_t most) {
  std::vector<uint64_t> out(most);
  if (read_memory(from, out.data(), most * kWord)) return out;
  out.resize(std::min(most, (4096 - from % 4096) / kWord));
  if (!read_memory(from, out.data(), out.size() * kWord)) out.clear();
  return out;
}

std::string text_at(uintptr_t from, size_t most) {
  std::string out;
  while (out.size() < most) {
    char part[64];
    size_t n = sizeof part - (from + out.size()) % sizeof part;  // does not reach into the next page
    if (!read_memory(from + out.size(), part, n)) return {};
    n = strnlen(part, n);
    out.append(part, n);
    if ((from + out.size()) % sizeof part != 0 || n == 0) break;
  }
  return out;
}

}  // namespace tpubridge::step
