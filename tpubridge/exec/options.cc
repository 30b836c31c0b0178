#include "tpubridge/exec/options.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <utility>

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

thread_local CompileScope* innermost = nullptr;

uint64_t hash_of(const pjrt::CompileOptions& options) {
  if (!options.optimization_level && options.overrides.empty()) return 0;
  pjrt::CompileOptions counted;
  counted.optimization_level = options.optimization_level;
  counted.overrides = options.overrides;
  const std::string text = counted.serialize();  // throws where the level is none
  return XXH3_64bits(text.data(), text.size()) | 1;
}

bool has_options(const CompileScope* scope) { return scope && scope->settings().options(); }

}  // namespace

pjrt::CompileOptions set_compile_options(pjrt::CompileOptions options) {
  const Lock lock(mutex());
  const uint64_t hash = hash_of(options);
  Added& a = added();
  a.hash = hash;
  std::swap(a.options, options);
  return options;
}

void add_user_options(pjrt::CompileOptions& to) {
  const auto& from = has_options(innermost) ? *innermost->settings().options() : added().options;
  if (from.optimization_level) to.optimization_level = from.optimization_level;
  for (const auto& [name, value] : from.overrides) to.overrides[name] = value;
}

uint64_t user_options_hash() { return has_options(innermost) ? innermost->settings().hash() : added().hash; }

CompileSettings::CompileSettings(pjrt::CompileOptions options)
    : options_(std::move(options)), hash_(hash_of(*options_)) {}

CompileScope::CompileScope(const CompileSettings& settings)
    : settings_(settings), outer_(std::exchange(innermost, this)) {}
CompileScope::~CompileScope() { innermost = outer_; }

void CompileScope::count(bool by_compiler, double seconds) {
  compiles_ += by_compiler;
  seconds_ += seconds;
}

CompileScope* CompileScope::current() { return innermost; }

}  // namespace tpubridge::exec
