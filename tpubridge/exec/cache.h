// Compiled programs in memory: found by the structure of the graph, then by the text of the program. The
// least recently used go first. Hashes only lead to where to look: what is found is compared whole. All under
// exec::mutex() but for what says otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/cache/programs.h"
#include "tpubridge/exec/tier.h"
#include "tpubridge/trace/family.h"
#include "tpubridge/trace/shared_numbers.h"

namespace tpubridge::exec {

struct Sizing;     // sized.h
struct Spreading;  // spread.h

struct Compiled {
  std::shared_ptr<const pjrt::LoadedExecutable> program;
  std::vector<int64_t> donated;  // arguments that the program may take over
  int64_t needs = 0;             // bytes beside its arguments: results that reuse none of them, temporaries
  int64_t temporaries = 0;       // of these; 0 where the plugin does not tell
  std::shared_ptr<Tier> tier = nullptr;            // a better one that is on its way
  std::vector<trace::Loose> inputs = {};           // loose arguments of the graph that it takes as numbers
  trace::SharedNumbers shared = {};                // it runs for graphs in which these are equal
  bool some_differed = false;                      // of those that an earlier program shared
  bool may_fail = false;                           // when it runs: code of the user's own (kernels/)
  std::shared_ptr<const Sizing> sizing = nullptr;  // of a program for many sizes (sized.h)
  std::shared_ptr<const Spreading> spreading = nullptr;  // of a program over several devices (spread.h)

  // What to run now.
  [[nodiscard]] const Compiled& best() const {
    return tier && tier->ready.load(std::memory_order_acquire) ? *tier->best : *this;
  }
};
void set_memory(Compiled& c);  // asks the plugin what running it takes
using Key = std::array<uint64_t, 2>;

// How a program is compiled, as text: named fields. The same graph in another mode is another program.
class Mode {
 public:
  void add(std::string_view name, std::string_view value);
  bool operator==(const Mode&) const = default;

 private:
  std::string text_;
};

// The structure of a graph, kept. Without an outline: a program that is known by its text alone.
struct Structure {
  Key hash{};
  std::shared_ptr<const trace::Outline> outline = nullptr;
};
[[nodiscard]] Structure structure_of(const trace::Graph& graph);

[[nodiscard]] std::shared_ptr<const Compiled> find_structure(const trace::Graph& graph, const Mode& mode);
// Also remembers the structure, where there is one.
[[nodiscard]] std::shared_ptr<const Compiled> find_text(std::string_view text, const Mode& mode,
                                                        const Structure& structure);
void remember(const Structure& structure, std::string_view text, const Mode& mode,
              std::shared_ptr<const Compiled> compiled);

// What is below: the disk and the compiler, for the client of runtime.h. A handle that stays good when
// another one takes its place. From any thread.
[[nodiscard]] cache::ProgramCache programs();
void set_programs(cache::ProgramCache programs);  // in its place
void close_programs();  // the next one is made as it was, for the client that is open then

// Both take the mutex themselves.
[[nodiscard]] size_t cache_size();
size_t set_cache_capacity(size_t programs);  // returns the old one

}  // namespace tpubridge::exec
