// From trace to values: everything that is live and pending in a lane of a device becomes one program, and
// runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tpubridge/trace/graph.h"

namespace tpubridge::exec {

// Computes every live value of the device that this thread traced (and threads that ended), and the `wanted`
// ones (which may be computed already: then nothing runs for them). What only other threads want stays
// pending. Returns when the program is queued; what goes wrong later is thrown by whoever reads a result.
//
// The mutex is let go while XLA compiles, by the caller too: what the caller looked at before may have
// changed.
//
// Where the program cannot be compiled or started (exec/failure.cc):
// - Too little memory, a deadline, a forbidden compile: everything stays pending and can be tried again.
// - Anything else: parts that have nothing to do with each other are computed each by itself. Those that fail
//   keep their error for whoever reads them.
// In both cases the `wanted` values are what counts: it throws their error, or returns where they are there.
void materialise(int device, const std::vector<trace::Value>& wanted, std::string_view reason);

// The same for these values alone, and what they need.
void materialise_only(const std::vector<trace::Value>& wanted, std::string_view reason);

// The same value, computed by a program of its own: the trace stays as it is.
[[nodiscard]] trace::Value compute_aside(const trace::Value& value);

// Called after each traced op: materialises by itself where the lane has grown past the limit, or at every
// op in eager mode.
void after_op(int device);

// Who says whether results must be the same bits at every run (torch's deterministic mode). It is part of
// what a program is: on a GPU such programs are compiled without atomic additions.
void set_deterministic_source(bool (*ask)());

[[nodiscard]] int64_t graph_limit();
int64_t set_graph_limit(int64_t ops);  // returns the old one
[[nodiscard]] bool eager();
bool set_eager(bool on);  // returns the old one

// While one lives on some thread, a compile anywhere in the process throws CompilationError.
class ExpectNoCompile {
 public:
  ExpectNoCompile();
  ~ExpectNoCompile();
  ExpectNoCompile(const ExpectNoCompile&) = delete;
  ExpectNoCompile& operator=(const ExpectNoCompile&) = delete;
};

}  // namespace tpubridge::exec
