#include "tpubridge/step/objects.h"

#include <dlfcn.h>

#include <algorithm>
#include <iostream>

#include "tpubridge/step/blocks.h"

namespace tpubridge::step {
namespace {

// Of libraries whose objects change for reasons of their own: counts of holders, versions.
bool is_foreign(const std::string& name) {
  for (const char* prefix :
       {"N3c10", "N2at", "N5torch", "N9tpubridge5optim", "N9tpubridge4step", "St", "NSt"})
    if (name.starts_with(prefix)) return true;
  return false;
}

}  // namespace

Named class_at(uint64_t object) {
  struct Plain {};
  struct Single : std::exception {};
  static const auto kinds = [] {
    std::vector<uint64_t> out;
    for (const std::type_info* t : {&typeid(Plain), &typeid(Single), &typeid(std::basic_iostream<char>)})
      out.push_back(first_word(t));
    return out;
  }();
  uint64_t table = 0, type = 0, kind = 0, name = 0;
  if (object % kWord != 0 || !read_memory(object, &table, kWord) || table % kWord != 0 ||
      !read_memory(table - kWord, &type, kWord) || type % kWord != 0 || !read_memory(type, &kind, kWord) ||
      std::find(kinds.begin(), kinds.end(), kind) == kinds.end() || !read_memory(type + kWord, &name, kWord))
    return {};
  std::string text = text_at(name, 4096);
  if (text.starts_with('*')) text.erase(0, 1);                              // one that no other file knows
  return {reinterpret_cast<const std::type_info*>(type), std::move(text)};  // NOLINT
}

bool is_loaded(uint64_t address) {
  dl_find_object found;
  return _dl_find_object(reinterpret_cast<void*>(address), &found) == 0;  // NOLINT(performance-no-int-to-ptr)
}

Extent extent_at(uintptr_t address, size_t own) {
  constexpr size_t kMost = 1024, kStackWords = 128, kOnStack = 16;
  // What make_shared makes: counts, then the object.
  constexpr const char* kHolder = "St23_Sp_counted_ptr_inplace";
  if (on_stack(address, kWord)) return {kStackWords, 0, kOnStack};
  Extent out{kNear, 0, own};
  size_t block = words_of_block(address);
  if (block == 0 && class_at(address - 2 * kWord).name.starts_with(kHolder))
    block = std::max<size_t>(2, words_of_block(address - 2 * kWord)) - 2;
  if (block != 0) out.words = out.own = std::min(block, kMost);
  uint64_t first = 0;
  if (!read_memory(address, &first, kWord)) return {};
  if (!is_address(first) || !is_loaded(first)) return out;
  const std::string name = class_at(address).name;
  if (name.starts_with(kHolder))
    out.skip = 2;
  else if (is_foreign(name))
    out.own = 0;
  return out;
}

}  // namespace tpubridge::step
