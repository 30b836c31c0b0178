#include "tpubridge/exec/compiler.h"

#include <atomic>

#include "tpubridge/exec/host_kernels.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/options.h"
#include "tpubridge/exec/platform_options.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {
namespace {

std::atomic<int> no_compile{0};
std::atomic<bool (*)()> deterministic_source{nullptr};

bool deterministic() {
  auto* ask = deterministic_source.load();
  return ask && ask();
}

constexpr const char* kForbidden = "a program would be compiled inside an expect_no_compile() scope";
constexpr const char* kWhy = "Shapes, element types or the ops themselves differ from what ran before.";

cache::Found get(const pjrt::Program& program, const pjrt::CompileOptions& options,
                 std::optional<pjrt::Signature> signature) {
  const CompileScope* scope = CompileScope::current();
  const auto deadline = scope ? scope->settings().deadline : std::nullopt;
  if (!scope || (!scope->settings().afresh && (scope->settings().disk || !programs().disk())))
    return programs().get(program, options, std::move(signature), deadline);
  cache::ProgramCache without_disk(client(), nullptr);  // it knows nothing: what it gives is compiled now
  return without_disk.get(program, options, std::move(signature), deadline.value_or(programs().deadline()));
}

}  // namespace

CompileForbidden::CompileForbidden(const Details& details) : Error(kForbidden, details, kWhy) {}

void set_deterministic_source(bool (*ask)()) { deterministic_source = ask; }
ExpectNoCompile::ExpectNoCompile() { ++no_compile; }
ExpectNoCompile::~ExpectNoCompile() { --no_compile; }

namespace {

Mode with(std::string_view name, std::string_view value) {
  Mode mode;
  mode.add(name, value);
  if (deterministic()) mode.add("deterministic", "1");
  if (const std::string& text = user_options_text(); !text.empty()) mode.add("user", text);
  return mode;
}

}  // namespace

Mode this_mode(int device) {
  Mode mode = with("device", std::to_string(device));
  if (!host_kernels()) mode.add("kernels", "XLA's");
  return mode;
}
Mode this_mode(const pjrt::CompileOptions& options) { return with("options", options.serialize()); }

bool compiling_afresh() {
  const CompileScope* scope = CompileScope::current();
  return scope && scope->settings().afresh;
}

void add_platform_options(pjrt::CompileOptions& options, std::string_view platform,
                          std::string_view program) {
  // By default XLA's CPU compiler loses NaN in maxima and minima; in torch they come through.
  if (platform == "cpu") options.overrides.emplace("xla_cpu_enable_fast_min_max", false);
  // … and copies what is updated in place (a cache of keys and values) though nobody reads the old one. With
  // a loop in the program that option gives wrong values: what the loop carries is overwritten too early.
  const bool loops = program.find("stablehlo.while") != program.npos;
  if (platform == "cpu" && !loops)
    options.overrides.emplace("xla_cpu_copy_insertion_use_region_analysis", true);
  // By default XLA's GPU compiler leaves narrow values in f32 between ops: other results than torch's, and
  // more memory to read and write.
  if (platform == "cuda") options.overrides.emplace("xla_allow_excess_precision", false);
  if (platform == "cuda" && deterministic()) options.overrides.emplace("xla_gpu_deterministic_ops", true);
}

void add_device_options(pjrt::CompileOptions& options, std::string_view program) {
  add_platform_options(options, client().platform_name(), program);
  add_user_options(options);
}

cache::Found find_or_compile(const pjrt::Program& program, const pjrt::CompileOptions& options,
                             std::optional<pjrt::Signature> signature, const Details& what) {
  if (no_compile > 0) throw CompileForbidden(what);
  auto found = [&] {
    const Unlocked unlocked;
    return get(program, options, std::move(signature));
  }();
  const bool by_compiler = found.source == cache::Source::compiler;
  if (CompileScope* scope = CompileScope::current()) scope->count(by_compiler, found.seconds);
  if (by_compiler) count_compile(found.seconds);
  return found;
}

void Ready::count() const { count_execution(fresh); }

Ready program_over(const std::string& text, pjrt::CompileOptions options, const Mode& mode,
                   const Structure& structure, std::vector<int64_t> donated) {
  const bool afresh = compiling_afresh();
  if (auto known = afresh ? nullptr : find_text(text, mode, structure)) return {std::move(known)};
  add_device_options(options, text);
  auto found = find_or_compile(pjrt::Program{text}, options, std::nullopt,
                               {{"devices", std::to_string(options.devices.size())}});
  const bool by_compiler = found.source == cache::Source::compiler;
  Compiled made{std::move(found.program), std::move(donated)};
  set_memory(made);
  auto compiled = std::make_shared<const Compiled>(std::move(made));
  if (!afresh) remember(structure, text, mode, compiled);
  return {std::move(compiled), by_compiler};
}

}  // namespace tpubridge::exec
