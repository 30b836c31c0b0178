#include "tpubridge/step/closure.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "tpubridge/step/memory.h"

namespace tpubridge::step {
namespace {

constexpr size_t kWords = 64, kFar = 24;  // of the object; behind two pointers. Behind one: kNear

thread_local Closure current_closure;

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

// How much is looked at there. On a stack other variables lie beside this one, and what is left of dead ones.
size_t beside(uintptr_t address, size_t words) { return on_stack(address, kWord) ? 1 : words; }

uint64_t bytes_that_differ(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  for (int i = 0; i < 64; i += 8)
    if (((a ^ b) >> i) & 0xFF) out |= uint64_t{0xFF} << i;
  return out;
}

// Of two recorded calls that were alike, what the later one leaves to be looked at. What changed between them
// does not count any more, unless it is surely a variable of the function: then it says so.
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

std::vector<uint64_t> Closure::words() const {
  return object_ ? words_at(reinterpret_cast<uintptr_t>(object_), std::min(kWords, bytes_ / kWord))
                 : std::vector<uint64_t>();
}

std::vector<Window> Closure::windows(const Wanted& wanted) const {
  std::vector<Window> out;
  auto is_wanted = [&](uint64_t word) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return wanted.addresses.count(reinterpret_cast<const void*>(word)) != 0;
  };
  auto mask = [&](uint64_t word) { return is_wanted(word) ? ~uint64_t{0} : number_in(word, wanted.numbers); };
  auto add = [&](Window w) {
    w.trim();
    if (!w.masks.empty()) out.push_back(std::move(w));
  };
  const auto object = words();
  add({.values = object, .masks = std::vector<uint64_t>(object.size(), ~uint64_t{0})});
  for (uint32_t w = 0; w < object.size(); ++w) {
    if (!is_address(object[w]) || is_wanted(object[w])) continue;
    Window near{.hops = 1, .word = w, .values = words_at(object[w], beside(object[w], kNear))};
    for (size_t i = 0; i < near.values.size(); ++i)
      near.masks.push_back(i == 0 ? ~uint64_t{0} : mask(near.values[i]));
    for (uint32_t i = 0; i < near.values.size(); ++i) {
      const uint64_t to = near.values[i];
      if (!is_address(to) || to % kWord != 0 || is_wanted(to)) continue;
      Window far{.hops = 2,
                 .word = w,
                 .offset = static_cast<uint32_t>(i * kWord),
                 .values = words_at(to, beside(to, kFar))};
      for (const uint64_t word : far.values) far.masks.push_back(mask(word));
      add(std::move(far));
    }
    add(std::move(near));
  }
  return out;
}

bool Closure::hold(const std::vector<Window>& windows) const {
  if (windows.empty()) return true;
  uint64_t object[kWords];
  const size_t bytes = std::min(kWords * kWord, bytes_ / kWord * kWord);
  if (!object_ || !read_memory(reinterpret_cast<uintptr_t>(object_), object, bytes)) return false;
  size_t words = 0;
  for (const Window& w : windows) words += w.values.size();
  thread_local std::vector<uint64_t> now;
  now.resize(words + windows.size());
  uint64_t* const pointers = now.data() + words;  // of each window with two hops
  Reads first, second;
  size_t at = 0;
  for (size_t i = 0; i < windows.size(); at += windows[i++].values.size()) {
    const Window& w = windows[i];
    const size_t length = w.values.size() * kWord;
    if (w.hops == 0) {
      if (w.begin + length > bytes) return false;
      std::memcpy(&now[at], object + w.begin / kWord, length);
    } else if ((w.word + 1) * kWord > bytes) {
      return false;
    } else if (w.hops == 1) {
      first.add(object[w.word] + w.begin, &now[at], length);
    } else {
      first.add(object[w.word] + w.offset, pointers + i, kWord);
    }
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

bool hold(const std::vector<Look>& looks) {
  for (size_t i = 0; i < looks.size(); ++i)
    if (!(i == 0 ? Closure::current() : looks[i].closure).hold(looks[i].windows)) return false;
  return true;
}

std::string merge_looks(const std::vector<Look>& before, std::vector<Look>& now) {
  if (before.size() != now.size()) return "it called other steps than in the call before";
  for (size_t i = 0; i < now.size(); ++i)
    if (std::string why = merge_windows(before[i].windows, now[i].windows); !why.empty()) return why;
  return {};
}

ClosureScope::ClosureScope(Closure closure) : before_(current_closure) { current_closure = closure; }
ClosureScope::~ClosureScope() { current_closure = before_; }

// libstdc++'s: two words that are or point to the function, and what manages it, which tells where it is.
Closure closure_of_function(const void* fn) {
  struct Layout {
    uint64_t words[2];
    bool (*manager)(void* to, const void* from, int operation);
    void* invoker;
  };
  const auto& f = *static_cast<const Layout*>(fn);
  constexpr int kGetFunctor = 1;
  if (!f.manager) return {};
  void* functor = nullptr;
  f.manager(&functor, fn, kGetFunctor);
  if (functor == fn) return {fn, 2 * kWord};
  return {functor, malloc_usable_size(functor)};
}

}  // namespace tpubridge::step
