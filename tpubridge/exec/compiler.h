// The one way from a program's text to something that runs, for programs of one device and of several: the
// options that torch's semantics need, what the user added, expect_no_compile(), and the counters.
// All under exec::mutex().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tpubridge/base/errors.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/exec/sized.h"
#include "tpubridge/lower/program.h"
#include "tpubridge/trace/graph.h"

namespace tpubridge::exec {

// Thrown where a scope forbids compiling: the values stay pending and can be computed later.
class CompileForbidden : public virtual CompilationError {
 public:
  explicit CompileForbidden(const Details& details);
};

// How programs are compiled now. For those of one device: its index.
[[nodiscard]] Mode this_mode(int device);
[[nodiscard]] Mode this_mode(const pjrt::CompileOptions& options);  // those of several
[[nodiscard]] bool compiling_afresh();  // what is known already does not count (CompileScope)

// Adds what this program of the device is compiled with; devices, replicas and partitions are the caller's.
void add_device_options(pjrt::CompileOptions& options, std::string_view program);

// From disk or from the compiler; compiles are counted. Throws CompileForbidden inside expect_no_compile().
[[nodiscard]] cache::Found find_or_compile(const pjrt::Program& program, const pjrt::CompileOptions& options,
                                           std::optional<pjrt::Signature> signature, const Details& what);

// A program, and whether it was compiled just now.
struct Ready {
  std::shared_ptr<const Compiled> program;
  bool fresh = false;
  void count() const;  // that it runs; its compile was counted already
};

// A program over the devices that `options` name, with its text. Kept in memory with the others; also found
// by its structure, where that is given. `donated`: what its text gives away.
[[nodiscard]] Ready program_over(const std::string& text, pjrt::CompileOptions options, const Mode& mode,
                                 const Structure& structure = {}, std::vector<int64_t> donated = {});

// Each donated leaf with the root that takes its place: without that the compiler pairs them by their shapes
// alone, and copies where it guessed wrong.
[[nodiscard]] std::vector<lower::Donation> donations(const trace::Graph& graph,
                                                     const std::vector<int64_t>& donated, int device);
// Of the leaves that a program was compiled to take over, those that somebody can still see: they stay alive.
[[nodiscard]] std::vector<int64_t> still_seen(const trace::Graph& graph, const std::vector<int64_t>& donated);

// Whether a program for it is at hand. Where everything is compiled afresh, none is looked for.
[[nodiscard]] bool is_known(const trace::Graph& graph, int device);

// The program of this graph on one device; nothing runs.
[[nodiscard]] std::shared_ptr<const Compiled> compile_only(const trace::Graph& graph, int device,
                                                           std::string_view reason);

// Collects nothing, saves nothing: the graph as one program, or an error.
std::shared_ptr<const Compiled> run_whole(const trace::Graph& graph, int device, std::string_view reason,
                                          Sizes sizes = Sizes::one);

// The roots of the graph become data: these buffers, one for each, which may be larger than the roots where
// `larger`; `rest`: of each on other devices, where there is any. Gives that data in their order.
std::vector<std::shared_ptr<trace::DeviceData>> resolve(const trace::Graph& graph,
                                                        std::vector<pjrt::Buffer> outputs,
                                                        bool larger = false, std::vector<Spread> rest = {});

}  // namespace tpubridge::exec
