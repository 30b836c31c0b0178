// Parts of memory that a step looks at before it replays, and how to get there.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "tpubridge/step/range.h"

namespace tpubridge::step {

// Words of memory, and the way to them: pointer by pointer, from the function object, the globals, or an
// object that lives as long as the recording is of use (a module). Of each word the bytes in its mask count.
enum class From : uint8_t { object, globals, fixed };
struct Window {
  From from = From::object;
  uint64_t base = 0;                // of globals: which part of them; of a fixed object: its address
  std::vector<uint32_t> path = {};  // where the pointers stand, in bytes, each behind the one before
  uint32_t begin = 0;               // of the words, in bytes, behind the last pointer
  std::vector<uint64_t> values = {}, masks = {};
  std::vector<uint64_t> seen = {};  // the values for which a replay was refused, if one was
  bool was_gone = false;            // it was refused because the way led nowhere
  std::vector<size_t> firm = {};    // words behind the last pointer that are never forgotten
  // What was forgotten last, and how often it was what follows that before.
  size_t forgotten = 0, in_a_row = 0;

  uint32_t origin = 0;  // where the words began at first

  [[nodiscard]] bool same_way(const Window& o) const {
    return from == o.from && base == o.base && origin == o.origin && path == o.path;
  }
  // Of what it starts from, how many bytes it needs.
  [[nodiscard]] size_t end_of_first() const {
    return path.empty() ? begin + values.size() * kWord : path[0] + kWord;
  }
  // So far away that it is looked at as long as it stays as it is, and then forgotten as a whole.
  [[nodiscard]] bool is_deep() const { return path.size() > (from == From::object ? 2 : 1); }
  void trim();  // to the words that count
  void forget_from(size_t word);
};
// Whether these words are what was recorded. Where they are not, what they were is kept.
[[nodiscard]] bool holds(Window& w, const uint64_t* now);
// Of two recorded calls that were alike, what the later one leaves to be looked at. What changed between them
// does not count any more, unless it is surely a variable of the function: then it says so.
[[nodiscard]] std::string merge_windows(const std::vector<Window>& before, std::vector<Window>& now);

// What is looked for behind the pointers.
struct Wanted {
  std::unordered_set<const void*> addresses;   // of tensors, modules, optimizers
  std::unordered_set<const void*> optimizers;  // those of them
  std::unordered_set<double> numbers;
  std::vector<Range> compared;  // memory that is compared elsewhere: modules, in the order of their addresses
};

}  // namespace tpubridge::step
