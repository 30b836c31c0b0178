// The background compile.
#include "tpubridge/exec/tier.h"

#include "tpubridge/base/log.h"
#include "tpubridge/cache/at_exit.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/metrics.h"

namespace tpubridge::exec {
namespace {

thread_local bool on_this_thread = false;

}  // namespace

TierScope::TierScope(bool on) : before_(std::exchange(on_this_thread, on)) {}
TierScope::~TierScope() { on_this_thread = before_; }
bool tiering() { return on_this_thread; }

pjrt::CompileOptions quick(pjrt::CompileOptions options, std::string_view platform) {
  if (platform == "cpu") {
    options.overrides.emplace("xla_backend_optimization_level", int64_t{0});
    options.overrides.emplace("xla_llvm_disable_expensive_passes", true);
  } else if (platform == "cuda") {
    options.overrides.emplace("xla_gpu_autotune_level", int64_t{0});
  } else if (!options.optimization_level) {
    options.optimization_level = 0;
  }
  return options;
}

std::shared_ptr<Tier> optimise_later(pjrt::Program program, pjrt::CompileOptions options,
                                     pjrt::Signature signature, std::vector<int64_t> donated) {
  auto tier = std::make_shared<Tier>();
  const bool started = cache::run_detached([=] {
    try {
      auto found = programs().get(program, options, signature);
      Compiled best{std::move(found.program), donated};
      set_memory(best);
      tier->best = std::make_shared<const Compiled>(std::move(best));
      tier->ready.store(true, std::memory_order_release);
      count_tier(/*swapped=*/true);
    } catch (const std::exception& e) {  // the quick program goes on running
      log::warn("tier.not_optimised", {{"problem", e.what()}});
    }
  });
  if (!started) return nullptr;
  count_tier(/*swapped=*/false);
  return tier;
}

}  // namespace tpubridge::exec
