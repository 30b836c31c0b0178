// `tpubridge fit`: does a program compile for a TPU, does it fit, how fast can it go. No TPU is needed.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tools/commands.h"
#include "tools/finite.h"
#include "tools/fit_report.h"
#include "tools/output.h"
#include "tools/program_file.h"
#include "tpubridge/aot/aot.h"
#include "tpubridge/aot/generations.h"

namespace tpubridge::tools {
namespace {

struct FitOptions {
  std::string file, save;
  std::vector<std::string> tpus;
  bool all = false;
  double timeout = 3600;
  int jobs = 0;
  std::optional<int> replicas, partitions;
};

std::atomic<bool> cancel{false};
std::atomic<int> caught{0};

// While it lives, Ctrl-C and SIGTERM end the children in good order; the second one ends the process.
class CancelOnInterrupt {
 public:
  CancelOnInterrupt() {
    struct sigaction action {};
    action.sa_handler = [](int signal) { caught = signal, cancel = true; };
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &old_int_);
    if (old_int_.sa_handler == SIG_IGN) sigaction(SIGINT, &old_int_, nullptr);  // a shell's background job
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~CancelOnInterrupt() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
  }
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

// One line on a terminal: for what is being compiled, and since when.
class Progress {
 public:
  Progress(size_t total, bool shown) : total_(total) {
    if (shown) ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
  }
  void see(aot::Phase phase, const aot::FitResult& r) {
    const std::lock_guard lock(mutex_);
    if (phase == aot::Phase::started)
      running_.insert(r.tpu);
    else
      running_.erase(r.tpu), ++done_;
  }

 private:
  void tick(const std::stop_token& stop) {
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      std::string names;
      for (const auto& tpu : running_) names += (names.empty() ? "" : ", ") + tpu;
      fmt::print(stderr, "\r\033[Kcompiling for {}: {:.0f} s, {} of {} done", names, seconds, done_, total_);
      std::fflush(stderr);
      wake_.wait_for(lock, stop, std::chrono::milliseconds(500), [] { return false; });
    }
    fmt::print(stderr, "\r\033[K");
  }

  size_t total_, done_ = 0;
  std::set<std::string> running_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread ticker_;  // the last member: it is joined before the others go
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

int run(const FitOptions& options, bool json) {
  const ProgramFile program = read_program(options.file);
  const auto wanted = requests(options, program);
  std::vector<aot::FitResult> results;
  {
    const CancelOnInterrupt guard;
    Progress progress(wanted.size(), !json && coloured(stderr));
    aot::FitControl control{.workers = options.jobs, .cancel = &cancel};
    control.progress = [&](size_t, aot::Phase phase, const aot::FitResult& r) { progress.see(phase, r); };
    results = aot::fit(wanted, control);
  }
  if (json)
    print_json(fit_json(results, program));
  else
    print(fit_table(results, program));
  return caught != 0 ? 128 + caught : fit_exit_code(results);
}

}  // namespace

void add_fit(CLI::App& root, Invocation& call) {
  auto options = std::make_shared<FitOptions>();
  CLI::App* app =
      root.add_subcommand("fit", "Compile a program for TPUs that are not here: does it fit, how fast");
  app->add_option("FILE", options->file, "StableHLO program: MLIR text or bytecode")->required();
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
  add_json(*app, call);
  app->footer(
      "Exit code: 0 it fits everywhere, 2 somewhere it does not, 1 there was an error.\n\n"
      "Examples:\n"
      "  tpubridge fit step.mlir --tpu v5e\n"
      "  tpubridge fit step.mlir --tpu v5e:2x2,v6e:2x2 --save compiled\n"
      "  tpubridge fit step.mlir --all --json");
  app->callback([options, &call] { call.body = [options, &call] { return run(*options, call.json); }; });
}

}  // namespace tpubridge::tools
