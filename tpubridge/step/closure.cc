#include "tpubridge/step/closure.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "tpubridge/step/memory.h"

namespace tpubridge::step {
namespace {

constexpr size_t kWords = 64;  // of the object

thread_local Closure current_closure;

uint64_t bytes_that_differ(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  for (int i = 0; i < 64; i += 8)
    if (((a ^ b) >> i) & 0xFF) out |= uint64_t{0xFF} << i;
  return out;
}

// What differs, and is not looked at any more: flags by themselves, else whole numbers of four or eight
// bytes.
uint64_t to_forget(uint64_t a, uint64_t b) {
  constexpr uint64_t kHalf = 0xFFFFFFFF;
  if (a != b && is_address(a) && is_address(b)) return ~uint64_t{0};
  const uint64_t differ = bytes_that_differ(a, b);
  uint64_t out = 0;
  for (int i = 0; i < 64; i += 32) {
    const uint64_t half = (differ >> i) & kHalf;
    const bool one_byte = half == 0xFF || half == 0xFF00 || half == 0xFF0000 || half == 0xFF000000;
    const bool flag = one_byte && ((a >> i) & half & 0xFEFEFEFE) == 0 && ((b >> i) & half & 0xFEFEFEFE) == 0;
    if (half != 0) out |= (flag ? half : kHalf) << i;
  }
  return out;
}

// A number does not become a pointer: what lies there was no number, or is none any more. Nor does a flag
// become anything but a flag: that was the lower end of a pointer.
bool is_pointer_now(uint64_t before, uint64_t now, uint64_t mask) {
  char there;
  const bool was_flag = is_address(before) && mask != ~uint64_t{0} && (now & mask & 0xFEFEFEFEFEFEFEFE) != 0;
  return ((before != 0 && !is_address(before)) || was_flag) && is_address(now) && read_memory(now, &there, 1);
}

// Where it does not, what it saw is kept.
bool holds(Window& w, const uint64_t* now) {
  for (size_t i = 0; i < w.values.size(); ++i)
    if (((now[i] ^ w.values[i]) & w.masks[i]) != 0 && !is_pointer_now(w.values[i], now[i], w.masks[i])) {
      w.seen.assign(now, now + w.values.size());
      return false;
    }
  return true;
}

// A list that grows (losses, say) would be forgotten a word at a time, at the price of a traced call for
// each.
void forget_what_grows(Window& w, const Window& old, const std::vector<size_t>& changed) {
  constexpr size_t kEnough = 3;
  w.forgotten = old.forgotten;
  w.in_a_row = old.in_a_row;
  if (changed.empty()) return;
  w.in_a_row = changed.front() == w.forgotten + 1 ? w.in_a_row + 1 : 0;
  w.forgotten = changed.back();
  if (w.in_a_row >= kEnough) w.forget_from(changed.front());
}

// Of two recorded calls that were alike, what the later one leaves to be looked at. What changed between them
// does not count any more, unless it is surely a variable of the function: then it says so.
std::string merge_windows(const std::vector<Window>& before, std::vector<Window>& now) {
  for (Window& w : now) {
    const auto old =
        std::find_if(before.begin(), before.end(), [&](const Window& o) { return o.same_way(w); });
    const bool forgotten = old != before.end() && (old->was_gone || (old->is_deep() && !old->seen.empty()));
    std::vector<size_t> changed;
    for (size_t i = 0; i < w.masks.size(); ++i) {
      const size_t at = w.begin / kWord + i;  // behind the last pointer
      const size_t from = old == before.end() ? 0 : old->begin / kWord;
      if (old == before.end() || forgotten || at < from || at - from >= old->masks.size()) {
        w.masks[i] = 0;
        continue;
      }
      const uint64_t was = old->values[at - from];
      w.masks[i] &= old->masks[at - from];
      const uint64_t differ = bytes_that_differ(w.values[i], was) & w.masks[i];
      const bool in_object = w.from == From::object && w.path.empty();
      const bool is_variable = w.from == From::object && w.path.size() == 1 && at == 0;
      const bool pointers = is_address(w.values[i]) && is_address(was);
      const bool firm = std::find(w.firm.begin(), w.firm.end(), at) != w.firm.end();
      // A variable has one byte at least: the first. Of the object itself, all but pointers.
      if ((is_variable && ((differ & 0xFF) || (differ && pointers))) || (firm && differ) ||
          (in_object && differ && !pointers))
        return "a variable that it captures changes from call to call (pass it as an argument, or make it in "
               "the step)";
      uint64_t lost = is_variable ? differ : to_forget(w.values[i], was);
      if (!is_variable && !old->seen.empty()) lost |= to_forget(was, old->seen[at - from]);
      if ((w.masks[i] & lost) != 0) changed.push_back(at);
      w.masks[i] &= ~lost;
    }
    if (w.is_deep() && !changed.empty()) w.forget_from(0);
    if (old != before.end() && w.path.size() > (w.from == From::object ? 1 : 0))
      forget_what_grows(w, *old, changed);
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

void Window::forget_from(size_t word) {
  const size_t from = begin / kWord;
  for (size_t i = word > from ? word - from : 0; i < masks.size(); ++i) masks[i] = 0;
}

std::vector<uint64_t> Closure::words() const {
  return object_ ? words_at(reinterpret_cast<uintptr_t>(object_), std::min(kWords, bytes_ / kWord))
                 : std::vector<uint64_t>();
}

bool Closure::hold(std::vector<Window>& windows) const {
  if (windows.empty()) return true;
  uint64_t object[kWords];
  const size_t bytes = object_ ? std::min(kWords * kWord, bytes_ / kWord * kWord) : 0;
  if (object_ && !read_memory(reinterpret_cast<uintptr_t>(object_), object, bytes)) return false;
  const Readable readable;
  // Where they lie now. The kernel is asked for what may not be there, all at once.
  thread_local std::vector<uint64_t> at, now;
  thread_local std::vector<std::pair<Window*, size_t>> asked;
  at.resize(windows.size());
  size_t longest = 0, words = 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& w = windows[i];
    const size_t end = w.path.empty() ? w.begin + w.values.size() * kWord : w.path[0] + kWord;
    if (w.from == From::object && end > bytes) return false;
    at[i] = w.from == From::object    ? reinterpret_cast<uintptr_t>(object)
            : w.from == From::globals ? part_of_globals(w.base).begin
                                      : w.base;
    longest = std::max(longest, w.path.size());
    words += w.values.size();
  }
  bool all = true;
  const auto read_asked = [&](Reads& reads) {
    for (const size_t i : reads.missing()) {
      asked[i].first->was_gone = true;
      all = false;
    }
  };
  for (size_t hop = 0; hop < longest; ++hop) {
    Reads pointers;
    asked.clear();
    for (size_t i = 0; i < windows.size(); ++i) {
      if (windows[i].path.size() <= hop || windows[i].was_gone) continue;
      const uintptr_t pointer = at[i] + windows[i].path[hop];
      if (hop == 0 || readable.has(pointer, kWord)) {
        at[i] = word_at(pointer);
      } else {
        pointers.add(pointer, &at[i], kWord);
        asked.emplace_back(&windows[i], 0);
      }
    }
    read_asked(pointers);
  }
  now.resize(words);
  asked.clear();
  Reads rest;
  for (size_t i = 0, next = 0; i < windows.size(); ++i) {
    Window& w = windows[i];
    const size_t n = w.values.size();
    const uintptr_t address = at[i] + w.begin;
    if (w.was_gone) continue;
    if (w.path.empty() || readable.has(address, n * kWord)) {
      if (!differ(address, w.values.data(), w.masks.data(), n)) continue;
      for (size_t k = 0; k < n; ++k) now[next + k] = word_at(address + k * kWord);
      all = holds(w, &now[next]) && all;
    } else {
      rest.add(address, &now[next], n * kWord);
      asked.emplace_back(&w, next);
    }
    next += n;
  }
  read_asked(rest);
  for (const auto& [w, first] : asked)
    if (!w->was_gone) all = holds(*w, &now[first]) && all;
  return all;
}

Closure Closure::current() { return current_closure; }

bool hold(std::vector<Look>& looks) {
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
