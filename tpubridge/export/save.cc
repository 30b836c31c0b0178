#include "tpubridge/export/save.h"

#include <sys/utsname.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>

#include "tpubridge/aot/aot.h"
#include "tpubridge/aot/generations.h"
#include "tpubridge/base/text.h"
#include "tpubridge/cache/programs.h"
#include "tpubridge/exec/options.h"
#include "tpubridge/exec/platform_options.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/package/package.h"

namespace tpubridge {
namespace {

using package::Contents;
using package::Machine;

bool same_tensor(const HostTensor& a, const HostTensor& b) {
  return a.shape == b.shape && std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0;
}

// Where a weight stands; it is added where it is not there yet.
size_t place_weight(std::vector<HostTensor>& all, HostTensor weight, size_t program) {
  const auto known = std::ranges::find(all, weight.name, &HostTensor::name);
  if (known != all.end()) {
    if (same_tensor(*known, weight)) return static_cast<size_t>(known - all.begin());
    weight.name += "@" + std::to_string(program);  // what a trace made for these shapes alone
  }
  all.push_back(std::move(weight));
  return all.size() - 1;
}

std::vector<package::Tensor> tensors_of(const std::vector<ExportedProgram::Tensor>& from) {
  std::vector<package::Tensor> out;
  for (const auto& t : from) out.push_back({t.name, t.shape});
  return out;
}

void check_same_signature(const Contents::NewProgram& first, const Contents::NewProgram& next) {
  const auto alike = [](const package::Tensor& x, const package::Tensor& y) {
    return x.name == y.name && x.shape.dtype == y.shape.dtype;
  };
  if (!std::ranges::equal(first.inputs, next.inputs, alike) ||
      !std::ranges::equal(first.outputs, next.outputs, alike))
    throw ArgumentError("the programs of a package must have the same inputs and outputs, by name and type",
                        {}, "Only sizes may differ.", Code::invalid_argument);
  if (std::ranges::equal(first.inputs, next.inputs, {}, &package::Tensor::shape, &package::Tensor::shape))
    throw ArgumentError("two programs of a package take the same shapes", {}, "Leave one of them out.",
                        Code::invalid_argument);
}

const Contents::NewCode& code_of(const Contents::NewProgram& program, std::string_view platform) {
  const auto at = std::ranges::find(program.codes, platform, &Contents::NewCode::platform);
  return at != program.codes.end() ? *at : program.codes.front();
}

std::string machine_name() {
  utsname machine{};
  ::uname(&machine);
  return machine.machine;
}

[[noreturn]] void tpu_failed(const aot::FitResult& r) {
  const std::string message = "no executable for " + r.tpu + ": " + std::string(aot::to_string(r.verdict)) +
                              (r.message.empty() ? "" : ": " + r.message);
  const Details details = {{"tpu", r.tpu}};
  if (r.verdict == aot::Verdict::does_not_fit) throw TPUOutOfMemoryError(message, details, r.hint, r.status);
  throw XLACompilationError(message, details, r.hint, r.status);
}

// Executables for TPUs that are not here: all at once, as many at a time as there are cores.
void compile_for_tpus(const std::vector<std::string>& tpus, Contents& contents, PackageReport& report) {
  if (tpus.empty()) return;
  const TempFolder folder("tpubridge-package");
  const Path libtpu = aot::libtpu_library();
  std::vector<aot::FitRequest> requests;
  for (const std::string& tpu : tpus)
    for (const auto& program : contents.programs) {
      const auto& code = code_of(program, "tpu");
      requests.push_back({.program = code.text,
                          .tpu = tpu,
                          .xla_options = code.options.overrides,
                          .executable = folder.path() / std::to_string(requests.size())});
    }
  const auto results = aot::fit(requests);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].verdict != aot::Verdict::fits) tpu_failed(results[i]);
    const size_t program = i % contents.programs.size();
    Contents::NewExecutable made{package::tpu_machine(results[i].tpu, libtpu),
                                 read_file(requests[i].executable)};
    report.executables.push_back(
        {program, results[i].tpu, results[i].compile_seconds, static_cast<int64_t>(made.bytes.size())});
    contents.programs[program].executables.push_back(std::move(made));
  }
}

void compile_for_this_machine(Contents& contents, PackageReport& report) {
  const pjrt::Client& client = exec::client();
  const Machine here = package::this_machine(client);
  cache::ProgramCache compiler(client, nullptr);  // what a disk gives cannot be serialised on every plugin
  for (size_t i = 0; i < contents.programs.size(); ++i) {
    const auto& code = code_of(contents.programs[i], here.platform);
    const cache::Found found = compiler.get({code.text}, code.options);
    Contents::NewExecutable made{here, found.program->info().serialize()};
    report.executables.push_back({i, here.target, found.seconds, static_cast<int64_t>(made.bytes.size())});
    contents.programs[i].executables.push_back(std::move(made));
  }
}

}  // namespace

std::string made_with() { return "tpubridge " TPUBRIDGE_VERSION ", torch " TORCH_VERSION; }

struct PackageWriter::Impl {
  Contents contents;
};

PackageWriter::PackageWriter(std::string model) : impl_(std::make_unique<Impl>()) {
  impl_->contents.model = std::move(model);
  impl_->contents.made_with = {
      {"tpubridge", TPUBRIDGE_VERSION}, {"torch", TORCH_VERSION}, {"machine", machine_name()}};
}
PackageWriter::~PackageWriter() = default;

void PackageWriter::add(ExportedProgram program) {
  Contents& c = impl_->contents;
  Contents::NewProgram made{tensors_of(program.inputs), tensors_of(program.outputs), {}, {}, {}};
  for (const auto& before : c.programs) check_same_signature(before, made);
  std::vector<size_t> places;
  for (HostTensor& w : program.weights)
    places.push_back(place_weight(c.weights, std::move(w), c.programs.size()));
  for (const auto& p : program.parameters)
    made.parameters.push_back({p.is_weight, p.is_weight ? places[p.index] : p.index});
  const exec::Lock lock(exec::mutex());
  for (auto& [platform, text] : program.texts) {
    pjrt::CompileOptions options;
    exec::add_platform_options(options, platform, text);
    if (platform == exec::client().platform_name()) exec::add_user_options(options);
    made.codes.push_back({platform, std::move(text), std::move(options)});
  }
  c.programs.push_back(std::move(made));
}

PackageReport PackageWriter::save(const Path& path, const PackageTargets& targets) const {
  if (impl_->contents.programs.empty())
    throw ArgumentError("a package without a program", {}, "Add one that export_program() gave.");
  for (const std::string& tpu : targets.tpus) (void)aot::parse_slice(tpu);  // throws before a long compile
  Contents contents = impl_->contents;
  PackageReport report;
  if (targets.this_machine) compile_for_this_machine(contents, report);
  compile_for_tpus(targets.tpus, contents, report);
  if (targets.before_writing) targets.before_writing();
  package::write_package(path, contents);
  report.weights = static_cast<int64_t>(contents.weights.size());
  for (const auto& w : contents.weights) report.weight_bytes += w.shape.bytes();
  std::error_code unknown;  // of a device that was written to
  const auto bytes = std::filesystem::file_size(path, unknown);
  report.bytes = unknown ? 0 : static_cast<int64_t>(bytes);
  return report;
}

}  // namespace tpubridge
