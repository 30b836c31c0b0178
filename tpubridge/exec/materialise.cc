// Collect, find or compile, execute, resolve.
#include "tpubridge/exec/materialise.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/explain.h"
#include "tpubridge/exec/families.h"
#include "tpubridge/exec/host_kernels.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/in_work.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/live.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/redo.h"
#include "tpubridge/exec/resize.h"
#include "tpubridge/exec/rounds.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/exec/sized.h"
#include "tpubridge/exec/spread.h"
#include "tpubridge/lower/program.h"
#include "tpubridge/lower/runs_here.h"
#include "tpubridge/trace/graph.h"

namespace tpubridge::exec {
namespace {

using trace::Graph;
using trace::Value;

// Read at first use: the library is loaded before anybody could handle a wrong value.
std::atomic<int64_t>& limit() {
  static std::atomic<int64_t> value{*env::integer("TPUBRIDGE_GRAPH_LIMIT")};
  return value;
}
std::atomic<bool>& eager_mode() {
  static std::atomic<bool> value{env::flag("TPUBRIDGE_EAGER")};
  return value;
}

pjrt::Signature signature(const Graph& graph, const std::vector<int64_t>& donated, const Taken& taken) {
  pjrt::Signature s;
  for (const auto& leaf : graph.leaves) s.parameters.push_back(leaf.shape());
  for (const auto& pack : lower::number_packs(graph, taken.inputs, taken.shared))
    s.parameters.push_back(pack.shape);
  for (const auto& root : graph.roots) s.results.push_back(root.shape());
  s.donated.assign(s.parameters.size(), false);
  for (int64_t i : donated) s.donated[static_cast<size_t>(i)] = true;
  return s;
}

Ready compile(const Graph& graph, int device_index, const Mode& family_mode, Taken taken,
              std::string_view reason) {
  const bool may_fail = lower::program_may_fail(graph);
  const std::vector<int64_t> donated =
      may_fail ? std::vector<int64_t>() : trace::private_leaves(graph);  // what it fails over stays
  const std::string platform = client().platform_name();
  const lower::RunsHere here(may_call_kernels());
  const std::string text = lower::program(graph, donations(graph, donated, device_index),
                                          lower::platform_named(platform), {}, taken.inputs, taken.shared);
  const bool afresh = compiling_afresh();
  const Mode mode = with_inputs(family_mode, taken.inputs);
  const Structure whole = structure_of(graph);
  const Structure structure = taken.inputs.empty() ? whole : Structure{};
  if (auto found = afresh ? nullptr : find_text(text, mode, structure)) {
    auto known = sharing(found, taken);
    if (known != found) remember(structure, text, mode, known);
    join_family(graph, whole.outline, family_mode, known);
    return {std::move(known)};
  }
  pjrt::CompileOptions options;
  options.devices = {device(device_index).id()};
  add_device_options(options, text);
  const pjrt::Program program{text};
  const bool tiered = tiering() && !afresh && !programs().on_disk(program, options);
  auto found =
      find_or_compile(program, tiered ? quick(options, platform) : options, signature(graph, donated, taken),
                      {{"ops", std::to_string(graph.nodes.size())}});
  const bool by_compiler = found.source == cache::Source::compiler;
  if (by_compiler)
    note_compile(whole.outline, reason, found.seconds,
                 taken.some_differed ? "numbers that were equal differ now" : "");
  Compiled made{std::move(found.program), donated};
  made.may_fail = may_fail;
  set_memory(made);
  note_temporaries(made.temporaries);
  if (tiered) made.tier = optimise_later(program, options, signature(graph, donated, taken), donated);
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

Mode of_many_sizes(Mode mode) {
  mode.add("sizes", "many");
  return mode;
}

// The program for many sizes; none where there is none for this graph.
Ready compile_sized(const Graph& graph, int device_index, const Mode& family_mode, const Taken& taken,
                    std::string_view reason, Sizes sizes) {
  const auto platform = lower::platform_named(client().platform_name());
  const std::string text = lower::program(graph, {}, platform, {}, taken.inputs, taken.shared);
  const Mode mode = of_many_sizes(with_inputs(family_mode, taken.inputs));
  const auto sized = sized_program(text, mode, sizes);
  if (!sized) return {};
  const Structure whole = structure_of(graph);
  Compiled made;
  bool by_compiler = false;
  if (auto known = find_text(sized->text, mode, {})) {
    made = *known;
  } else {
    pjrt::CompileOptions options;
    options.devices = {device(device_index).id()};
    add_device_options(options, sized->text);
    const auto one_size = [&](const Error& e) {
      log::debug("program.one_size", {{"why", e.what()}});
      refuse_sized(text, mode);
      return Ready{};
    };
    pjrt::Signature signature{sized->sizing.parameters, sized->sizing.results, {}};
    signature.donated.assign(signature.parameters.size(), false);
    try {
      auto found = find_or_compile(pjrt::Program{sized->text}, options, std::move(signature),
                                   {{"ops", std::to_string(graph.nodes.size())}});
      by_compiler = found.source == cache::Source::compiler;
      if (by_compiler) note_compile(whole.outline, reason, found.seconds, "a program for many sizes");
      made.program = std::move(found.program);
      // A result that XLA gives an end of its own would be written past its buffer.
      if (const auto seen = made.program->info().signature(); seen && seen->results != sized->sizing.results)
        throw ProgramError("a program for many sizes gives something else");
    } catch (const CompileForbidden&) {
      throw;
    } catch (const XLACompilationTimeoutError&) {
      throw;
    } catch (const CompilationError& e) {
      return one_size(e);
    } catch (const ProgramError& e) {
      return one_size(e);
    }
    set_memory(made);
    remember({}, sized->text, mode, std::make_shared<const Compiled>(made));
  }
  made.inputs = taken.inputs;
  made.shared = taken.shared;
  made.some_differed = taken.some_differed;
  made.sizing = std::make_shared<const Sizing>(sized->sizing);
  auto compiled = std::make_shared<const Compiled>(std::move(made));
  if (taken.inputs.empty()) remember(whole, text, mode, compiled);
  return {std::move(compiled), by_compiler};
}

Mode mode_of(const Spreading* over, int device_index) {
  return over ? mode_over(*over) : this_mode(device_index);
}

Ready program_of(const Graph& graph, int device_index, std::string_view reason, Sizes sizes = Sizes::one) {
  const auto over = spreading_of(graph);
  if (over) sizes = Sizes::one;
  const Mode mode = mode_of(over.get(), device_index);
  auto known = compiling_afresh() ? nullptr : find_structure(graph, mode);
  if (!known && sizes != Sizes::one && !compiling_afresh()) {
    known = find_structure(graph, of_many_sizes(mode));
    if (known && known->sizing->runs >= kWorthItsOwn) known = nullptr, sizes = Sizes::one;
  }
  FamilyAnswer family = known || compiling_afresh() ? FamilyAnswer() : find_family(graph, mode);
  if (family.program) known = std::move(family.program);
  if (known && trace::are_shared(known->shared, graph)) return {std::move(known)};
  Taken taken{std::move(family.inputs), trace::shared_numbers(graph)};
  if (known)
    taken = {
        known->inputs,
        known->some_differed ? trace::SharedNumbers() : trace::shared_in_both(known->shared, taken.shared),
        true};
  const InWork work(graph);
  if (sizes != Sizes::one && !compiling_afresh())
    if (auto ready = compile_sized(graph, device_index, mode, taken, reason, sizes); ready.program)
      return ready;
  if (over) return compile_over(graph, *over, mode, std::move(taken), reason);
  return compile(graph, device_index, mode, std::move(taken), reason);
}

pjrt::Buffer sizes_of(const Sizing& sizing, int device_index) {
  const std::vector<int32_t> sizes(sizing.sizes.begin(), sizing.sizes.end());
  return client().to_device(pjrt::HostArray{sizes.data(), sizing.parameters.back(), {}},
                            device(device_index));
}

// What a program that runs may take of its inputs.
enum class Taking { what_nobody_sees, nothing };

struct Ran {
  std::vector<pjrt::Buffer> outputs;
  Given given;
  std::vector<Spread> rest = {};  // of each, on other devices
};

std::vector<GivenLeaf> leaves_of(const Graph& graph) {
  std::vector<GivenLeaf> out;
  for (const auto& leaf : graph.leaves) {
    (void)data_of(*leaf.node, leaf.index);  // throws where it is gone
    out.push_back({leaf.node->data(leaf.index), leaf.shape()});
  }
  return out;
}

// Nothing is remembered of it: a program that runs out of memory late is not run again.
Ran run_spread(const Ready& ready, const Graph& graph, const std::vector<int64_t>& keep) {
  const Compiled& compiled = *ready.program;
  std::vector<std::vector<pjrt::Buffer>> packs;
  for (const auto& pack : lower::number_packs(graph, compiled.inputs, compiled.shared))
    packs.push_back(
        on_every_place(pjrt::HostArray{pack.bytes.data(), pack.shape, {}}, *compiled.spreading->grid));
  std::vector<const std::vector<pjrt::Buffer>*> numbers;
  for (const auto& pack : packs) numbers.push_back(&pack);
  std::vector<const Shape*> shapes;
  for (const auto& root : graph.roots) shapes.push_back(&root.shape());
  auto results = run_over(compiled, leaves_of(graph), numbers, shapes, keep);
  wait_where_it_may_fail(compiled, results.first);
  return {std::move(results.first), {}, std::move(results.rest)};
}

Ran run(const Ready& ready, const Graph& graph, int device_index, Taking taking) {
  ready.count();
  const Compiled& compiled = ready.program->best();
  check_memory(device_index, compiled.needs, fmt::format("a program of {} ops", graph.nodes.size()));

  // Before anything here holds the inputs, too.
  const auto keep = taking == Taking::nothing ? compiled.donated : still_seen(graph, compiled.donated);
  if (compiled.spreading) return run_spread(ready, graph, keep);
  std::vector<pjrt::Buffer> packs;
  const Sizing* sizing = compiled.sizing.get();
  std::vector<pjrt::Buffer> larger;
  for (const auto& pack : lower::number_packs(graph, ready.program->inputs, ready.program->shared))
    packs.push_back(
        client().to_device(pjrt::HostArray{pack.bytes.data(), pack.shape, {}}, device(device_index)));
  std::vector<GivenLeaf> leaves;
  if (sizing || !runs_in_this_process()) leaves = leaves_of(graph);
  std::vector<const pjrt::Buffer*> arguments;
  if (sizing) {
    arguments = sized_arguments(leaves, *sizing, larger);
    packs.push_back(sizes_of(*sizing, device_index));
    ++sizing->runs;
    count_sized();
  }
  arguments.reserve(graph.leaves.size() + packs.size());
  if (!sizing)
    for (const auto& leaf : graph.leaves) arguments.push_back(&buffer_of(*leaf.node, leaf.index));
  for (const auto& pack : packs) arguments.push_back(&pack);

  auto outputs = execute(*compiled.program, arguments, keep);
  wait_where_it_may_fail(*ready.program, outputs);
  const bool may_take = keep.size() < compiled.donated.size();
  return {std::move(outputs), {ready.program, std::move(leaves), std::move(packs), may_take}};
}

}  // namespace

std::vector<lower::Donation> donations(const Graph& graph, const std::vector<int64_t>& donated, int device) {
  std::map<std::pair<uint64_t, uint32_t>, int64_t> leaves;
  std::vector<lower::Donation> out;
  for (int64_t i : donated) {
    const trace::Leaf& leaf = graph.leaves[static_cast<size_t>(i)];
    leaves[{leaf.node->id(), leaf.index}] = static_cast<int64_t>(out.size());
    out.push_back({i, std::nullopt});
  }
  std::map<std::pair<uint64_t, uint32_t>, int64_t> roots;
  for (size_t i = 0; i < graph.roots.size(); ++i)
    roots[{graph.roots[i]->id(), graph.roots[i].index()}] = static_cast<int64_t>(i);
  for (const Successor& s : successors(device)) {
    const auto leaf = leaves.find({s.id, s.index});
    const auto root = roots.find({s.value->id(), s.value.index()});
    if (leaf == leaves.end() || root == roots.end()) continue;
    lower::Donation& d = out[static_cast<size_t>(leaf->second)];
    if (d.root || graph.leaves[static_cast<size_t>(d.leaf)].shape() != s.value.shape()) continue;
    d.root = root->second;
    roots.erase(root);  // a root takes one leaf
  }
  return out;
}

std::vector<int64_t> still_seen(const Graph& graph, const std::vector<int64_t>& donated) {
  const auto free_now = trace::private_leaves(graph);
  std::vector<int64_t> out;
  for (const int64_t i : donated) {
    const auto& leaf = graph.leaves[static_cast<size_t>(i)];
    if (!std::binary_search(free_now.begin(), free_now.end(), i) || !is_private(leaf.node->data(leaf.index)))
      out.push_back(i);
  }
  return out;
}

std::vector<std::shared_ptr<trace::DeviceData>> resolve(const Graph& graph, std::vector<pjrt::Buffer> outputs,
                                                        bool larger, std::vector<Spread> rest) {
  std::vector<std::shared_ptr<trace::DeviceData>> data, made;
  for (size_t i = 0; i < graph.roots.size();) {
    trace::Node* n = graph.roots[i].node();
    data.assign(n->shapes().size(), nullptr);
    for (; i < graph.roots.size() && graph.roots[i].node() == n; ++i) {
      auto one = std::make_shared<BufferData>(std::move(outputs[i]), n->device(),
                                              larger ? std::optional(graph.roots[i].shape()) : std::nullopt);
      if (!rest.empty()) one->set_spread(std::move(rest[i]));
      made.push_back(data[graph.roots[i].index()] = std::move(one));
    }
    n->resolve(std::move(data));
  }
  return made;
}

bool is_known(const Graph& graph, int device_index) {
  const Mode mode = mode_of(spreading_of(graph).get(), device_index);
  return compiling_afresh() || find_structure(graph, mode) || find_family(graph, mode).program;
}

std::shared_ptr<const Compiled> compile_only(const Graph& graph, int device_index, std::string_view reason) {
  const Lock lock(mutex());
  note_all_computed();  // what was recorded is no part of a loop around it
  return program_of(graph, device_index, reason).program;
}

std::shared_ptr<const Compiled> run_whole(const Graph& graph, int device_index, std::string_view reason,
                                          Sizes sizes) {
  const Lock lock(mutex());
  count_materialisation(reason);
  note_all_computed();
  const Ready ready = program_of(graph, device_index, reason, sizes);
  Ran ran = run(ready, graph, device_index, Taking::what_nobody_sees);
  const bool spread = ready.program->spreading != nullptr;
  const auto made =
      resolve(graph, std::move(ran.outputs), ready.program->sizing != nullptr, std::move(ran.rest));
  if (!spread) remember_given(std::move(ran.given), made);
  return ready.program;
}

trace::Value compute_aside(const Value& value) {
  const Lock lock(mutex());
  do {
    if (!value->is_pending()) return value;
  } while (wait_for_others({value}));
  const int device_index = value->device();
  const Graph graph = trace::collect({value}, /*held_too=*/false);
  count_materialisation("beside a recording");
  // The trace goes on and will read the same inputs: it takes nothing.
  Ran ran = run(program_of(graph, device_index, "beside a recording"), graph, device_index, Taking::nothing);
  const trace::Value out = leaf_of(std::move(ran.outputs[0]), value.shape(), device_index);
  if (!ran.rest.empty())
    static_cast<BufferData&>(*out->data(0)).set_spread(std::move(ran.rest[0]));
  else
    remember_given(std::move(ran.given), {out->data(0)});
  return out;
}

trace::Value compute_part(const Value& value, const Shape& part) {
  const Lock lock(mutex());
  do {
    if (!value->is_pending()) return {};
  } while (wait_for_others({value}));
  const int device_index = value->device();
  const Graph graph = trace::collect({value}, /*held_too=*/false);
  count_materialisation("a result as large as its data says");
  Ran ran = run(program_of(graph, device_index, "a result as large as its data says"), graph, device_index,
                Taking::nothing);
  if (!ran.rest.empty()) return {};
  auto data = std::make_shared<BufferData>(std::move(ran.outputs[0]), device_index, part);
  remember_given(std::move(ran.given), {data});
  return trace::Node::leaf(std::move(data), part, device_index);
}

void after_op(int device) {
  count_traced();
  if (eager_mode()) {
    materialise(device, {}, "eager mode");
  } else if (trace::this_lane().pending.load(std::memory_order_relaxed) > limit()) {
    for (int i = 0; i < device_count(); ++i) materialise(i, {}, "graph limit");
  } else if (wants_cut()) {
    cut_rounds(device);
  }
}

int64_t graph_limit() { return limit(); }
int64_t set_graph_limit(int64_t ops) { return limit().exchange(ops); }
bool eager() { return eager_mode(); }
bool set_eager(bool on) { return eager_mode().exchange(on); }

}  // namespace tpubridge::exec
