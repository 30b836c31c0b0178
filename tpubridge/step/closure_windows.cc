// What of the memory that a function reaches is looked at.
#include <deque>
#include <iostream>

#include "tpubridge/step/closure.h"
#include "tpubridge/step/masks.h"
#include "tpubridge/step/modules.h"
#include "tpubridge/step/objects.h"
#include "tpubridge/step/program.h"

namespace tpubridge::step {
namespace {

constexpr int kHops = 3;                  // from a variable of the function
constexpr size_t kFar = 48;               // words behind two pointers, where nothing tells how many there are
constexpr size_t kFarAll = 4096;          // more of them, of blocks on the heap, all together
constexpr size_t kOwn = 8;                // words that surely belong to what lies there, mostly
constexpr size_t kSure = 3;               // of those: a vector has three
constexpr size_t kManyGlobals = 1 << 20;  // words of globals among which numbers of the trace are looked for

void add(std::vector<Window>& out, Window w) {
  w.trim();
  if (!w.masks.empty()) out.push_back(std::move(w));
}

// Where the last module ends that lies in these words by itself (those that a shared_ptr holds are known),
// with what its class adds to it.
size_t end_of_modules(uintptr_t address, size_t words) {
  constexpr size_t kAdded = 16, kMost = 512;
  size_t end = 0;
  for (size_t i = 0; i < std::max(words, end) && i < kMost; ++i)
    if (const size_t torchs = words_of_module(address + i * kWord)) {
      end = i + torchs + kAdded;
      i += torchs - 1;
    }
  return end;
}

// Words of their own count in full, `own` of them at most, and `guess` where nothing tells how many there
// are. Returns how many do.
size_t look_at(Window& w, uintptr_t address, size_t most, size_t own, size_t guess, const Masks& masks) {
  Extent e = extent_at(address, guess);
  if (const size_t end = e.own != 0 && own != 0 ? end_of_modules(address, e.own) : 0) {
    if (e.words > e.own) e.words = std::max(e.words, end), e.own = std::max(e.own, end);
    most = std::max(most, end), own = std::max(own, end);
  }
  w.values = words_at(address, std::min(e.words, most));
  own = std::min({own, e.own, w.values.size()});
  for (size_t i = 0; i < w.values.size(); ++i) {
    const bool compared = masks.is_compared(address + i * kWord);
    if (compared) w.values[i] = 0;  // and so are its pointers
    w.masks.push_back(i < e.skip || compared ? 0
                      : i < own              ? masks.all(w.values[i])
                                             : masks.some(w.values[i]));
  }
  return own;
}

// The streams of the standard library may stand among the globals of a program, and change as they are used.
bool in_stream(uintptr_t address) {
  const auto is_in = [&](const auto& stream) {
    const auto begin = reinterpret_cast<uintptr_t>(&stream);
    return address >= begin && address < begin + sizeof stream;
  };
  return is_in(std::cin) || is_in(std::cout) || is_in(std::cerr) || is_in(std::clog);
}

// Another variable that is captured ends this one.
size_t words_to_next(uint64_t address, const std::vector<uint64_t>& captured) {
  uint64_t next = ~uint64_t{0};
  for (const uint64_t c : captured)
    if (c > address) next = std::min(next, c);
  return std::max<size_t>(1, (next - address) / kWord);
}

// From words that are looked at to what their pointers lead to, the nearest first, each place once, and not
// more than a step can compare.
class Search {
 public:
  explicit Search(const Masks& masks) : masks_(masks) {}

  // `own` words belong to what they were found in, `sure` of them beyond doubt: what those point to is
  // followed for `hops` pointers and looked at as a whole.
  void add(Window w, size_t own, size_t sure, int hops) { open_.push_back({std::move(w), own, sure, hops}); }

  std::vector<Window> all() {
    while (!open_.empty()) {
      Open o = std::move(open_.front());
      open_.pop_front();
      for (size_t i = 0; o.hops > 0 && i < o.window.values.size(); ++i) follow(o, i);
      step::add(out_, std::move(o.window));
    }
    return std::move(out_);
  }

 private:
  struct Open {
    Window window;
    size_t own = 0, sure = 0;
    int hops = 0;
  };

  void follow(Open& o, size_t i) {
    const uint64_t to = o.window.values[i];
    const bool own = i < o.own;
    if (!is_address(to) || to % kWord != 0 || masks_.is_wanted(to) || is_loaded(to)) return;
    if (!looked_at_.insert(to).second) {
      if (own) o.window.masks[i] = ~uint64_t{0};  // it must stay the way to what is looked at already
      return;
    }
    Window w{.from = o.window.from, .base = o.window.base, .path = o.window.path};
    w.path.push_back(static_cast<uint32_t>(o.window.begin + i * kWord));
    const bool sure = i < o.sure;
    const size_t most = sure ? kFar + left_ : kFar;
    const size_t owned = look_at(w, to, most, !own ? 0 : on_stack(to, kWord) ? kOwn : most, kOwn, masks_);
    if (w.values.empty()) return;
    if (w.values.size() > kFar) left_ -= std::min(left_, w.values.size() - kFar);
    // Further only from small objects whose end is known.
    const bool known = owned == w.values.size() && owned <= kFar;
    add(std::move(w), owned, owned, sure && known ? o.hops - 1 : 0);
  }

  const Masks& masks_;
  std::deque<Open> open_;
  std::vector<Window> out_;
  std::unordered_set<uint64_t> looked_at_;
  size_t left_ = kFarAll;
};

}  // namespace

std::vector<Window> Closure::windows(const Wanted& wanted) const {
  const Masks masks(wanted);
  Search search(masks);
  const auto object = words();
  search.add({.values = object, .masks = std::vector<uint64_t>(object.size(), ~uint64_t{0})}, 0, 0, 0);
  for (uint32_t w = 0; w < object.size(); ++w) {
    if (!is_address(object[w]) || masks.is_wanted(object[w])) continue;
    Window near{.path = {static_cast<uint32_t>(w * kWord)}};
    const bool stack = on_stack(object[w], kWord);
    const size_t most = stack ? words_to_next(object[w], object) : ~size_t{0};
    const size_t own =
        look_at(near, object[w], most, object[w] % kWord == 0 ? ~size_t{0} : kOwn, kNear, masks);
    if (near.masks.empty()) continue;
    near.masks[0] = ~uint64_t{0};
    // What a neighbour on the stack points to may be gone, and anything now.
    search.add(std::move(near), stack ? kOwn : own, stack ? kSure : own, kHops);
  }
  return search.all();
}

std::vector<Window> Closure::globals(const Wanted& wanted) {
  const Masks masks(wanted);
  Search search(masks);
  const bool all = !few_globals().empty();
  for (uint32_t part = 0; part <= program_data().size(); ++part) {
    const Range r = part_of_globals(part);
    if (r.words() > kManyGlobals) continue;
    const auto values = words_at(r.begin, r.words());
    Window w{.from = From::globals, .base = part};
    for (uint32_t i = 0; i < values.size(); ++i) {
      const auto offset = static_cast<uint32_t>(i * kWord);
      if (!all) {
        if (const uint64_t mask = masks.some(values[i]))
          search.add({.from = From::globals,
                      .base = part,
                      .begin = offset,
                      .values = {values[i]},
                      .masks = {mask},
                      .origin = offset},
                     0, 0, 0);
        continue;
      }
      const bool stream = in_stream(r.begin + offset);
      if (masks.is_optimizer(values[i])) w.firm.push_back(i);
      w.values.push_back(stream ? 0 : values[i]);
      w.masks.push_back(stream ? 0 : masks.all(values[i]));
    }
    if (all) search.add(std::move(w), values.size(), values.size(), kHops - 1);
  }
  return search.all();
}

std::vector<Window> Closure::behind(const std::vector<Fixed>& objects, const Wanted& wanted) {
  const Masks masks(wanted);
  Search search(masks);
  for (const Fixed& o : objects) {
    Window w{.from = From::fixed, .base = o.object, .begin = static_cast<uint32_t>(o.first * kWord)};
    if (o.words > o.first) w.values = words_at(o.object + w.begin, o.words - o.first);
    w.masks.resize(w.values.size());
    search.add(std::move(w), o.words, o.words, kHops - 1);
  }
  return search.all();
}

}  // namespace tpubridge::step
