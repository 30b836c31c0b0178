// Two programs for one graph: one that is compiled quickly and runs at once, and the optimised one that takes
// its place when a thread in the background has it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "tpubridge/cache/programs.h"

namespace tpubridge::exec {

struct Compiled;

struct Tier {
  std::shared_ptr<const Compiled> best;  // set before `ready`
  std::atomic<bool> ready{false};
};

// While it lives, programs that this thread compiles come in two tiers.
class TierScope {
 public:
  explicit TierScope(bool on);
  ~TierScope();
  TierScope(const TierScope&) = delete;
  TierScope& operator=(const TierScope&) = delete;

 private:
  bool before_;
};
[[nodiscard]] bool tiering();

// The same options for a compiler in a hurry; what the user set stays.
[[nodiscard]] pjrt::CompileOptions quick(pjrt::CompileOptions options, std::string_view platform);
// Null where no thread can be had: then the quick program stays.
[[nodiscard]] std::shared_ptr<Tier> optimise_later(pjrt::Program program, pjrt::CompileOptions options,
                                                   pjrt::Signature signature, std::vector<int64_t> donated);

}  // namespace tpubridge::exec
