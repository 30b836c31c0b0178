#include "tpubridge/exec/spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tpubridge/base/log.h"
#include "tpubridge/exec/explain.h"
#include "tpubridge/exec/families.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/live.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/lower/table.h"

namespace tpubridge::exec {
namespace {

using trace::Graph;

const BufferData* data_if_there(const trace::Leaf& leaf) {
  if (leaf.node->error()) return nullptr;
  return static_cast<const BufferData*>(leaf.node->data(leaf.index).get());
}

// Of a node that lays a value out: its grid.
GridPtr grid_of(const trace::Node& n) {
  static const lower::Row* const row = lower::find("tpubridge::constrain");
  if (n.op() != row) return nullptr;
  return grid_of_text(std::get<std::string>(n.args()[1]));
}

// What was asked for last counts before what is there: a tensor of one mesh may be laid out over another.
GridPtr grid_of(const Graph& graph) {
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n)
    if (GridPtr grid = grid_of(**n)) return grid;
  for (const auto& leaf : graph.leaves)
    if (const auto* d = data_if_there(leaf); d && d->spread()) return d->spread()->layout.grid;
  for (const Successor& s : successors(graph.device()))  // all of a tensor overwritten: it lies as before
    if (s.layout && std::ranges::find(graph.roots, s.value) != graph.roots.end()) return s.layout->grid;
  return nullptr;
}

pjrt::CompileOptions options_over(const Grid& grid) {
  pjrt::CompileOptions options;
  options.num_partitions = static_cast<int>(grid.devices.size());
  options.use_spmd_partitioning = options.use_shardy = true;
  for (const int d : grid.devices) options.devices.push_back(device(d).id());
  return options;
}

// What takes the place of a value that was laid out lies as that did.
std::vector<std::optional<Layout>> layouts_that_stay(const Graph& graph, const Spreading& plan) {
  std::map<std::pair<uint64_t, uint32_t>, size_t> roots;
  for (size_t i = 0; i < graph.roots.size(); ++i) roots[{graph.roots[i]->id(), graph.roots[i].index()}] = i;
  std::vector<std::optional<Layout>> out(graph.roots.size());
  for (const Successor& s : successors(plan.grid->devices[0])) {
    const auto root = roots.find({s.value->id(), s.value.index()});
    if (root == roots.end() || !s.layout || s.layout->grid != plan.grid) continue;
    const auto& dims = s.value.shape().dims;
    bool fits = dims.size() == s.layout->dims.size();
    for (size_t d = 0; fits && d < dims.size(); ++d) fits = dims[d] % s.layout->tiles(d) == 0;
    if (fits) out[root->second] = *s.layout;
  }
  return out;
}

lower::Partitions partitions_of(const Spreading& plan, const std::vector<std::optional<Layout>>& results) {
  lower::Partitions p{.mesh = hlo::Mesh{.name = std::string(kGridName), .axes = plan.grid->axes}};
  for (const Layout& l : plan.leaves) p.leaves.push_back(l.sharding());
  for (const auto& l : results) p.results.push_back(l ? std::optional(l->sharding()) : std::nullopt);
  return p;
}

// As the compiler chose. False where some result lies in a way that has no name here: then it is asked to
// put that one on every device.
bool read_layouts(const pjrt::LoadedExecutable& program, const Graph& graph, const GridPtr& grid,
                  std::vector<std::optional<Layout>>& results) {
  const auto tilings = program.info().result_tilings();
  bool all = true;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) continue;
    const size_t rank = graph.roots[i].shape().dims.size();
    if (tilings && tilings->size() == results.size()) results[i] = layout_of((*tilings)[i], grid, rank);
    if (results[i]) continue;
    results[i] = replicated_over(grid, rank);
    all = false;
  }
  return all;
}

// One that takes over memory of another size would be refused.
std::vector<lower::Donation> donations_over(const Graph& graph, const std::vector<int64_t>& donated,
                                            const Spreading& plan,
                                            const std::vector<std::optional<Layout>>& results) {
  auto out = donations(graph, donated, plan.grid->devices[0]);
  for (auto& d : out)
    if (d.root && results[static_cast<size_t>(*d.root)] != plan.leaves[static_cast<size_t>(d.leaf)])
      d.root.reset();
  return out;
}

}  // namespace

std::shared_ptr<const Spreading> spreading_of(const Graph& graph) {
  if (!any_grid()) return nullptr;
  auto plan = std::make_shared<Spreading>(Spreading{grid_of(graph), {}});
  if (!plan->grid) return nullptr;
  for (const auto& leaf : graph.leaves) {
    const auto* d = data_if_there(leaf);
    const bool here = d && d->spread() && d->spread()->layout.grid == plan->grid;
    plan->leaves.push_back(here ? d->spread()->layout
                                : replicated_over(plan->grid, leaf.shape().dims.size()));
  }
  return plan;
}

Mode mode_over(const Spreading& s) {
  Mode mode = this_mode(options_over(*s.grid));
  std::string text = s.grid->text();
  for (const Layout& l : s.leaves) text.append(";").append(l.text());
  mode.add("over", text);
  return mode;
}

Ready compile_over(const Graph& graph, const Spreading& plan, const Mode& family_mode, Taken taken,
                   std::string_view reason) {
  const bool may_fail = lower::program_may_fail(graph);
  const std::vector<int64_t> donated = may_fail ? std::vector<int64_t>() : trace::private_leaves(graph);
  const auto platform = lower::platform_named(client().platform_name());
  const Mode mode = with_inputs(family_mode, taken.inputs);
  const Structure whole = structure_of(graph);
  const Structure structure = taken.inputs.empty() ? whole : Structure{};
  const bool afresh = compiling_afresh();
  auto results = layouts_that_stay(graph, plan);
  for (bool again = false;; again = true) {
    const std::string text = lower::program(graph, donations_over(graph, donated, plan, results), platform,
                                            partitions_of(plan, results), taken.inputs, taken.shared);
    if (auto found = afresh ? nullptr : find_text(text, mode, structure)) {
      auto known = sharing(found, taken);
      if (known != found) remember(structure, text, mode, known);
      join_family(graph, whole.outline, family_mode, known);
      return {std::move(known)};
    }
    pjrt::CompileOptions options = options_over(*plan.grid);
    add_device_options(options, text);
    auto found = find_or_compile(
        pjrt::Program{text}, options, std::nullopt,
        {{"ops", std::to_string(graph.nodes.size())}, {"devices", std::to_string(options.devices.size())}});
    const bool by_compiler = found.source == cache::Source::compiler;
    if (by_compiler)
      note_compile(whole.outline, reason, found.seconds, "a program over " + plan.grid->text());
    if (!read_layouts(*found.program, graph, plan.grid, results) && !again) continue;
    Compiled made{std::move(found.program), donated};
    made.may_fail = may_fail;
    set_memory(made);
    note_temporaries(made.temporaries);
    auto spreading = std::make_shared<Spreading>(plan);
    for (auto& l : results) spreading->results.push_back(std::move(*l));
    made.spreading = std::move(spreading);
    made.inputs = std::move(taken.inputs);
    made.shared = std::move(taken.shared);
    made.some_differed = taken.some_differed;
    auto compiled = std::make_shared<const Compiled>(std::move(made));
    if (!afresh) {
      remember(structure, text, mode, compiled);
      join_family(graph, whole.outline, family_mode, compiled);
    }
    return {std::move(compiled), by_compiler};
  }
}

Mode with_inputs(Mode mode, const std::vector<trace::Loose>& inputs) {
  for (const auto& l : inputs) mode.add("input", fmt::format("{} {}", l.node, l.arg));
  return mode;
}

std::shared_ptr<const Compiled> sharing(std::shared_ptr<const Compiled> known, const Taken& taken) {
  if (known->shared == taken.shared && known->some_differed == taken.some_differed) return known;
  auto out = std::make_shared<Compiled>(*known);
  out->shared = taken.shared;
  out->some_differed = taken.some_differed;
  return out;
}

std::vector<pjrt::Buffer> on_every_place(const pjrt::HostArray& array, const Grid& grid) {
  std::vector<pjrt::Buffer> out;
  for (const int d : grid.devices) out.push_back(client().to_device(array, device(d)));
  return out;
}

Results run_over(const Compiled& compiled, std::span<const GivenLeaf> leaves,
                 std::span<const std::vector<pjrt::Buffer>* const> numbers,
                 std::span<const Shape* const> results, const std::vector<int64_t>& keep) {
  const Spreading& s = *compiled.spreading;
  const size_t places = s.grid->devices.size();
  for (const int d : s.grid->devices) check_memory(d, compiled.needs, "a program over several devices");
  std::vector<std::vector<const pjrt::Buffer*>> lists(places);
  for (auto& list : lists) list.reserve(leaves.size() + numbers.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto& data = static_cast<const BufferData&>(*leaves[i].data);
    const bool here = data.spread() && data.spread()->layout.grid == s.grid;
    const auto& others = here ? data.spread()->others : data.copies_over(s.grid);
    lists[0].push_back(here ? &data.as_it_is() : &data.buffer());
    for (size_t p = 1; p < places; ++p) lists[p].push_back(&others[p - 1]);
  }
  for (const auto* pack : numbers)
    for (size_t p = 0; p < places; ++p) lists[p].push_back(&(*pack)[p]);
  auto outputs = execute_all(*compiled.program, lists, keep);
  count_spread();
  Results out;
  out.first = std::move(outputs[0]);
  for (size_t i = 0; i < out.first.size(); ++i) {
    Spread& rest = out.rest.emplace_back(Spread{s.results[i], *results[i], {}});
    for (size_t p = 1; p < places; ++p) rest.others.push_back(std::move(outputs[p][i]));
  }
  return out;
}

bool lies_so(const BufferData& data, const Spreading* plan, size_t leaf) {
  if (!data.spread()) return !plan || plan->leaves[leaf].replicated();
  return plan && data.spread()->layout == plan->leaves[leaf];
}

}  // namespace tpubridge::exec
