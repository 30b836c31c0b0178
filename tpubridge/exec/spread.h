// Programs over the devices of a grid: a graph that reads a value whose parts lie there, or that lays one out
// so, is split by XLA's partitioner (Shardy). All under exec::mutex().
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/trace/graph.h"

namespace tpubridge::exec {

// How the values of a program lie. What is on one device is given to it on every one.
struct Spreading {
  GridPtr grid;
  std::vector<Layout> leaves;
  std::vector<Layout> results = {};  // known when it is compiled
};

// Null where the graph has to do with no grid. Where it has to do with several, with the first: values of
// another are gathered.
[[nodiscard]] std::shared_ptr<const Spreading> spreading_of(const trace::Graph& graph);
[[nodiscard]] Mode mode_over(const Spreading& s);

// The numbers that a program for a graph takes.
struct Taken {
  std::vector<trace::Loose> inputs = {};
  trace::SharedNumbers shared = {};
  bool some_differed = false;  // of those that an earlier program shared
};
// A program that takes loose arguments as inputs is known by its text and by what these are.
[[nodiscard]] Mode with_inputs(Mode mode, const std::vector<trace::Loose>& inputs);
// The same program where other numbers share an input, or none did.
[[nodiscard]] std::shared_ptr<const Compiled> sharing(std::shared_ptr<const Compiled> known,
                                                      const Taken& taken);

[[nodiscard]] Ready compile_over(const trace::Graph& graph, const Spreading& plan, const Mode& family_mode,
                                 Taken taken, std::string_view reason);

// What a run over several devices gives: the first device's results, and the rest of each.
struct Results {
  std::vector<pjrt::Buffer> first;
  std::vector<Spread> rest;  // empty: the program is one of one device
};
// `numbers`: the packs, each on every place of the grid.
[[nodiscard]] Results run_over(const Compiled& compiled, std::span<const GivenLeaf> leaves,
                               std::span<const std::vector<pjrt::Buffer>* const> numbers,
                               std::span<const Shape* const> results, const std::vector<int64_t>& keep);
// A pack of numbers on every place.
[[nodiscard]] std::vector<pjrt::Buffer> on_every_place(const pjrt::HostArray& array, const Grid& grid);

// Whether this data can be given to a program as this leaf of it: it lies so, or on one device.
[[nodiscard]] bool lies_so(const BufferData& data, const Spreading* plan, size_t leaf);

}  // namespace tpubridge::exec
