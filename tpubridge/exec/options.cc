#include "tpubridge/exec/options.h"

#include <utility>

#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {
namespace {

struct Added {
  pjrt::CompileOptions options;
  std::string text;
};
Added& added() {
  static auto* a = new Added;
  return *a;
}

thread_local CompileScope* innermost = nullptr;

std::string text_of_options(const pjrt::CompileOptions& options) {
  if (!options.optimization_level && options.overrides.empty()) return {};
  pjrt::CompileOptions counted;
  counted.optimization_level = options.optimization_level;
  counted.overrides = options.overrides;
  return counted.serialize();  // throws where the level is none
}

bool has_options(const CompileScope* scope) { return scope && scope->settings().options(); }

}  // namespace

pjrt::CompileOptions set_compile_options(pjrt::CompileOptions options) {
  const Lock lock(mutex());
  std::string text = text_of_options(options);
  Added& a = added();
  a.text = std::move(text);
  std::swap(a.options, options);
  return options;
}

void add_user_options(pjrt::CompileOptions& to) {
  const auto& from = has_options(innermost) ? *innermost->settings().options() : added().options;
  if (from.optimization_level) to.optimization_level = from.optimization_level;
  for (const auto& [name, value] : from.overrides) to.overrides[name] = value;
}

const std::string& user_options_text() {
  return has_options(innermost) ? innermost->settings().text() : added().text;
}

CompileSettings::CompileSettings(pjrt::CompileOptions options)
    : options_(std::move(options)), text_(text_of_options(*options_)) {}

CompileScope::CompileScope(const CompileSettings& settings)
    : settings_(settings), outer_(std::exchange(innermost, this)) {}
CompileScope::~CompileScope() { innermost = outer_; }

void CompileScope::count(bool by_compiler, double seconds) {
  compiles_ += by_compiler;
  seconds_ += seconds;
}

CompileScope* CompileScope::current() { return innermost; }

}  // namespace tpubridge::exec
