// A call of a step, recorded: where the inputs of its program come from and where the results go.
#pragma once

#include "tpubridge/device/recording.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/step/runner.h"

namespace tpubridge::step {

using namespace device;

// Where a value that the program needs (or passes on) is found at the next call.
struct Source {
  enum class Kind { argument, captured, host_argument, host, constant };
  Kind kind = Kind::captured;
  size_t argument = 0;                              // argument, host_argument
  WeakStorage storage = no_storage();               // captured
  Storage* identity = nullptr;                      // of `storage`, to compare
  std::shared_ptr<const trace::Geometry> geometry;  // of the storage's value
  const Shape* shape = nullptr;                     // interned
  at::Tensor host;                                  // copied at every call: somebody may write to it
  trace::Value value;                               // constant, and what `host` gave last
  uint64_t content = 0;                             // hash of a constant's bytes

  [[nodiscard]] bool same(const Source& other) const;
};

// A storage after the call: result `from` of the program, or a source passed through.
struct Target {
  enum class Kind { argument, captured, fresh };
  Kind kind = Kind::captured;
  size_t argument = 0;
  WeakStorage storage = no_storage();  // captured; fresh: the one of this call, if somebody outside holds it
  Storage* identity = nullptr;
  bool is_root = true;
  size_t from = 0;  // root or source
  std::shared_ptr<const trace::Geometry> geometry;
  size_t bytes = 0;
  bool returned = false;  // a fresh one: every call makes a new storage

  [[nodiscard]] bool same(const Target& other) const;
};

// A tensor that the step returns: a view of a storage.
struct Returned {
  enum class Kind { undefined, target, source };
  Kind kind = Kind::undefined;
  size_t from = 0;  // the target, or the source (unchanged storage) it looks at
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool operator==(const Returned&) const = default;
};

struct NumberSource {
  enum class Kind { constant, seed, offset, optimizer, fed };
  Kind kind = Kind::constant;
  size_t index = 0;  // of the draw, of the optimizers' numbers, or of the recording's fed ones
  trace::Number value;
  std::string user;  // the op that reads it
};

struct Drawing {
  at::Generator generator;
  int64_t elements;
};

struct Recorded {
  std::array<uint64_t, 2> hash{};
  int device = 0;
  std::shared_ptr<const exec::Compiled> compiled;
  std::vector<Source> sources;  // the first ones are the leaves of the graph, in order
  size_t leaves = 0;
  std::vector<bool> split;              // per leaf; empty: on one device
  std::vector<NumberSource> numbers;    // in the order of the graph
  std::vector<trace::SpecPtr> results;  // of the roots: as data
  std::vector<Target> targets;
  std::vector<Returned> returned;
  std::vector<Drawing> draws;
  std::vector<std::function<double()>> fed;  // numbers that are asked for at every call
  std::vector<Recording::Watched> watched;
  std::string trouble;  // not empty: it cannot be replayed, and why
};

// Tensors that a recorded call may not look at, but takes or hands through.
void touch_all(Recording& r, const std::vector<at::Tensor>& tensors);
// What the call left to be computed: the pending values of the storages it wrote, one for each. Under exec's
// mutex.
[[nodiscard]] std::vector<trace::Value> left_pending(const Recording& r);

// What ends a recorded call.
struct Ending {
  Runner* runner = nullptr;  // none: the program is that of one device
  bool only_compile = false;
};
// Ends a recorded call: computes what it left pending, and works out how it can be done again. `perturbed`
// and `plain` are the optimizers' numbers with perturbed and with true options. Where it only compiles, or a
// runner throws, the recording can be undone.
[[nodiscard]] Recorded finish_recording(Recording& r, const std::vector<at::Tensor>& arguments,
                                        const std::vector<at::Tensor>& returned,
                                        const std::vector<double>& perturbed,
                                        const std::vector<double>& plain, Ending ending = {});
// Why the later of two calls cannot stand for the next; empty where it can.
[[nodiscard]] std::string difference(const Recorded& before, const Recorded& now);

}  // namespace tpubridge::step
