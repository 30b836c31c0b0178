#include "tools/run_package.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/run_report.h"
#include "tools/run_target.h"
#include "tools/session.h"
#include "tools/untrusted.h"
#include "tpubridge/base/limits.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/package/runner.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;
using package::How;

struct PackageReport {
  std::string plugin, platform, device_kind;
  size_t program = 0;
  How how;
  double load_s = 0, first_run_s = 0;
  std::vector<double> repeat_s;
  std::vector<HostTensor> outputs;
};

double passed(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A .npy file is the first input that no file before it gives.
std::vector<HostTensor> read_inputs(const std::vector<std::string>& files,
                                    const std::vector<package::Tensor>& signature) {
  std::vector<HostTensor> out;
  const auto is_given = [&](const package::Tensor& t) {
    return std::ranges::find(out, t.name, &HostTensor::name) != out.end();
  };
  const auto is_input = [&](const std::string& name) {
    return std::ranges::find(signature, name, &package::Tensor::name) != signature.end();
  };
  for (const std::string& file : files) {
    const bool npy = Path(file).extension() == ".npy";
    for (HostTensor& t : read_tensors(file).tensors) {
      if (npy && !is_input(t.name) && !t.name.starts_with("arg"))
        if (const auto free = std::ranges::find_if_not(signature, is_given); free != signature.end())
          t.name = free->name;
      out.push_back(std::move(t));
    }
  }
  return out;
}

std::string_view source_name(How::Source source) {
  static constexpr std::array<std::string_view, 3> names = {"executable", "compiler", "disk"};
  return names[static_cast<size_t>(source)];
}

ordered_json tensor_names(const std::vector<package::Tensor>& tensors) {
  ordered_json out = ordered_json::array();
  for (const auto& t : tensors)
    out.push_back({{"name", t.name}, {"dtype", name(t.shape.dtype)}, {"dims", t.shape.dims}});
  return out;
}

ordered_json document(const PackageRunOptions& o, const package::Manifest& m, const PackageReport& r) {
  ordered_json out = {{"file", o.file},
                      {"kind", "package"},
                      {"model", m.model},
                      {"plugin", r.plugin},
                      {"platform", r.platform},
                      {"device_kind", r.device_kind},
                      {"program", r.program},
                      {"program_from", source_name(r.how.source)},
                      {"why", r.how.why},
                      {"arguments", tensor_names(m.programs[r.program].inputs)},
                      {"outputs", outputs_json(r.outputs)},
                      {"load_s", r.load_s},
                      {"first_run_s", r.first_run_s}};
  if (!r.repeat_s.empty()) out["repeat"] = repeat_json(r.repeat_s);
  if (!o.out.empty()) out["out"] = o.out;
  return out;
}

std::string text(const PackageRunOptions& o, const package::Manifest& m, const PackageReport& r) {
  std::string from = fmt::format("executable for {} from the package", r.how.target);
  if (r.how.source != How::Source::executable)
    from = fmt::format("{} from the StableHLO in the package, because: {}",
                       r.how.source == How::Source::disk ? "compiled before" : "compiled", r.how.why);
  std::string out = fmt::format("{} ({}) on {} ({})\nprogram {} of {}: {}\nloaded in {}, first run {}",
                                o.file, m.model, r.platform, r.device_kind, r.program, m.programs.size(),
                                from, human_time(r.load_s), human_time(r.first_run_s));
  if (!r.repeat_s.empty()) out += ", " + repeat_text(r.repeat_s);
  return out + "\n" + outputs_text(r.outputs);
}

package::RunOptions run_options(const PackageRunOptions& o) {
  return {.may_compile = !o.no_compile, .use_executables = !o.no_executable};
}

Check checked_by_child(const PackageRunOptions& o, const package::Package& package, size_t program,
                       bool json) {
  for (const auto& code : package.manifest().programs[program].codes)
    refuse_waiting(o.file, package.bytes(code.entry), !package.bytes(code.entry).starts_with("ML\xefR"));
  std::vector<std::string> words = {"--program", std::to_string(program)};
  if (!o.plugin.empty()) words.insert(words.end(), {"--plugin", o.plugin});
  if (o.devices) words.insert(words.end(), {"--devices", std::to_string(*o.devices)});
  if (o.no_compile) words.emplace_back("--no-compile");
  if (o.no_executable) words.emplace_back("--no-executable");
  return check_in_child({o.file, package.digest()}, pjrt::choose(o.plugin).path, words, json);
}

}  // namespace

int check_package(const PackageRunOptions& o, size_t program) {
  const auto opened = std::make_shared<const package::Package>(o.file);
  std::error_code unknown;
  const auto size = std::filesystem::file_size(o.file, unknown);
  limit_this_process(unknown ? 0 : size);
  const bool confined = pjrt::is_cpu_plugin(pjrt::choose(o.plugin));
  if (confined) confine_files();
  const auto client = open_client(o.plugin, o.devices);
  if (confined) confine_calls();
  package::Runner runner(opened, client, run_options(o));
  const How how = runner.prepare(program);
  refuse_waiting(o.file, runner.executable(program));
  print_checked(opened->digest(),
                how.source == How::Source::compiler ? std::optional(how.seconds) : std::nullopt);
  return kOk;
}

int run_package(const PackageRunOptions& o, bool json) {
  if (!o.out.empty()) check_target(o.out, {".safetensors", ".npy"});
  set_phase("loading");
  const auto opened = std::make_shared<const package::Package>(o.file);
  const package::Manifest& manifest = opened->manifest();
  const auto bound = package::bind_inputs(*opened, read_inputs(o.inputs, manifest.programs[0].inputs));
  Check checked;
  if (!o.trusted) checked = checked_by_child(o, *opened, bound.program, json);
  if (checked.code != kOk) return checked.code;
  set_phase("opening the plugin");
  const auto client = open_client(o.plugin, o.devices);
  set_phase("loading");
  auto start = std::chrono::steady_clock::now();
  package::Runner runner(opened, client, run_options(o));
  PackageReport report;
  report.program = bound.program;
  report.how = runner.prepare(bound.program);
  report.load_s = passed(start);
  if (checked.compile_s) {  // by the child, this time
    report.how.source = How::Source::compiler;
    report.load_s += *checked.compile_s;
  }
  report.plugin = client->plugin().path();
  report.platform = client->platform_name();
  report.device_kind = client->addressable_devices()[0]->info().kind;
  set_phase("running");
  for (int i = 0; i <= o.repeat; ++i) {
    start = std::chrono::steady_clock::now();
    report.outputs = runner.run(bound);
    (i == 0 ? report.first_run_s : report.repeat_s.emplace_back()) = passed(start);
  }
  set_phase("saving");
  if (!json) print(text(o, manifest, report));
  if (!o.out.empty()) {
    const NoInterrupts hold(o.out);
    write_tensors(o.out, report.outputs);
  }
  if (json) print_json(document(o, manifest, report));
  if (!json && !o.out.empty()) print(fmt::format("saved {}\n", o.out));
  return kOk;
}

}  // namespace tpubridge::tools
