// Collect, find or compile, execute, resolve.
#include "tpubridge/exec/materialise.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/explain.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/live.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/options.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/program.h"
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
std::atomic<int> no_compile{0};
std::atomic<bool (*)()> deterministic_source{nullptr};

bool deterministic() {
  auto* ask = deterministic_source.load();
  return ask && ask();
}

// The program in the present mode: compiled with other options it is another one.
Key in_this_mode(Key key) {
  if (deterministic()) key[0] ^= 0x9e3779b97f4a7c15ull;
  key[1] ^= user_options_hash();
  return key;
}
Key structure_key(const Graph& graph) { return in_this_mode(graph.hash); }

// Thrown where a scope forbids compiling: the values stay pending and can be computed later.
struct Forbidden : CompilationError {
  Forbidden(const std::string& message, const Details& details, const std::string& hint)
      : Error(message, details, hint), CompilationError(message, details, hint) {}
};

pjrt::Signature signature(const Graph& graph, const std::vector<int64_t>& donated) {
  pjrt::Signature s;
  for (const auto& leaf : graph.leaves) s.parameters.push_back(leaf.shape());
  for (const auto& pack : lower::number_packs(graph)) s.parameters.push_back(pack.shape);
  for (const auto& root : graph.roots) s.results.push_back(root.shape());
  s.donated.assign(s.parameters.size(), false);
  for (int64_t i : donated) s.donated[static_cast<size_t>(i)] = true;
  return s;
}

// Each donated leaf with the root that takes its place: without that the compiler pairs them by their shapes
// alone, and copies where it guessed wrong.
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

std::shared_ptr<const Compiled> compile(const Graph& graph, int device_index, std::string_view reason) {
  const std::vector<int64_t> donated = trace::private_leaves(graph);
  const std::string platform = client().platform_name();
  const std::string text =
      lower::program(graph, donations(graph, donated, device_index), lower::platform_named(platform));
  const Key key = in_this_mode(text_key(text, device_index));
  if (auto known = find_text(key, structure_key(graph))) {
    count_execution(false, 0);
    return known;
  }
  if (no_compile > 0)
    throw Forbidden("a program would be compiled inside an expect_no_compile() scope",
                    {{"ops", std::to_string(graph.nodes.size())}},
                    "Shapes, element types or the ops themselves differ from what ran before.");
  pjrt::CompileOptions options;
  options.devices = {device(device_index).id()};
  // By default XLA's CPU compiler loses NaN in maxima and minima; in torch they come through.
  if (platform == "cpu") options.overrides = {{"xla_cpu_enable_fast_min_max", false}};
  // By default XLA's GPU compiler leaves narrow values in f32 between ops: other results than torch's, and
  // more memory to read and write.
  if (platform == "cuda") options.overrides.emplace("xla_allow_excess_precision", false);
  if (platform == "cuda" && deterministic()) options.overrides.emplace("xla_gpu_deterministic_ops", true);
  add_user_options(options);
  const pjrt::Program program{text};
  const auto& disk = programs().disk();
  const bool tiered = tiering() && !(disk && disk->load(programs().key(program, options)));
  auto found =
      programs().get(program, tiered ? quick(options, platform) : options, signature(graph, donated));
  const bool by_compiler = found.source == cache::Source::compiler;
  count_execution(by_compiler, found.seconds);
  if (by_compiler) note_compile(graph, reason, found.seconds);
  Compiled made{std::move(found.program), donated};
  set_memory(made);
  note_temporaries(made.temporaries);
  if (tiered) made.tier = optimise_later(program, options, signature(graph, donated), donated);
  auto compiled = std::make_shared<const Compiled>(std::move(made));
  remember(structure_key(graph), key, compiled);
  return compiled;
}

std::shared_ptr<const Compiled> program_of(const Graph& graph, int device_index, std::string_view reason) {
  auto known = find_structure(structure_key(graph));
  if (!known) return compile(graph, device_index, reason);
  count_execution(false, 0);
  return known;
}

std::vector<pjrt::Buffer> run(const Compiled& any, const Graph& graph, int device_index) {
  const Compiled& compiled = any.best();
  check_memory(device_index, compiled.needs, fmt::format("a program of {} ops", graph.nodes.size()));

  std::vector<pjrt::Buffer> packs;
  for (const auto& pack : lower::number_packs(graph))
    packs.push_back(
        client().to_device(pjrt::HostArray{pack.bytes.data(), pack.shape, {}}, device(device_index)));
  std::vector<const pjrt::Buffer*> arguments;
  arguments.reserve(graph.leaves.size() + packs.size());
  for (const auto& leaf : graph.leaves) arguments.push_back(&buffer_of(*leaf.node, leaf.index));
  for (const auto& pack : packs) arguments.push_back(&pack);

  // What the program was compiled to take over, but somebody can still see this time, stays alive.
  const auto free_now = trace::private_leaves(graph);
  std::vector<int64_t> keep;
  for (int64_t i : compiled.donated)
    if (!std::binary_search(free_now.begin(), free_now.end(), i) ||
        graph.leaves[static_cast<size_t>(i)]
                .node->data(graph.leaves[static_cast<size_t>(i)].index)
                .use_count() > 1)
      keep.push_back(i);
  pjrt::ExecuteOptions options;
  options.not_donatable = keep;
  return compiled.program->execute(arguments, options);
}

void resolve(const Graph& graph, std::vector<pjrt::Buffer> outputs) {
  std::vector<std::shared_ptr<trace::DeviceData>> data;
  for (size_t i = 0; i < graph.roots.size();) {
    trace::Node* n = graph.roots[i].node();
    data.assign(n->shapes().size(), nullptr);
    for (; i < graph.roots.size() && graph.roots[i].node() == n; ++i)
      data[graph.roots[i].index()] = std::make_shared<BufferData>(std::move(outputs[i]), n->device());
    n->resolve(std::move(data));
  }
}

}  // namespace

void materialise(int device_index, const std::vector<Value>& wanted, std::string_view reason) {
  Lock lock(mutex());
  std::vector<Value> roots = pending_values(device_index);
  for (const auto& v : wanted)
    if (v->is_pending()) roots.push_back(v);
  if (!roots.empty()) compute(trace::collect(std::move(roots)), device_index, reason);
}

std::shared_ptr<const Compiled> compute(const Graph& graph, int device_index, std::string_view reason) {
  Lock lock(mutex());
  count_materialisation(reason);
  try {
    auto compiled = program_of(graph, device_index, reason);
    resolve(graph, run(*compiled, graph, device_index));
    return compiled;
  } catch (const Forbidden&) {
    throw;
  } catch (const TPUMemoryLimitError&) {
    throw;  // nothing was given away yet: it can be tried again when memory is free
  } catch (const XLACompilationTimeoutError&) {
    throw;  // the compile goes on: whoever asks again may have the values
  } catch (...) {
    for (const auto& r : graph.roots)
      if (r->is_pending()) r->poison(std::current_exception());
    throw;
  }
}

trace::Value compute_aside(const Value& value) {
  if (!value->is_pending()) return value;
  Lock lock(mutex());
  const int device_index = value->device();
  const Graph graph = trace::collect({value}, /*held_too=*/false);
  count_materialisation("beside a recording");
  auto outputs = run(*program_of(graph, device_index, "beside a recording"), graph, device_index);
  return leaf_of(std::move(outputs[0]), value.shape(), device_index);
}

void after_op(int device) {
  count_traced();
  if (eager_mode()) {
    materialise(device, {}, "eager mode");
  } else if (trace::pending_nodes(device) > limit()) {
    materialise(device, {}, "graph limit");
  }
}

void set_deterministic_source(bool (*ask)()) { deterministic_source = ask; }

int64_t graph_limit() { return limit(); }
int64_t set_graph_limit(int64_t ops) { return limit().exchange(ops); }
bool eager() { return eager_mode(); }
bool set_eager(bool on) { return eager_mode().exchange(on); }

ExpectNoCompile::ExpectNoCompile() { ++no_compile; }
ExpectNoCompile::~ExpectNoCompile() { --no_compile; }

}  // namespace tpubridge::exec
