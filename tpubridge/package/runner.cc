#include "tpubridge/package/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "tpubridge/base/log.h"
#include "tpubridge/base/text.h"
#include "tpubridge/cache/programs.h"

namespace tpubridge::package {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const ProgramCode& code_for(const Program& program, const std::string& platform) {
  auto at = std::ranges::find(program.codes, platform, &ProgramCode::platform);
  if (at == program.codes.end()) at = std::ranges::find(program.codes, "any", &ProgramCode::platform);
  return *at;  // a manifest without "any" is refused
}

Shape shape_of(const Manifest& manifest, const Program& program, const Parameter& parameter) {
  return parameter.is_weight ? manifest.weights[parameter.index].tensor.shape
                             : program.inputs[parameter.index].shape;
}

}  // namespace

Runner::Runner(std::shared_ptr<const Package> package, std::shared_ptr<pjrt::Client> client,
               RunOptions options)
    : package_(std::move(package)),
      client_(std::move(client)),
      options_(options),
      here_(this_machine(*client_)) {}

// The plugin does not look at what it is given: what the program takes must be what the manifest says.
void Runner::check_signature(const Program& program, const pjrt::LoadedExecutable& loaded) const {
  const auto& signature = loaded.signature();
  if (!signature)
    throw UnsupportedError("this plugin does not tell what a program takes",
                           {{"plugin", client_->plugin().path()}});
  std::vector<Shape> parameters, results;
  for (const Parameter& p : program.parameters)
    parameters.push_back(shape_of(package_->manifest(), program, p));
  for (const Tensor& t : program.outputs) results.push_back(t.shape);
  if (std::ranges::find(signature->donated, true) != signature->donated.end())
    throw FileError(fmt::format("{}: a program overwrites what it is given", package_->path().string()),
                    {{"path", package_->path().string()}},
                    "Weights and inputs of a package stay as they are: make it without donation.",
                    Code::data_loss);
  if (signature->parameters != parameters || signature->results != results || loaded.devices().size() != 1)
    throw FileError(fmt::format("{}: a program takes or gives something else than the manifest says",
                                package_->path().string()),
                    {{"path", package_->path().string()}}, "Make the package again.", Code::data_loss);
}

std::shared_ptr<const pjrt::LoadedExecutable> Runner::load(const Program& program, How& how) const {
  if (!options_.use_executables) {
    how.why = "executables are not to be used";
    return nullptr;
  }
  if (program.executables.empty()) how.why = "the package has no executable";
  for (const Executable& e : program.executables) {
    std::string why = difference(e.machine, here_);
    if (why.empty()) {
      try {
        const auto start = Clock::now();
        auto out = std::make_shared<const pjrt::LoadedExecutable>(client_->load(package_->bytes(e.entry)));
        check_signature(program, *out);
        how = {How::Source::executable, {}, e.machine.target, seconds_since(start)};
        return out;
      } catch (const FileError&) {
        throw;
      } catch (const Error& refused) {
        why = fmt::format("the plugin refuses it: {}", refused.message());
      }
    }
    how.why += fmt::format("{}the executable for {}: {}", how.why.empty() ? "" : "; ", e.machine.target, why);
  }
  return nullptr;
}

std::shared_ptr<const pjrt::LoadedExecutable> Runner::compile(const Program& program, How& how) const {
  if (!options_.may_compile)
    throw CompilationError(
        fmt::format("{} has no executable that fits this machine, and nothing may be compiled",
                    package_->path().string()),
        {{"path", package_->path().string()}, {"why", how.why}},
        "Make the package on such a machine, or allow compiling.", Code::failed_precondition);
  const ProgramCode& code = code_for(program, client_->platform_name());
  const cache::Found found =
      cache::ProgramCache(*client_).get({std::string(package_->bytes(code.entry))}, code.options);
  how.source = found.source == cache::Source::compiler ? How::Source::compiler : How::Source::disk;
  how.seconds = found.seconds;
  log::info("package.compiled", {{"path", package_->path().string()}, {"why", how.why}});
  check_signature(program, *found.program);
  return found.program;
}

const Runner::Ready& Runner::ready(size_t index) {
  const std::lock_guard lock(mutex_);
  if (const auto known = ready_.find(index); known != ready_.end()) return known->second;
  const auto& programs = package_->manifest().programs;
  if (index >= programs.size())
    throw ArgumentError(
        fmt::format("the package has {} programs; number {} is asked for", programs.size(), index));
  Ready out;
  out.program = load(programs[index], out.how);
  if (!out.program) out.program = compile(programs[index], out.how);
  for (const Parameter& p : programs[index].parameters)
    if (p.is_weight) (void)weight(p.index, *out.program->devices()[0]);
  return ready_.emplace(index, std::move(out)).first->second;
}

const How& Runner::prepare(size_t program) { return ready(program).how; }

// The mapped file is what the CPU plugin computes with; others copy it. Under the mutex.
const pjrt::Buffer& Runner::weight(size_t index, const pjrt::Device& device) {
  const std::pair key{index, device.id()};
  if (const auto known = weights_.find(key); known != weights_.end()) return known->second;
  const Weight& w = package_->manifest().weights[index];
  return weights_
      .emplace(key, client_->to_device({package_->bytes(w.entry).data(), w.tensor.shape, {}}, device,
                                       pjrt::HostSemantics::zero_copy, package_))
      .first->second;
}

std::vector<HostTensor> Runner::run(std::span<const HostTensor> inputs) {
  return run(bind_inputs(*package_, inputs));
}

std::vector<HostTensor> Runner::run(const Bound& bound) {
  const Ready& r = ready(bound.program);
  const Program& program = package_->manifest().programs[bound.program];
  const pjrt::Device& device = *r.program->devices()[0];
  std::map<size_t, pjrt::Buffer> inputs;
  std::vector<const pjrt::Buffer*> arguments;
  for (const Parameter& p : program.parameters) {
    if (p.is_weight) {
      const std::lock_guard lock(mutex_);
      arguments.push_back(&weight(p.index, device));
      continue;
    }
    auto at = inputs.find(p.index);
    if (at == inputs.end()) {
      const HostTensor& t = bound.inputs.at(p.index);
      at = inputs.emplace(p.index, client_->to_device({t.bytes().data(), t.shape, {}}, device)).first;
    }
    arguments.push_back(&at->second);
  }
  const auto results = r.program->execute(arguments);
  std::vector<HostTensor> out;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto bytes = static_cast<size_t>(results[i].shape().bytes());
    const auto data = aligned_bytes(bytes);
    results[i].to_host(data.get(), bytes);
    out.push_back({program.outputs[i].name, results[i].shape(), data});
  }
  return out;
}

}  // namespace tpubridge::package
