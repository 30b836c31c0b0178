#include "tpubridge/step/windows.h"

#include <algorithm>

#include "tpubridge/step/memory.h"

namespace tpubridge::step {
namespace {

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

}  // namespace

bool holds(Window& w, const uint64_t* now) {
  for (size_t i = 0; i < w.values.size(); ++i)
    if (((now[i] ^ w.values[i]) & w.masks[i]) != 0 && !is_pointer_now(w.values[i], now[i], w.masks[i])) {
      w.seen.assign(now, now + w.values.size());
      return false;
    }
  return true;
}

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

}  // namespace tpubridge::step
