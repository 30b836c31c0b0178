// What lies at an address: what class it is of, and how much belongs to it, as far as that can be seen.
#pragma once

#include <string>
#include <typeinfo>

#include "tpubridge/step/memory.h"

namespace tpubridge::step {

// The class of an object with a table of functions, if there is one at this address.
struct Named {
  const std::type_info* type = nullptr;
  std::string name;
};
[[nodiscard]] Named class_at(uint64_t object);

// Whether it is a part of the program or of a library: tables, code, globals.
[[nodiscard]] bool is_loaded(uint64_t address);

// How many words are looked at there, from the one on that `skip` says, and how many of them belong to what
// lies there, as far as can be told; where it cannot, in the middle of a block of the heap, so many as given.
// Beside those others may lie, of which not every word tells something.
struct Extent {
  size_t words = 0, skip = 0, own = 0;
};
[[nodiscard]] Extent extent_at(uintptr_t address, size_t own);

}  // namespace tpubridge::step
