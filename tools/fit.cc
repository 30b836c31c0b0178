// `tpubridge fit`: does a program compile for a TPU, does it fit, how fast can it go. No TPU is needed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/finite.h"
#include "tools/fit/plan_report.h"
#include "tools/fit/watch.h"
#include "tools/fit_report.h"
#include "tools/output.h"
#include "tools/program_file.h"
#include "tpubridge/aot/aot.h"
#include "tpubridge/aot/generations.h"
#include "tpubridge/base/text.h"

namespace tpubridge::tools {
namespace {

struct FitOptions {
  std::string file, save;
  std::vector<std::string> tpus;
  bool all = false;
  double timeout = 3600;
  int jobs = 0;
  std::optional<int> replicas, partitions;
  // Of a model.
  std::string train, dtype, weights, batch, mesh, prices, html;
  std::vector<std::string> sizes;
  std::optional<int64_t> length;
  bool fresh = false;
};

std::vector<std::string> targets(const FitOptions& options) {
  if (options.all == !options.tpus.empty())
    throw ArgumentError(options.all ? "--all and --tpu exclude each other" : "no TPU is named", {},
                        "Give --tpu v5e:2x2, several with commas between them, or --all");
  if (!options.all) return options.tpus;
  std::vector<std::string> out;
  for (const auto& g : aot::generations()) out.emplace_back(g.name);
  return out;
}

std::vector<aot::FitRequest> requests(const FitOptions& options, const ProgramFile& program) {
  std::vector<aot::FitRequest> out;
  const int replicas = options.replicas.value_or(program.replicas);
  const int partitions = options.partitions.value_or(program.partitions);
  if (!options.save.empty()) make_folder(options.save);
  for (const std::string& tpu : targets(options)) {
    aot::FitRequest r{.program = program.code, .tpu = tpu, .replicas = replicas, .partitions = partitions};
    r.shardy = partitions > 1 && program.shardy;
    r.deadline = std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1000));
    if (!options.save.empty()) {
      std::string slice = aot::parse_slice(tpu).name();
      std::ranges::replace(slice, ':', '-');
      r.executable = Path(options.save) / fmt::format("{}-{}.tpu", program.path.stem().string(), slice);
    }
    out.push_back(std::move(r));
  }
  return out;
}

bool is_model(const std::string& file) {
  std::error_code none;
  return std::filesystem::is_directory(file, none) || Path(file).extension() == ".pt2";
}

[[noreturn]] void refuse_option(const char* option, bool model) {
  throw ArgumentError(
      fmt::format("{} is for {}", option, model ? "models (a .pt2 file, a folder)" : "StableHLO programs"),
      {{"option", option}}, model ? "" : "A model says by itself what it is; --mesh splits it.",
      Code::invalid_argument);
}

// Options of the other kind of file.
void check_kind(const FitOptions& o, bool model) {
  if (model) {
    if (!o.save.empty()) refuse_option("--save", false);
    if (o.replicas) refuse_option("--replicas", false);
    if (o.partitions) refuse_option("--partitions", false);
    return;
  }
  const std::pair<const char*, bool> given[] = {
      {"--train", !o.train.empty()}, {"--dtype", !o.dtype.empty()}, {"--weights", !o.weights.empty()},
      {"--batch", !o.batch.empty()}, {"--mesh", !o.mesh.empty()},   {"--prices", !o.prices.empty()},
      {"--html", !o.html.empty()},   {"--size", !o.sizes.empty()},  {"--length", o.length.has_value()},
      {"--fresh", o.fresh}};
  for (const auto& [option, there] : given)
    if (there) refuse_option(option, true);
}

int64_t whole_number(const char* option, const std::string& whole, std::string_view text) {
  int64_t n = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (failed != std::errc() || end != text.data() + text.size() || n < 1 || n > int64_t{1} << 40)
    throw ArgumentError(fmt::format("{} {}: {} is no whole number from 1", option, quote(whole), quote(text)),
                        {{"option", option}}, "", Code::invalid_argument);
  return n;
}

// "data=4,model=4"
PlanAxes parse_axes(const char* option, const std::string& text) {
  PlanAxes out;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size()), equals = rest.substr(0, comma).find('=');
    if (equals == rest.npos || equals == 0)
      throw ArgumentError(
          fmt::format("{} {}: write NAME=N, several with commas between them", option, quote(text)),
          {{"option", option}}, "", Code::invalid_argument);
    out.emplace_back(std::string(rest.substr(0, equals)),
                     whole_number(option, text, rest.substr(equals + 1, comma - equals - 1)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return out;
}

FitModelOptions model_options(const FitOptions& o) {
  FitModelOptions out;
  out.plan = {.model = o.file,
              .train = o.train,
              .dtype = o.dtype,
              .weights = o.weights,
              .length = o.length,
              .sizes = {},
              .mesh = parse_axes("--mesh", o.mesh),
              .batches = {}};
  for (const auto& size : o.sizes)
    for (auto& one : parse_axes("--size", size)) out.plan.sizes.push_back(std::move(one));
  if (!o.train.empty() && !o.weights.empty())
    throw ArgumentError("weights in few bits are frozen: they cannot be trained", {{"option", "--weights"}},
                        "Leave --train or --weights out.", Code::invalid_argument);
  out.any_batch = o.batch == "auto";
  if (!out.any_batch && !o.batch.empty())
    for (std::string_view rest = o.batch; !rest.empty();) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const int64_t n = whole_number("--batch", o.batch, rest.substr(0, comma));
      if (std::ranges::find(out.plan.batches, n) == out.plan.batches.end()) out.plan.batches.push_back(n);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  out.tpus = targets(o);
  out.timeout = o.timeout;
  out.jobs = o.jobs;
  out.fresh = o.fresh;
  return out;
}

int run_model(const FitOptions& options, bool json) {
  check_kind(options, true);
  const Prices prices = options.prices.empty() ? Prices() : read_prices(options.prices);
  FitModelOptions model = model_options(options);
  model.progress = !json && coloured(stderr);
  const FitPlan plan = fit_model(model);
  if (!options.html.empty()) write_file(options.html, plan_html(plan, prices));
  if (json)
    print_json(plan_json(plan, prices));
  else
    print(plan_table(plan, prices));
  const int signal = CancelOnInterrupt::signal();
  return signal != 0 ? 128 + signal : plan_exit_code(plan);
}

int run(const FitOptions& options, bool json) {
  if (is_model(options.file)) return run_model(options, json);
  check_kind(options, false);
  const ProgramFile program = read_program(options.file);
  const auto wanted = requests(options, program);
  std::vector<aot::FitResult> results;
  {
    const CancelOnInterrupt guard;
    Progress progress(wanted.size(), !json && coloured(stderr));
    aot::FitControl control{.workers = options.jobs, .cancel = &CancelOnInterrupt::cancelled()};
    control.progress = [&](size_t, aot::Phase phase, const aot::FitResult& r) { progress.see(phase, r.tpu); };
    results = aot::fit(wanted, control);
  }
  if (json)
    print_json(fit_json(results, program));
  else
    print(fit_table(results, program));
  const int signal = CancelOnInterrupt::signal();
  return signal != 0 ? 128 + signal : fit_exit_code(results);
}

void add_model_part(CLI::App& app, FitOptions& o) {
  constexpr const char* kModel = "Of a model";
  app.add_option("--train", o.train, "Plan a training step with this optimizer instead of a call")
      ->check(CLI::IsMember({"adamw", "sgd"}))
      ->group(kModel);
  app.add_option("--batch", o.batch,
                 "Samples; several with commas; auto: look for the largest and the fastest")
      ->type_name("N|auto")
      ->group(kModel);
  app.add_option("--length", o.length, "Of each sample: tokens, or the second dimension of the inputs")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->group(kModel);
  app.add_option("--size", o.sizes, "Another open size of an export, by its name: s2=224")
      ->type_name("NAME=N")
      ->group(kModel);
  app.add_option("--dtype", o.dtype, "Type of the weights (default: the model's own)")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->group(kModel);
  app.add_option("--weights", o.weights, "Matrices of a language model in few bits")
      ->check(CLI::IsMember({"int8", "int4"}))
      ->group(kModel);
  app.add_option("--mesh", o.mesh,
                 "Over all devices of the slice: axes data, fsdp, model, as in data=4,model=4")
      ->type_name("AXES")
      ->group(kModel);
  app.add_option("--prices", o.prices, "What a chip costs (docs/fit.md has the form)")
      ->type_name("FILE")
      ->group(kModel);
  app.add_option("--html", o.html, "Write a page with plots")->type_name("FILE")->group(kModel);
  app.add_flag("--fresh", o.fresh, "Compile anew what is known from before")->group(kModel);
}

}  // namespace

void add_fit(CLI::App& root, Invocation& call) {
  auto options = std::make_shared<FitOptions>();
  CLI::App* app = root.add_subcommand(
      "fit", "Compile a model or a program for TPUs that are not here: does it fit, how fast");
  app->add_option("FILE", options->file,
                  "A model of torch.export (.pt2), a Hugging Face folder, or a StableHLO program")
      ->required();
  app->add_option("--tpu", options->tpus, "TPUs with or without topology: v5e, v6e:2x2, v7:2x2x1")
      ->delimiter(',');
  app->add_flag("--all", options->all, "The smallest slice of every generation");
  app->add_option("--timeout", options->timeout, "Seconds for each compile; 0: no limit")
      ->check(CLI::Range(0.0, 1e9))
      ->check(must_be_finite)
      ->capture_default_str();
  app->add_option("--save", options->save, "Folder for the compiled programs");
  app->add_option("--replicas", options->replicas, "Copies of the program (default: as it says itself)");
  app->add_option("--partitions", options->partitions, "Parts that its shardings split it into (the same)");
  app->add_option("--jobs", options->jobs, "Compiles at once; 0: as many as there are cores")
      ->check(CLI::NonNegativeNumber);
  add_model_part(*app, *options);
  add_json(*app, call);
  app->footer(
      "Exit code: 0 it fits everywhere, 2 somewhere it does not, 1 there was an error.\n\n"
      "Examples:\n"
      "  tpubridge fit Llama-3.2-1B --tpu v5e,v6e --batch auto --length 2048 --dtype bf16\n"
      "  tpubridge fit model.pt2 --train adamw --batch 32 --all --html fit.html\n"
      "  tpubridge fit Llama-3.1-8B --train adamw --batch 16 --tpu v5e:4x4 --mesh fsdp=16\n"
      "  tpubridge fit step.mlir --tpu v5e\n"
      "  tpubridge fit step.mlir --tpu v5e:2x2,v6e:2x2 --save compiled\n"
      "  tpubridge fit step.mlir --all --json");
  app->callback([options, &call] { call.body = [options, &call] { return run(*options, call.json); }; });
}

}  // namespace tpubridge::tools
