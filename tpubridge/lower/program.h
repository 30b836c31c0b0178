// A graph as one StableHLO program: its text, its signature, and the numbers that go in beside the data.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/hlo/sharding.h"
#include "tpubridge/lower/platform.h"
#include "tpubridge/trace/family.h"
#include "tpubridge/trace/shared_numbers.h"

namespace tpubridge::lower {

// Whether the row can lower such a call: rows do not repeat what the builder checks (element types, ranks).
[[nodiscard]] bool can_lower(const trace::SpecPtr& spec, std::span<const Shape> operands);
// The same for an op of the user's own: throws what is wrong.
void check_custom(const trace::SpecPtr& spec, std::span<const Shape> operands);
// Whether a program of it may fail when it runs, by an op that is code of the user's own.
[[nodiscard]] bool program_may_fail(const trace::Graph& graph);

// The parameters are the leaves of the graph, then one vector of numbers for each element type that occurs;
// the results are its roots. `inputs`: loose arguments that are numbers too, after those of the graph.
// `shared`: numbers of the graph that are one input.
struct Donation {
  int64_t leaf = 0;                  // the program may use its memory,
  std::optional<int64_t> root = {};  // for this root where it is known which one takes its place
};
// One program over several devices, split by XLA (in Shardy's words). Numbers are on every device.
struct Partitions {
  std::optional<hlo::Mesh> mesh = {};  // none: a program of one device
  std::vector<hlo::Sharding> leaves = {};
  std::vector<std::optional<hlo::Sharding>> results = {};  // where none is given, XLA chooses
};
[[nodiscard]] std::string program(const trace::Graph& graph, const std::vector<Donation>& donated,
                                  Platform platform = Platform::any, const Partitions& partitions = {},
                                  const std::vector<trace::Loose>& inputs = {},
                                  const trace::SharedNumbers& shared = {});
// Whether a program that takes this loose argument as an input also computes it for this value of it.
[[nodiscard]] bool can_be_input(const trace::Graph& graph, const trace::Loose& loose);

struct NumberPack {
  Shape shape;
  std::vector<std::byte> bytes;
};
[[nodiscard]] std::vector<NumberPack> number_packs(const trace::Graph& graph,
                                                   const std::vector<trace::Loose>& inputs = {},
                                                   const trace::SharedNumbers& shared = {});
// The same for the numbers of a graph with this structure, in its order.
[[nodiscard]] std::vector<NumberPack> number_packs(std::span<const trace::Number> numbers,
                                                   const trace::SharedNumbers& shared = {});

}  // namespace tpubridge::lower
