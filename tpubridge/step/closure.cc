#include "tpubridge/step/closure.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "tpubridge/step/memory.h"
#include "tpubridge/step/program.h"

namespace tpubridge::step {
namespace {

constexpr size_t kWords = 64;  // of the object

thread_local Closure current_closure;

}  // namespace

std::vector<uint64_t> Closure::words() const {
  return object_ ? words_at(reinterpret_cast<uintptr_t>(object_), std::min(kWords, bytes_ / kWord))
                 : std::vector<uint64_t>();
}

size_t Closure::bytes_looked_at() const {
  return object_ ? std::min(kWords * kWord, bytes_ / kWord * kWord) : 0;
}

uintptr_t Closure::start_of(const Window& w, uintptr_t object) {
  return w.from == From::object ? object : w.from == From::globals ? part_of_globals(w.base).begin : w.base;
}

// Whether all of them can be read as they are, and hold. Where not, hold() looks more closely.
bool Closure::hold_plainly(const std::vector<Window>& windows, const Readable& readable) const {
  const auto object = reinterpret_cast<uintptr_t>(object_);
  const size_t bytes = bytes_looked_at();
  if (object_ && !readable.has(object, bytes)) return false;
  for (const Window& w : windows) {
    if (w.was_gone || (w.from == From::object && w.end_of_first() > bytes)) return false;
    uintptr_t at = start_of(w, object);
    for (size_t hop = 0; hop < w.path.size(); ++hop) {
      const uintptr_t pointer = at + w.path[hop];
      if (hop != 0 && !readable.has(pointer, kWord)) return false;
      at = word_at(pointer);
    }
    at += w.begin;
    if (!w.path.empty() && !readable.has(at, w.values.size() * kWord)) return false;
    if (differ(at, w.values.data(), w.masks.data(), w.values.size())) return false;
  }
  return true;
}

bool Closure::hold(std::vector<Window>& windows) const {
  if (windows.empty()) return true;
  const Readable readable;
  if (hold_plainly(windows, readable)) return true;
  if (std::ranges::any_of(windows, &Window::was_gone)) return false;  // and not traced since
  uint64_t object[kWords];
  const size_t bytes = bytes_looked_at();
  if (object_ && !read_memory(reinterpret_cast<uintptr_t>(object_), object, bytes)) return false;
  // Where they lie now. The kernel is asked for what may not be there, all at once.
  thread_local std::vector<uint64_t> at, now;
  thread_local std::vector<std::pair<Window*, size_t>> asked;
  at.resize(windows.size());
  size_t longest = 0, words = 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& w = windows[i];
    if (w.from == From::object && w.end_of_first() > bytes) return false;
    at[i] = start_of(w, reinterpret_cast<uintptr_t>(object));
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
