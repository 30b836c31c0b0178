#include "tpubridge/exec/options.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {
namespace {

struct Added {
  pjrt::CompileOptions options;
  uint64_t hash = 0;
};
Added& added() {
  static auto* a = new Added;
  return *a;
}

}  // namespace

pjrt::CompileOptions set_compile_options(pjrt::CompileOptions options) {
  const Lock lock(mutex());
  uint64_t hash = 0;
  if (options.optimization_level || !options.overrides.empty()) {
    pjrt::CompileOptions counted;
    counted.optimization_level = options.optimization_level;
    counted.overrides = options.overrides;
    const std::string text = counted.serialize();  // throws where the level is none
    hash = XXH3_64bits(text.data(), text.size()) | 1;
  }
  Added& a = added();
  a.hash = hash;
  std::swap(a.options, options);
  return options;
}

void add_user_options(pjrt::CompileOptions& to) {
  const Added& a = added();
  if (a.options.optimization_level) to.optimization_level = a.options.optimization_level;
  for (const auto& [name, value] : a.options.overrides) to.overrides[name] = value;
}

uint64_t user_options_hash() { return added().hash; }

}  // namespace tpubridge::exec
