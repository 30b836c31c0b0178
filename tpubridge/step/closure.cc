#include "tpubridge/step/closure.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tpubridge::step {
namespace {

constexpr size_t kWord = sizeof(uint64_t);
constexpr size_t kWords = 64, kNear = 48, kFar = 24;  // of the object, behind one pointer, behind two

thread_local Closure current_closure;

// This thread's stack above a frame: it can be read as it is.
bool on_stack(uintptr_t from, size_t n) {
  thread_local const uintptr_t top = [] {
    pthread_attr_t attributes;
    void* low = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return uintptr_t{0};
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    return reinterpret_cast<uintptr_t>(low) + size;
  }();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return from >= here && from + n <= top;
}

// A sanitizer would object to reading beside a variable.
__attribute__((no_sanitize("address", "thread", "undefined"))) void copy_words(uintptr_t from, void* to,
                                                                              size_t n) {
  const auto* in = reinterpret_cast<const volatile unsigned char*>(from);
  auto* out = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < n; ++i) out[i] = in[i];
}

// Memory that may not be there is asked for by way of the kernel, which says so.
size_t read_memory(uintptr_t from, void* to, size_t n) {
  if (from < 4096) return 0;
  if (on_stack(from, n)) {
    copy_words(from, to, n);
    return n;
  }
  iovec local{to, n}, remote{reinterpret_cast<void*>(from), n};  // NOLINT(performance-no-int-to-ptr)
  const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  return got < 0 ? 0 : static_cast<size_t>(got);
}

// What stands at an address, as far as it can be read: up to the end of its page where the next is not there.
std::vector<uint64_t> words_at(uintptr_t from, size_t most) {
  std::vector<uint64_t> out(most);
  size_t got = read_memory(from, out.data(), most * kWord);
  if (got == 0) got = read_memory(from, out.data(), std::min(most * kWord, 4096 - from % 4096));
  out.resize(got / kWord);
  return out;
}

bool is_address(uint64_t word) { return word >= 4096 && word < (uint64_t{1} << 48); }

// Which bytes of the word hold a number of the trace.
uint64_t number_in(uint64_t word, const std::unordered_set<double>& numbers) {
  if (numbers.empty()) return 0;
  auto known = [&](double v) { return std::isfinite(v) && numbers.count(v) != 0; };
  double d;
  int64_t i;
  std::memcpy(&d, &word, kWord);
  std::memcpy(&i, &word, kWord);
  if (known(d) || (std::abs(i) < (int64_t{1} << 53) && known(static_cast<double>(i)))) return ~uint64_t{0};
  uint64_t mask = 0;
  for (int half = 0; half < 2; ++half) {
    const auto bits = static_cast<uint32_t>(word >> (32 * half));
    float f;
    int32_t n;
    std::memcpy(&f, &bits, sizeof f);
    std::memcpy(&n, &bits, sizeof n);
    if (known(f) || known(n)) mask |= uint64_t{0xFFFFFFFF} << (32 * half);
  }
  return mask;
}

uint64_t bytes_that_differ(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  for (int i = 0; i < 64; i += 8)
    if (((a ^ b) >> i) & 0xFF) out |= uint64_t{0xFF} << i;
  return out;
}

}  // namespace

std::vector<Cell> Closure::cells(const Wanted& wanted) const {
  std::vector<Cell> out;
  if (!object_) return out;
  auto is_tensor = [&](uint64_t word) {
    return wanted.tensors.count(reinterpret_cast<const void*>(word)) != 0;  // NOLINT(performance-no-int-to-ptr)
  };
  const auto object = words_at(reinterpret_cast<uintptr_t>(object_), std::min(kWords, bytes_ / kWord));
  for (uint32_t w = 0; w < object.size(); ++w) {
    out.push_back({w, 0, {0, 0}, object[w]});
    if (!is_address(object[w]) || is_tensor(object[w])) continue;
    const auto near = words_at(object[w], kNear);
    for (uint32_t i = 0; i < near.size(); ++i) {
      const auto offset = static_cast<uint32_t>(i * kWord);
      if (i == 0 || is_tensor(near[i])) {
        out.push_back({w, 1, {offset, 0}, near[i]});
      } else if (const uint64_t mask = number_in(near[i], wanted.numbers)) {
        out.push_back({w, 1, {offset, 0}, near[i], mask});
      }
      if (!is_address(near[i]) || near[i] % kWord != 0 || is_tensor(near[i])) continue;
      const auto far = words_at(near[i], kFar);
      for (uint32_t k = 0; k < far.size(); ++k)
        if (is_tensor(far[k])) out.push_back({w, 2, {offset, static_cast<uint32_t>(k * kWord)}, far[k]});
    }
  }
  return out;
}

bool Closure::find(const Cell& cell, uint64_t& value) const {
  if (!object_ || (cell.word + 1) * kWord > bytes_) return false;
  std::memcpy(&value, static_cast<const char*>(object_) + cell.word * kWord, kWord);
  for (uint8_t h = 0; h < cell.hops; ++h)
    if (read_memory(value + cell.offsets[h], &value, kWord) != kWord) return false;
  return true;
}

bool Closure::hold(const std::vector<Cell>& cells) const {
  for (const Cell& c : cells) {
    uint64_t now = 0;
    if (!find(c, now) || ((now ^ c.value) & c.mask) != 0) return false;
  }
  return true;
}

Closure Closure::current() { return current_closure; }

std::string merge_cells(const std::vector<Cell>& before, std::vector<Cell>& now) {
  std::vector<Cell> kept;
  for (Cell c : now) {
    const auto old = std::find_if(before.begin(), before.end(), [&](const Cell& o) { return o.same_way(c); });
    if (old == before.end()) continue;
    c.mask &= old->mask;
    const uint64_t differ = bytes_that_differ(c.value, old->value) & c.mask;
    // A variable has one byte at least: the first. Of the object itself, all but pointers.
    const bool surely = (c.hops == 1 && c.offsets[0] == 0 && (differ & 0xFF)) ||
                        (c.hops == 0 && differ && !(is_address(c.value) && is_address(old->value)));
    if (surely)
      return "a variable that it captures changes from call to call (pass it as an argument, or make it in the "
             "step)";
    c.mask &= ~differ;
    if (c.mask != 0) kept.push_back(c);
  }
  now = std::move(kept);
  return {};
}

ClosureScope::ClosureScope(Closure closure) : before_(current_closure) { current_closure = closure; }
ClosureScope::~ClosureScope() { current_closure = before_; }

// libstdc++'s holds small functions in itself and others by a pointer to what operator new gave.
Closure closure_of_function(const void* fn) {
  uint64_t words[4];
  std::memcpy(words, fn, sizeof words);
  if (words[2] == 0) return {};
  return {fn, 2 * kWord};
}

}  // namespace tpubridge::step
