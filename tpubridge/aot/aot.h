// Compiles a StableHLO program for a TPU that is not here, with Google's own compiler (libtpu), and tells
// whether it fits and how fast it can go.
//
//   FitResult r = aot::fit({.program = read_file("step.mlir"), .tpu = "v5e"});
//   if (r.verdict == aot::Verdict::fits) …
//
// libtpu runs in a child process (tpubridge-aot), never in this one: what the compiler says, and also its
// death, its hanging and a program too large for the HBM, are results. Exceptions are for wrong use:
// ArgumentError (no such TPU, more devices than the slice has), PluginError (no child program, no libtpu, or
// one that cannot be loaded). All functions may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"

namespace tpubridge::aot {

struct FitRequest {
  std::string program;               // StableHLO, text or bytecode
  std::string tpu;                   // "v5e", "v5e:2x2", "v7", …: see generations.h
  int replicas = 1, partitions = 1;  // how many copies, and into how many parts its shardings split it
  int slices = 1;                    // so many of them, with the data centre's network between them
  bool shardy = false;               // its shardings are Shardy's (sdy.sharding)
  std::map<std::string, std::variant<std::string, bool, int64_t, double>> xla_options = {};
  std::chrono::milliseconds deadline{0};  // 0: none
  Path executable = {};                   // where to write the compiled program; empty: nowhere
};

enum class Verdict {
  fits,
  does_not_fit,   // the HBM is too small
  compile_error,  // the compiler refuses the program, its options or the slice
  crashed,        // the compiler died, or did not answer
  timed_out,      // it was ended at the deadline
  cancelled,
};
[[nodiscard]] std::string_view to_string(Verdict verdict);  // "fits", "does not fit", …

// Operations of one kind that move data between devices.
struct Collective {
  std::string kind;   // "all-reduce", …
  int64_t count = 0;  // in the text of the program: one in a loop counts once
  int64_t bytes = 0;  // of their results, on one device
  bool operator==(const Collective&) const = default;
};

// Bytes and FLOPs are those of one device. What the compiler did not tell is 0 or empty.
struct FitResult {
  Verdict verdict = Verdict::crashed;
  std::string tpu;          // "v5e:1x1": the slice, in full
  std::string device_kind;  // "TPU v5 lite"
  int chips = 0, devices = 0;

  int64_t hbm_bytes = 0;  // what a program may use
  int64_t needed =
      0;  // what this one does, code included; where it does not compile, as the compiler rounds it
  int64_t arguments = 0, outputs = 0, temporaries = 0, aliased = 0, code = 0, peak = 0;

  double flops = 0, bytes_accessed = 0;   // of one run
  std::optional<double> optimal_seconds;  // of one run, by the compiler's own estimate
  int unestimated = 0;                    // ops it cannot estimate: optimal_seconds is the time of the others
  double peak_flops = 0;                  // what the device can do in a second, in bf16

  std::vector<Collective> collectives;  // of a program in several parts

  double compile_seconds = 0;
  Path executable;            // the compiled program, where one was asked for
  std::string message, hint;  // what went wrong, in the compiler's words, and what to do
  std::string xla_code;       // XLA's own number for it ("E1000")
  Code status = Code::ok;

  [[nodiscard]] std::optional<double> utilization() const;  // share of peak_flops by that estimate
};

enum class Phase { started, finished };

struct FitControl {
  int workers = 0;  // compiles at once; 0: as many as there are cores
  const std::atomic<bool>* cancel =
      nullptr;  // once true, the children are killed and nothing more is started
  // Called from the threads that wait for the children, one call at a time; must not throw.
  std::function<void(size_t index, Phase phase, const FitResult& result)> progress = {};
};

[[nodiscard]] FitResult fit(const FitRequest& request, const FitControl& control = {});
// The results stand in the order of the requests.
[[nodiscard]] std::vector<FitResult> fit(std::span<const FitRequest> requests,
                                         const FitControl& control = {});

// The program tpubridge-aot: $TPUBRIDGE_AOT_CHILD, beside this library (../bin), beside the running program,
// or where it was built. Throws PluginError that says how to get it.
[[nodiscard]] Path child_program();
// $TPUBRIDGE_LIBTPU, $TPU_LIBRARY_PATH, what the build found, or an installed wheel. Throws PluginError.
[[nodiscard]] Path libtpu_library();
// The command that runs the child: itself, or qemu in front of it where it is built for another machine.
// Throws PluginError where qemu is missing.
[[nodiscard]] std::vector<std::string> child_command(const Path& child);

}  // namespace tpubridge::aot
