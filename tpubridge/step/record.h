// A call of a step, recorded: through what each input of its program was reached, and where the results go.
#pragma once

#include "tpubridge/device/recording.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/step/closure.h"
#include "tpubridge/step/gradients.h"
#include "tpubridge/step/modules.h"
#include "tpubridge/step/optimizer_watch.h"
#include "tpubridge/step/runner.h"
#include "tpubridge/trace/outline.h"

namespace tpubridge::step {

using namespace device;

// Elements of the host: a part of an argument, or of a tensor from outside.
struct HostSource {
  std::optional<size_t> argument;
  WeakStorage storage = no_storage();  // else
  c10::StorageImpl* identity = nullptr;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  // in an argument: from where it begins
  c10::ScalarType dtype = c10::ScalarType::Float;

  // Undefined where it is gone.
  [[nodiscard]] at::Tensor get(const std::vector<at::Tensor>& arguments) const;
  [[nodiscard]] bool same(const HostSource& other) const;
};

// Where a value that the program needs (or passes on) is found at the next call.
struct Source {
  enum class Kind { argument, captured, gradient, host, constant };
  Kind kind = Kind::captured;
  size_t argument = 0;                              // argument; gradient: which slot
  WeakStorage storage = no_storage();               // captured
  Storage* identity = nullptr;                      // the storage of this call, to compare
  std::shared_ptr<const trace::Geometry> geometry;  // of the storage's value
  const Shape* shape = nullptr;                     // interned
  HostSource host;
  std::vector<int64_t> sizes;                      // host: what it is expanded to
  c10::ScalarType dtype = c10::ScalarType::Float;  // and converted
  trace::Value value;                              // constant
  at::Tensor content;                              // the same on the host, to compare

  [[nodiscard]] bool same(const Source& other) const;
};

// A storage after the call: result `from` of the program, or a source passed through.
struct Target {
  enum class Kind { argument, captured, gradient, fresh };
  Kind kind = Kind::captured;
  size_t argument = 0;                 // argument; gradient: which slot
  WeakStorage storage = no_storage();  // captured
  Storage* identity = nullptr;
  bool is_root = true;
  size_t from = 0;  // root or source
  std::shared_ptr<const trace::Geometry> geometry;
  size_t bytes = 0;

  [[nodiscard]] bool same(const Target& other) const;
};

// A tensor that the step gives: a view of a storage.
struct Given {
  enum class Kind { undefined, target, source };
  Kind kind = Kind::undefined;
  size_t from = 0;  // the target, or the source (unchanged storage) it looks at
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool operator==(const Given&) const = default;
};

// The gradient of a variable, before and after.
struct GradientSlot {
  enum class Start { undefined, defined, any };  // what the call must find; any: it throws it away unseen
  enum class End { same, cleared, assigned };
  Variable variable;
  Start start = Start::any;
  End end = End::same;
  TensorFacts facts;                 // of the one that it must find
  size_t bytes = 0;                  // of its storage
  WeakStorage found = no_storage();  // the one that it found
  Given given;                       // assigned: the new one
  bool requires_grad = false;        // of the new one
  uint32_t version = 0;              // of the new one; same: what is added to it
  bool late = false;                 // only its end is known

  [[nodiscard]] bool same(const GradientSlot& other) const;
};

// A tensor from outside that ops were given.
struct Captured {
  WeakTensor tensor = no_tensor();
  c10::TensorImpl* identity = nullptr;
  TensorFacts facts;
  uint32_t written = 0;  // what the call adds to its version
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

struct FedNumber {
  std::function<double()> ask;
  HostSource host;  // where there is no function
};

struct Recorded {
  trace::Outline outline;  // of the program
  int device = 0;
  std::shared_ptr<const exec::Compiled> compiled;
  std::vector<Source> sources;  // the first ones are the leaves of the graph, in order
  size_t leaves = 0;
  std::vector<bool> split;              // per leaf; empty: on one device
  std::vector<NumberSource> numbers;    // in the order of the graph
  std::vector<trace::Number> loose;     // constants of the graph that its program takes as inputs, after them
  std::vector<trace::SpecPtr> results;  // of the roots: as data
  std::vector<Target> targets;
  std::vector<Given> returned;
  std::vector<GradientSlot> slots;
  std::vector<Captured> captured;
  std::vector<uint32_t> argument_writes;  // what is added to the versions of arguments
  std::vector<Drawing> draws;
  std::vector<FedNumber> fed;  // numbers that are asked for at every call
  std::vector<Recording::Watched> watched;
  std::vector<FollowedStep> optimizers;
  std::vector<OptionsSeen> options;
  // A storage of an argument (or of a gradient) may be another at the next call only if it was another in a
  // recorded one: else the call may have reached it by another way too, which would not change with it.
  std::vector<WeakStorage> argument_storages;
  std::vector<const c10::StorageImpl*> argument_identities;  // of these
  std::vector<bool> argument_varies, slot_varies;
  std::vector<ModuleImage> modules;
  std::vector<Look> looks;  // at what the function captures, and at those of steps inside of it
  std::string trouble;      // not empty: it cannot be replayed, and why
};

// Tensors that a recorded call may not look at, but takes or hands through.
void touch_all(Recording& r, const std::vector<at::Tensor>& tensors);

// What ends a recorded call.
struct Ending {
  Runner* runner = nullptr;  // none: the program is that of one device
  bool only_compile = false;
};

// A call that ran under a recording, until it has ended.
struct Ended {
  Recorded recorded;
  trace::Graph graph;
};
// Works out how it can be done again. Under exec's mutex, as long as the result is used.
// `gradients_matter`: it may clear or look for gradients, though none was seen.
[[nodiscard]] Ended bind_recording(Recording& r, const std::vector<at::Tensor>& arguments,
                                   const std::vector<at::Tensor>& returned, const GradientsBefore& gradients,
                                   const OptimizerWatches& optimizers, bool gradients_matter);
// Computes what the call left pending. Where it only compiles, or throws, the recording can be undone.
void compute(Recording& r, Ended& ended, Ending ending);
// Why the later of two calls cannot stand for the next; empty where it can. What both together prove is
// noted in `now`.
[[nodiscard]] std::string difference(const Recorded& before, Recorded& now);

}  // namespace tpubridge::step
