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

[[nodiscard]] bool is_loaded(
    uint64_t address);  // a part of the program or of a library: tables, code, globals

// Words that belong to what lies at an address, from the one on that `skip` says. Where it is not known how
// many do, others lie beside them (all is false): then not every word of theirs tells something.
struct Extent {
  size_t words = 0, skip = 0;
  bool all = false;
};
[[nodiscard]] Extent extent_at(uintptr_t address);

}  // namespace tpubridge::step
