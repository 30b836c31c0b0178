#include "tpubridge/step/closure.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

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

// The part of the heap that grows by sbrk(): between its start and the break everything is there.
bool on_heap(uintptr_t from, size_t n) {
  static const uintptr_t start = [] {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.ends_with("[heap]")) return static_cast<uintptr_t>(std::stoull(line, nullptr, 16));
    return ~uintptr_t{0};
  }();
  return from >= start && from + n <= reinterpret_cast<uintptr_t>(sbrk(0));
}

bool is_there(uintptr_t from, size_t n) { return on_stack(from, n) || on_heap(from, n); }

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

// Reads of memory that may not be there: asked of the kernel, which says so, all at once.
class Reads {
 public:
  void add(uintptr_t from, void* to, size_t n) {
    if (from < 4096) {
      failed_ = true;
    } else if (is_there(from, n)) {
      copy_words(from, to, n);
    } else {
      local_.push_back({to, n});
      remote_.push_back({reinterpret_cast<void*>(from), n});  // NOLINT(performance-no-int-to-ptr)
      bytes_ += n;
    }
  }
  // How many bytes were not on the stack and are there: in order, up to the first that is not.
  size_t run() {
    size_t got = 0;
    constexpr size_t kMost = 512;  // the kernel's limit is twice that
    for (size_t i = 0; i < local_.size(); i += kMost) {
      const size_t n = std::min(kMost, local_.size() - i);
      const ssize_t some = process_vm_readv(self(), &local_[i], n, &remote_[i], n, 0);
      if (some <= 0) break;
      got += static_cast<size_t>(some);
    }
    return got;
  }
  bool all() { return !failed_ && run() == bytes_; }

 private:
  static pid_t self() {
    thread_local const pid_t id = getpid();  // the device is of no use in a forked process anyway
    return id;
  }
  std::vector<iovec> local_, remote_;
  size_t bytes_ = 0;
  bool failed_ = false;
};

size_t read_memory(uintptr_t from, void* to, size_t n) {
  if (from < 4096) return 0;
  if (is_there(from, n)) {
    copy_words(from, to, n);
    return n;
  }
  Reads one;
  one.add(from, to, n);
  return one.run();
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

// Which bytes of the word hold a number of the trace. 1 and -1 are parts of programs, and may be numbers all
// the same; whole ones are too common to tell anything.
uint64_t number_in(uint64_t word, const std::unordered_set<double>& numbers) {
  double d;
  std::memcpy(&d, &word, kWord);
  if (d == 1 || d == -1 || (d != 0 && numbers.count(d) != 0)) return ~uint64_t{0};
  uint64_t mask = 0;
  for (int half = 0; half < 2; ++half) {
    const auto bits = static_cast<uint32_t>(word >> (32 * half));
    float f;
    std::memcpy(&f, &bits, sizeof f);
    if (bits != 0 && numbers.count(f) != 0) mask |= uint64_t{0xFFFFFFFF} << (32 * half);
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

void Window::trim() {
  while (!masks.empty() && masks.back() == 0) {
    masks.pop_back();
    values.pop_back();
  }
  size_t first = 0;
  while (first < masks.size() && masks[first] == 0) ++first;
  masks.erase(masks.begin(), masks.begin() + static_cast<int64_t>(first));
  values.erase(values.begin(), values.begin() + static_cast<int64_t>(first));
  begin += static_cast<uint32_t>(first * kWord);
}

std::vector<Window> Closure::windows(const Wanted& wanted) const {
  std::vector<Window> out;
  if (!object_) return out;
  auto is_tensor = [&](uint64_t word) {
    return wanted.tensors.count(reinterpret_cast<const void*>(word)) !=
           0;  // NOLINT(performance-no-int-to-ptr)
  };
  auto add = [&](Window w) {
    w.trim();
    if (!w.masks.empty()) out.push_back(std::move(w));
  };
  const auto object = words_at(reinterpret_cast<uintptr_t>(object_), std::min(kWords, bytes_ / kWord));
  add({.values = object, .masks = std::vector<uint64_t>(object.size(), ~uint64_t{0})});
  for (uint32_t w = 0; w < object.size(); ++w) {
    if (!is_address(object[w]) || is_tensor(object[w])) continue;
    // On the stack other variables lie beside this one, and what is left of dead ones.
    const size_t most = on_stack(object[w], kWord) ? 1 : kNear;
    Window near{.hops = 1, .word = w, .values = words_at(object[w], most)};
    for (size_t i = 0; i < near.values.size(); ++i) {
      const bool all = i == 0 || is_tensor(near.values[i]);
      near.masks.push_back(all ? ~uint64_t{0} : number_in(near.values[i], wanted.numbers));
    }
    for (uint32_t i = 0; i < near.values.size(); ++i) {
      const uint64_t to = near.values[i];
      if (!is_address(to) || to % kWord != 0 || is_tensor(to)) continue;
      Window far{
          .hops = 2, .word = w, .offset = static_cast<uint32_t>(i * kWord), .values = words_at(to, kFar)};
      for (const uint64_t word : far.values) far.masks.push_back(is_tensor(word) ? ~uint64_t{0} : 0);
      add(std::move(far));
    }
    add(std::move(near));
  }
  return out;
}

bool Closure::hold(const std::vector<Window>& windows) const {
  if (windows.empty()) return true;
  if (!object_) return false;
  size_t words = 0;
  for (const Window& w : windows) words += w.values.size();
  thread_local std::vector<uint64_t> now;
  now.resize(words + windows.size());
  uint64_t* const pointers = now.data() + words;  // of each window with two hops
  const auto* object = static_cast<const char*>(object_);
  Reads first, second;
  size_t at = 0;
  for (size_t i = 0; i < windows.size(); at += windows[i++].values.size()) {
    const Window& w = windows[i];
    const size_t bytes = w.values.size() * kWord;
    uintptr_t to = 0;
    if (w.hops == 0) {
      if (w.begin + bytes > bytes_) return false;
      std::memcpy(&now[at], object + w.begin, bytes);
      continue;
    }
    if ((w.word + 1) * kWord > bytes_) return false;
    std::memcpy(&to, object + w.word * kWord, kWord);
    if (w.hops == 1)
      first.add(to + w.begin, &now[at], bytes);
    else
      first.add(to + w.offset, pointers + i, kWord);
  }
  if (!first.all()) return false;
  at = 0;
  for (size_t i = 0; i < windows.size(); at += windows[i++].values.size())
    if (windows[i].hops == 2)
      second.add(pointers[i] + windows[i].begin, &now[at], windows[i].values.size() * kWord);
  if (!second.all()) return false;
  at = 0;
  for (const Window& w : windows)
    for (size_t i = 0; i < w.values.size(); ++i, ++at)
      if (((now[at] ^ w.values[i]) & w.masks[i]) != 0) return false;
  return true;
}

Closure Closure::current() { return current_closure; }

std::string merge_windows(const std::vector<Window>& before, std::vector<Window>& now) {
  for (Window& w : now) {
    const auto old =
        std::find_if(before.begin(), before.end(), [&](const Window& o) { return o.same_way(w); });
    for (size_t i = 0; i < w.masks.size(); ++i) {
      const size_t at = w.begin / kWord + i;  // behind the last pointer
      const size_t from = old == before.end() ? 0 : old->begin / kWord;
      if (old == before.end() || at < from || at - from >= old->masks.size()) {
        w.masks[i] = 0;
        continue;
      }
      const uint64_t was = old->values[at - from];
      w.masks[i] &= old->masks[at - from];
      const uint64_t differ = bytes_that_differ(w.values[i], was) & w.masks[i];
      // A variable has one byte at least: the first. Of the object itself, all but pointers.
      if ((w.hops == 1 && at == 0 && (differ & 0xFF)) ||
          (w.hops == 0 && differ && !(is_address(w.values[i]) && is_address(was))))
        return "a variable that it captures changes from call to call (pass it as an argument, or make it in "
               "the step)";
      w.masks[i] &= ~differ;
    }
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
