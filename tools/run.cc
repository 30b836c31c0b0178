// `tpubridge run`: compiles a StableHLO program, runs it, tells and saves what comes out. Models of torch are
// handed over to the program tpubridge-model beside this one.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/hand_over.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/picture.h"
#include "tools/program_file.h"
#include "tools/run_inputs.h"
#include "tools/run_package.h"
#include "tools/run_report.h"
#include "tools/run_target.h"
#include "tools/session.h"
#include "tools/untrusted.h"
#include "tpubridge/base/hash.h"
#include "tpubridge/base/limits.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/base/torch_file.h"
#include "tpubridge/cache/programs.h"
#include "tpubridge/package/package.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge::tools {
namespace {

struct RunOptions {
  std::string file, plugin, out, show;
  InputOptions inputs;
  std::optional<int> devices, replicas, partitions;
  int repeat = 0;
  bool trusted = false, check = false, no_compile = false, no_executable = false;
  size_t program = 0;  // of a package, for the child
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

using Buffers = std::vector<std::vector<pjrt::Buffer>>;  // a list a device

// A compiled program with its arguments on the devices.
class Runner {
 public:
  Runner(const pjrt::Client& client, const pjrt::LoadedExecutable& program,
         std::vector<std::vector<HostTensor>> inputs)
      : client_(client), program_(program), inputs_(std::move(inputs)) {
    for (const auto& list : inputs_) buffers_.emplace_back().reserve(list.size());
    for (size_t d = 0; d < inputs_.size(); ++d)
      for (const HostTensor& tensor : inputs_[d]) buffers_[d].push_back(upload(tensor, d));
  }

  // Runs once and waits for all outputs; how long it took.
  double run(Buffers& outputs) {
    restore_donated();
    std::vector<std::vector<const pjrt::Buffer*>> arguments;
    for (const auto& list : buffers_) {
      auto& pointers = arguments.emplace_back();
      for (const auto& buffer : list) pointers.push_back(&buffer);
    }
    outputs.clear();
    const auto start = std::chrono::steady_clock::now();
    outputs = program_.execute_all(arguments);
    for (const auto& list : outputs)
      for (const auto& buffer : list) buffer.wait();
    return seconds_since(start);
  }

 private:
  pjrt::Buffer upload(const HostTensor& tensor, size_t device) const {
    return client_.to_device({tensor.data.get(), tensor.shape, {}}, *program_.devices()[device],
                             pjrt::HostSemantics::copy);
  }

  // A program may take arguments for good: each run needs them anew.
  void restore_donated() {
    for (size_t d = 0; d < buffers_.size(); ++d)
      for (size_t i = 0; i < buffers_[d].size(); ++i)
        if (buffers_[d][i].deleted()) buffers_[d][i] = upload(inputs_[d][i], d), buffers_[d][i].wait();
  }

  const pjrt::Client& client_;
  const pjrt::LoadedExecutable& program_;
  std::vector<std::vector<HostTensor>> inputs_;
  Buffers buffers_;
};

cache::Found compile(const pjrt::Client& client, const ProgramFile& program) {
  try {
    return cache::ProgramCache(client).get({program.code}, compile_options(program));
  } catch (const Error& e) {
    if (const auto located = locate(e, program)) std::rethrow_exception(located);
    throw;
  }
}

std::vector<HostTensor> fetch(const Buffers& outputs) {
  std::vector<HostTensor> out;
  const bool many = outputs.size() > 1;
  for (size_t i = 0; i < outputs.at(0).size(); ++i)
    for (size_t d = 0; d < outputs.size(); ++d) {
      const pjrt::Buffer& buffer = outputs[d][i];
      const auto bytes = static_cast<size_t>(buffer.shape().bytes());
      const auto data = aligned_bytes(bytes);
      buffer.to_host(data.get(), bytes);
      out.push_back({many ? fmt::format("out{}.{}", i, d) : fmt::format("out{}", i), buffer.shape(), data});
    }
  return out;
}

void save(const RunOptions& options, RunReport& report) {
  if (!options.out.empty()) {
    const NoInterrupts hold(options.out);
    write_tensors(options.out, report.outputs);
    report.saved_to = options.out;
  }
  if (report.picture_file.empty()) return;
  const NoInterrupts hold(report.picture_file);
  write_file(report.picture_file, pgm_picture(picture_of(report.outputs)));
}

void check_options(const RunOptions& options) {
  if (!options.out.empty()) check_target(options.out, {".safetensors", ".npy"});
  if (!options.show.empty() && options.show != "ascii") check_target(options.show, {".pgm"});
}

ProgramFile read(const RunOptions& options) {
  ProgramFile program = read_program(options.file);
  program.replicas = options.replicas.value_or(program.replicas);
  program.partitions = options.partitions.value_or(program.partitions);
  return program;
}

std::shared_ptr<pjrt::Client> open(const RunOptions& options, const ProgramFile& program) {
  const int needed = program.replicas * program.partitions;
  if (options.devices && *options.devices < needed)
    throw ArgumentError(
        fmt::format("{} needs {} ({} × {}), --devices gives {}", options.file,
                    human_count(needed, "device", "devices"),
                    human_count(program.replicas, "replica", "replicas"),
                    human_count(program.partitions, "partition", "partitions"), *options.devices),
        {{"file", options.file}}, fmt::format("Use --devices {}.", needed));
  set_phase("opening the plugin");
  return open_client(options.plugin, options.devices || needed == 1 ? options.devices : needed);
}

RunReport execute(const RunOptions& options, const ProgramFile& program, const pjrt::Client& client) {
  RunReport report;
  set_phase("compiling");
  const cache::Found found = compile(client, program);
  const pjrt::LoadedExecutable& compiled = *found.program;
  report.compile_s = found.seconds;
  report.from_disk = found.source == cache::Source::disk;
  if (!compiled.signature())
    throw UnsupportedError("this plugin does not tell what the program takes",
                           {{"plugin", client.plugin().path()}});

  report.file = options.file;
  report.plugin = client.plugin().path();
  report.platform = client.platform_name();
  report.device_kind = compiled.devices().at(0)->info().kind;
  for (const pjrt::Device* d : compiled.devices()) report.devices.push_back(d->id());
  report.replicas = program.replicas;
  report.partitions = program.partitions;
  report.memory = compiled.info().memory();
  report.parameters = compiled.signature()->parameters;

  set_phase("running");
  const auto devices = static_cast<int>(compiled.devices().size());
  Runner runner(client, compiled, gather_inputs(report.parameters, devices, options.inputs));
  Buffers outputs;
  report.first_run_s = runner.run(outputs);
  for (int i = 0; i < options.repeat; ++i) report.repeat_s.push_back(runner.run(outputs));
  report.outputs = fetch(outputs);
  return report;
}

// The options that choose where it runs, for the child.
std::vector<std::string> where(const RunOptions& options) {
  std::vector<std::string> out;
  if (!options.plugin.empty()) out = {"--plugin", options.plugin};
  for (const auto& [name, value] : {std::pair("--devices", options.devices),
                                    {"--replicas", options.replicas},
                                    {"--partitions", options.partitions}})
    if (value) out.insert(out.end(), {name, std::to_string(*value)});
  return out;
}

// The child's part: the program is compiled, and kept on disk.
int check(const RunOptions& options) {
  limit_this_process();
  const ProgramFile program = read(options);
  const bool confined = pjrt::is_cpu_plugin(pjrt::choose(options.plugin));
  if (confined) confine_files();
  const auto client = open(options, program);
  if (confined) confine_calls();
  const cache::Found found = compile(*client, program);
  refuse_waiting(program.path, *found.program);
  print_checked(hash128(program.code).hex(),
                found.source == cache::Source::disk ? std::nullopt : std::optional(found.seconds));
  return kOk;
}

// Told by what is there, not by its name: an archive, or a folder with a configuration.
bool is_model(const std::string& file) {
  std::error_code failed;
  if (std::filesystem::is_directory(file, failed))
    return std::filesystem::exists(Path(file) / "config.json", failed);
  return is_zip(file);
}

bool is_packed(const std::string& file) {
  std::error_code failed;
  return std::filesystem::is_regular_file(file, failed) && package::is_package(file);
}

using GivenOption = std::pair<bool, const char*>;

void refuse_options(const RunOptions& o, std::string_view what, std::initializer_list<GivenOption> options) {
  for (const auto& [given, name] : options)
    if (given)
      throw ArgumentError(fmt::format("{} {}", name, what), {{"file", o.file}}, "Leave it out.",
                          Code::invalid_argument);
}

// Options that make no sense where the program and its devices are given by the file.
void refuse_program_options(const RunOptions& o, const std::string& kind) {
  refuse_options(o, fmt::format("is for StableHLO programs, and {} is a {}", o.file, kind),
                 {{o.inputs.random_seed.has_value(), "--random"},
                  {o.replicas.has_value(), "--replicas"},
                  {o.partitions.has_value(), "--partitions"},
                  {!o.show.empty(), "--show"}});
}

void refuse_package_options(const RunOptions& o) {
  refuse_options(o, fmt::format("is for packages, which {} is not", o.file),
                 {{o.no_compile, "--no-compile"}, {o.no_executable, "--no-executable"}});
}

int run_model(const RunOptions& o, const Invocation& call) {
  refuse_program_options(o, "model");
  refuse_options(o, fmt::format("is for StableHLO programs, and {} is a model", o.file),
                 {{o.devices.has_value(), "--devices"}, {o.trusted, "--trusted"}});
  refuse_package_options(o);
  return hand_over(call, "tpubridge-model", "run models of torch");
}

int run_packed(const RunOptions& o, bool json) {
  refuse_program_options(o, "package");
  const PackageRunOptions package = {o.file,   o.plugin,     o.out,           o.inputs.files, o.devices,
                                     o.repeat, o.no_compile, o.no_executable, o.trusted};
  return o.check ? check_package(package, o.program) : run_package(package, json);
}

int run(const RunOptions& options, bool json) {
  if (options.check) return check(options);
  refuse_package_options(options);
  check_options(options);
  const ProgramFile program = read(options);
  Check checked;
  if (!options.trusted) {
    set_phase("compiling");
    refuse_waiting(program.path, program.code, program.text);
    checked = check_in_child({program.path, hash128(program.code).hex()}, pjrt::choose(options.plugin).path,
                             where(options), json);
    if (checked.code != kOk) return checked.code;
  }
  const auto client = open(options, program);
  RunReport report = execute(options, program, *client);
  if (checked.compile_s) report.compile_s = *checked.compile_s, report.from_disk = false;

  set_phase("saving");
  if (options.show == "ascii")
    report.picture = ascii_picture(picture_of(report.outputs), terminal_columns());
  else
    report.picture_file = options.show;
  if (!json) print(to_text(report));
  save(options, report);
  if (json) print_json(to_json(report));
  for (const std::string& file : {report.saved_to, report.picture_file})
    if (!json && !file.empty()) print(fmt::format("saved {}\n", file));
  return kOk;
}

}  // namespace

void add_run(CLI::App& root, Invocation& call) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* app = root.add_subcommand("run", "Run a StableHLO program or a model and tell what comes out");
  app->add_option("FILE", o->file,
                  "StableHLO: MLIR text, bytecode, or a file of jax.export; a package (.tbp); a model of "
                  "torch.export (.pt2), or a Hugging Face folder")
      ->required();
  app->add_option(
         "--in", o->inputs.files,
         "Arguments: .safetensors with arg0, arg1, … (or a model's own names), or .npy files in their order")
      ->type_name("FILE");
  app->add_option("--random", o->inputs.random_seed, "Fill arguments that no file gives with random numbers")
      ->type_name("SEED");
  app->add_option("--out", o->out,
                  "Save the outputs as out0, out1, … (.safetensors, or .npy for a single one)")
      ->type_name("FILE");
  add_plugin(*app, o->plugin, o->devices);
  app->add_option("--replicas", o->replicas, "Replicas of the program (default: what its module says)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app->add_option("--partitions", o->partitions, "Partitions of the program (default: what its module says)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app->add_option("--repeat", o->repeat, "Run N more times and tell the median")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  app->add_option("--show", o->show, "Show a 2-D output as a picture: ascii, or a file .pgm")
      ->type_name("ascii|FILE");
  app->add_flag("--trusted", o->trusted, "The program is known: do not compile it in a child process first");
  app->add_flag("--no-compile", o->no_compile,
                "Of a package: an error where no executable fits this machine");
  app->add_flag("--no-executable", o->no_executable,
                "Of a package: compile its StableHLO, load no machine code");
  app->add_flag("--check", o->check, "The child's part: compile it, and keep it on disk")->group("");
  app->add_option("--program", o->program, "The child's part: which one of a package")->group("");
  add_json(*app, call);
  app->footer(
      "Examples:\n"
      "  tpubridge run examples/programs/mandelbrot.mlir --show ascii --repeat 10\n"
      "  tpubridge run model.mlir --random 0 --repeat 20\n"
      "  tpubridge run model.mlir --in x.npy weights.npy --out y.safetensors\n"
      "  tpubridge run model.pt2 --in x.safetensors --out y.safetensors\n"
      "  tpubridge run model.tbp --in x.safetensors --out y.safetensors\n"
      "  tpubridge run sharded.mlir --in parts.safetensors --devices 4   (arg0.0 to arg0.3: one for each "
      "device)");
  app->callback([o, &call] {
    call.quiet = o->check;
    call.body = [o, &call] {
      if (is_packed(o->file)) return run_packed(*o, call.json);
      if (o->check) return run(*o, call.json);
      return is_model(o->file) ? run_model(*o, call) : run(*o, call.json);
    };
  });
}

}  // namespace tpubridge::tools
