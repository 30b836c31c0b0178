// Compiled programs in memory: found by the structure of the graph, then by the text of the program. The
// least recently used go first. All under exec::mutex().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tpubridge/cache/programs.h"
#include "tpubridge/exec/tier.h"

namespace tpubridge::exec {

struct Compiled {
  std::shared_ptr<const pjrt::LoadedExecutable> program;
  std::vector<int64_t> donated;  // arguments that the program may take over
  int64_t needs = 0;             // bytes beside its arguments: results that reuse none of them, temporaries
  int64_t temporaries = 0;       // of these; 0 where the plugin does not tell
  std::shared_ptr<Tier> tier = nullptr;  // a better one that is on its way

  // What to run now.
  [[nodiscard]] const Compiled& best() const {
    return tier && tier->ready.load(std::memory_order_acquire) ? *tier->best : *this;
  }
};
void set_memory(Compiled& c);  // asks the plugin what running it takes
using Key = std::array<uint64_t, 2>;

[[nodiscard]] std::shared_ptr<const Compiled> find_structure(const Key& key);
[[nodiscard]] std::shared_ptr<const Compiled> find_text(const Key& text_key,
                                                        const Key& structure);  // and remembers it
void remember(const Key& structure, const Key& text_key, std::shared_ptr<const Compiled> compiled);

// What is below: the disk and the compiler, for the client of runtime.h.
[[nodiscard]] cache::ProgramCache& programs();
void set_programs(cache::ProgramCache programs);  // in its place

[[nodiscard]] Key text_key(const std::string& text, int device);
[[nodiscard]] size_t cache_size();
size_t set_cache_capacity(size_t programs);  // returns the old one

}  // namespace tpubridge::exec
