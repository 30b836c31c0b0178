#include "tpubridge/step/closure.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

// So many calls may be traced because of memory that turns out not to matter.
constexpr int kPatience = 4;

}  // namespace

void Window::trim() {
  while (!masks.empty() && masks.back() == 0) {
    masks.pop_back();
    values.pop_back();
    known.pop_back();
  }
  size_t first = 0;
  while (first < masks.size() && masks[first] == 0) ++first;
  masks.erase(masks.begin(), masks.begin() + static_cast<int64_t>(first));
  values.erase(values.begin(), values.begin() + static_cast<int64_t>(first));
  known.erase(known.begin(), known.begin() + static_cast<int64_t>(first));
  begin += static_cast<uint32_t>(first * kWord);
}

std::vector<Window> Closure::windows(const Wanted& wanted) const {
  std::vector<Window> out;
  if (!object_) return out;
  auto is_tensor = [&](uint64_t word) {
    return wanted.tensors.count(reinterpret_cast<const void*>(word)) != 0;  // NOLINT(performance-no-int-to-ptr)
  };
  // `raw`: words that are nothing known count too.
  auto window = [&](Window w, const std::vector<uint64_t>& words, bool raw) {
    w.values = words;
    for (const uint64_t word : words) {
      const uint64_t number = raw ? number_in(word, wanted.numbers) : 0;
      const bool tensor = is_tensor(word);
      w.known.push_back(tensor || number != 0);
      w.masks.push_back(raw || tensor ? ~uint64_t{0} : 0);
    }
    w.trim();
    if (!w.masks.empty()) out.push_back(std::move(w));
  };
  const auto object = words_at(reinterpret_cast<uintptr_t>(object_), std::min(kWords, bytes_ / kWord));
  window({}, object, true);
  for (uint32_t w = 0; w < object.size(); ++w) {
    if (!is_address(object[w]) || is_tensor(object[w])) continue;
    const auto near = words_at(object[w], kNear);
    window({.hops = 1, .word = w}, near, true);
    for (uint32_t i = 0; i < near.size(); ++i)
      if (is_address(near[i]) && near[i] % kWord == 0 && !is_tensor(near[i]))
        window({.hops = 2, .word = w, .offset = static_cast<uint32_t>(i * kWord)}, words_at(near[i], kFar),
               false);
  }
  return out;
}

bool Closure::holds(const Window& w) const {
  std::array<uint64_t, kWords> now;
  const size_t bytes = w.values.size() * kWord;
  auto at = reinterpret_cast<uintptr_t>(object_);
  if (w.hops == 0) {
    if (w.begin + bytes > bytes_) return false;
    std::memcpy(now.data(), reinterpret_cast<const char*>(at) + w.begin, bytes);
  } else {
    if ((w.word + 1) * kWord > bytes_) return false;
    std::memcpy(&at, static_cast<const char*>(object_) + w.word * kWord, kWord);
    if (w.hops == 2 && read_memory(at + w.offset, &at, kWord) != kWord) return false;
    if (read_memory(at + w.begin, now.data(), bytes) != bytes) return false;
  }
  for (size_t i = 0; i < w.values.size(); ++i)
    if (((now[i] ^ w.values[i]) & w.masks[i]) != 0) return false;
  return true;
}

bool Closure::hold(const std::vector<Window>& windows) const {
  if (!object_) return windows.empty();
  return std::all_of(windows.begin(), windows.end(), [&](const Window& w) { return holds(w); });
}

Closure Closure::current() { return current_closure; }

std::string merge_windows(const std::vector<Window>& before, std::vector<Window>& now, int& wasted) {
  bool for_nothing = false;
  for (Window& w : now) {
    const auto old = std::find_if(before.begin(), before.end(), [&](const Window& o) { return o.same_way(w); });
    for (size_t i = 0; i < w.masks.size(); ++i) {
      const int64_t k = old == before.end() ? -1 : static_cast<int64_t>(i) +
                        (static_cast<int64_t>(w.begin) - static_cast<int64_t>(old->begin)) / static_cast<int64_t>(kWord);
      if (k < 0 || k >= static_cast<int64_t>(old->masks.size())) {
        w.masks[i] = 0;
        continue;
      }
      const uint64_t was = old->values[static_cast<size_t>(k)];
      w.masks[i] &= old->masks[static_cast<size_t>(k)];
      const uint64_t differ = bytes_that_differ(w.values[i], was) & w.masks[i];
      if (differ == 0) continue;
      for_nothing = true;
      // A variable has one byte at least: the first. Of the object itself, all but pointers.
      if ((w.hops == 1 && w.begin + i == 0 && (differ & 0xFF)) ||
          (w.hops == 0 && !(is_address(w.values[i]) && is_address(was))))
        return "a variable that it captures changes from call to call (pass it as an argument, or make it in "
               "the step)";
      w.masks[i] &= ~differ;
    }
  }
  wasted += for_nothing ? 1 : 0;
  for (Window& w : now) {
    for (size_t i = 0; i < w.masks.size() && wasted > kPatience; ++i)
      if (!w.known[i] && !(w.hops == 0 || w.begin + i == 0)) w.masks[i] = 0;
    w.trim();
  }
  std::erase_if(now, [](const Window& w) { return w.masks.empty(); });
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
