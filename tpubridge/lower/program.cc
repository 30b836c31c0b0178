// Walks a graph in order and lets each node's row build its part.
#include "tpubridge/lower/program.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <unordered_map>

#include "tpubridge/lower/chosen.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/exported.h"
#include "tpubridge/lower/loop.h"
#include "tpubridge/lower/overlap.h"

namespace tpubridge::lower {
namespace {

constexpr std::array kNumberTypes = {DType::f32, DType::f64, DType::s64};

void append(std::vector<std::byte>& bytes, const trace::Number& n) {
  auto put = [&](auto v) {
    const auto at = bytes.size();
    bytes.resize(at + sizeof(v));
    std::memcpy(bytes.data() + at, &v, sizeof(v));
  };
  if (n.dtype == DType::f32) put(static_cast<float>(n.real));
  if (n.dtype == DType::f64) put(n.real);
  if (n.dtype == DType::s64) put(n.integer);
}

// Whether the number has an input of its own. Loose ones stand after those that can be shared.
bool is_own(const trace::SharedNumbers& shared, size_t i) { return i >= shared.size() || shared[i] == i; }

int64_t count(const trace::Graph& graph, const trace::SharedNumbers& shared,
              std::span<const trace::Number> more, DType type) {
  int64_t n = std::count_if(more.begin(), more.end(), [&](const auto& x) { return x.dtype == type; });
  for (size_t i = 0; i < graph.numbers.size(); ++i)
    n += is_own(shared, i) && graph.numbers[i]->number().dtype == type;
  return n;
}

void lower_by(const Row& row, Context& context) {
  if (row.custom)
    row.custom->lower(context);
  else
    row.lower(context);
}

hlo::ModuleOptions module_options(const Partitions& p) {
  if (!p.mesh) return {};
  int64_t devices = 1;
  for (const auto& [name, size] : p.mesh->axes) devices *= size;
  return {.partitions = devices, .meshes = {*p.mesh}};
}

const std::vector<trace::Loose> kNoInputs = {};

class Lowering {
 public:
  Lowering(hlo::Builder& b, const trace::Graph& graph, Platform platform, const ExportForm& form)
      : graph_(graph),
        platform_(platform),
        inputs_(kNoInputs),
        once_(compared_with_chosen(graph)),
        overlapping_(overlapping_writes(graph, inputs_)),
        b_(b) {
    std::vector<trace::Leaf> leaves = graph.leaves;
    leaves.insert(leaves.end(), form.more.begin(), form.more.end());
    for (size_t i = 0; i < leaves.size(); ++i) {
      const ExportForm::Parameter& p = form.parameters[i];
      const Shape& shape = leaves[i].shape();
      leaves_[{leaves[i].node, leaves[i].index}] =
          p.constant ? hlo::dense(b_, shape, *p.constant) : b_.parameter(shape, {.name = p.name});
    }
    for (const auto* n : graph.numbers) {
      const trace::Number& number = n->number();
      const hlo::Scalar value =
          number.dtype == DType::s64 ? hlo::Scalar(number.integer) : hlo::Scalar(number.real);
      nodes_[n] = {hlo::constant(b_, number.dtype, value)};
    }
  }

  // `parameters`: as parameters_of() says.
  Lowering(hlo::Builder& b, const trace::Graph& graph, std::span<const Value> parameters, Platform platform,
           const std::vector<trace::Loose>& inputs, const trace::SharedNumbers& shared)
      : graph_(graph),
        platform_(platform),
        inputs_(inputs),
        once_(compared_with_chosen(graph)),
        overlapping_(overlapping_writes(graph, inputs_)),
        b_(b) {
    const size_t leaves = graph.leaves.size();
    for (size_t i = 0; i < leaves; ++i)
      leaves_[{graph.leaves[i].node, graph.leaves[i].index}] = parameters[i];
    add_numbers(shared, parameters.subspan(leaves));
  }

  std::vector<Value> run() { return run(graph_.roots); }
  std::vector<Value> run(const std::vector<trace::Value>& of_results) {
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) lower_node(*graph_.nodes[i], i);
    std::vector<Value> results;
    for (const auto& v : of_results) results.push_back(of(v));
    return results;
  }

 private:
  void add_numbers(const trace::SharedNumbers& shared, std::span<const Value> packs) {
    const auto more = trace::numbers_of(graph_, inputs_);
    input_values_.resize(more.size());
    for (DType type : kNumberTypes) {
      const int64_t n = count(graph_, shared, more, type);
      if (n == 0) continue;
      const Value pack = packs.front();
      packs = packs.subspan(1);
      int64_t at = 0;
      const auto next = [&] {
        const Value one = n == 1 ? pack : hlo::slice(pack, {at}, {at + 1});
        ++at;
        return hlo::reshape(one, {});
      };
      for (size_t i = 0; i < graph_.numbers.size(); ++i)
        if (graph_.numbers[i]->number().dtype == type)
          nodes_[graph_.numbers[i]] =
              is_own(shared, i) ? std::vector{next()} : nodes_.at(graph_.numbers[shared[i]]);
      for (size_t i = 0; i < more.size(); ++i)
        if (more[i].dtype == type) input_values_[i] = next();
    }
  }

  Value of(const trace::Value& v) const {
    if (v->is_leaf()) return leaves_.at({v.node(), v.index()});
    return nodes_.at(v.node())[v.index()];
  }

  // Its arguments; those that are inputs of the program become operands.
  std::vector<trace::Arg> args_of(const trace::Node& n, uint32_t index, std::vector<Value>& operands,
                                  std::vector<const Shape*>& shapes) {
    std::vector<trace::Arg> args = n.args();
    for (; next_input_ < inputs_.size() && inputs_[next_input_].node == index; ++next_input_) {
      trace::Arg& arg = args[inputs_[next_input_].arg];
      std::vector<trace::Ref> refs;
      for (size_t count = trace::numbers_of(arg).size(); count > 0; --count) {
        refs.push_back({static_cast<int>(operands.size())});
        operands.push_back(input_values_[next_value_++]);
        shapes.push_back(&operands.back().shape());
      }
      if (std::holds_alternative<std::vector<int64_t>>(arg))
        arg = std::move(refs);
      else
        arg = refs[0];
    }
    return args;
  }

  void lower_node(const trace::Node& n, uint32_t index) {
    std::vector<Value> operands;
    std::vector<const Shape*> shapes;
    for (const auto& o : n.operands()) {
      operands.push_back(of(o));
      shapes.push_back(&o.shape());
    }
    const auto& row = static_cast<const Row&>(*n.op());
    hlo::LocationScope where(b_, {.name = std::string(row.name)});
    const std::vector<trace::Arg> args = args_of(n, index, operands, shapes);
    Context context(b_, n, args, std::move(operands), std::move(shapes), platform_);
    context.overlapping = overlapping_.contains(&n);
    lower_by(row, context);
    std::vector<Value> results = context.results();
    for (uint32_t i = 0; i < results.size(); ++i)
      if (once_.contains({&n, i})) results[i] = computed_once(results[i], platform_);
    nodes_[&n] = std::move(results);
  }

  const trace::Graph& graph_;
  const Platform platform_;
  const std::vector<trace::Loose>& inputs_;  // sorted
  const std::set<Result> once_;
  const std::unordered_set<const trace::Node*> overlapping_;
  hlo::Builder& b_;
  std::vector<Value> input_values_;
  size_t next_input_ = 0, next_value_ = 0;
  std::map<std::pair<const trace::Node*, uint32_t>, Value> leaves_;
  std::unordered_map<const trace::Node*, std::vector<Value>> nodes_;
};

}  // namespace

// The builder checks as it goes; what comes of it is thrown away.
void check_custom(const trace::SpecPtr& spec, std::span<const Shape> operands) {
  hlo::Builder b;
  std::vector<Value> values;
  std::vector<const Shape*> shapes;
  for (const Shape& s : operands) {
    values.push_back(b.parameter(s));
    shapes.push_back(&s);
  }
  const trace::Value node = trace::Node::make(spec, {}, 0);
  Context context(b, *node.node(), spec->args, std::move(values), std::move(shapes));
  lower_by(*static_cast<const Row*>(spec->op), context);
}

bool can_lower(const trace::SpecPtr& spec, std::span<const Shape> operands) {
  try {
    check_custom(spec, operands);
  } catch (const std::exception&) {
    return false;  // what is wrong with the call is told by the CPU's kernel
  }
  return true;
}

bool program_may_fail(const trace::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const trace::Node* n) {
    return (static_cast<const Row*>(n->op())->flags & lower::may_fail) != 0;
  });
}

std::string program(const trace::Graph& graph, const std::vector<Donation>& donated, Platform platform,
                    const Partitions& partitions, const std::vector<trace::Loose>& inputs,
                    const trace::SharedNumbers& shared) {
  hlo::Builder b(module_options(partitions));
  const std::vector<Shape> shapes = parameters_of(graph, inputs, shared);
  std::vector<hlo::ParameterAttrs> attrs(shapes.size());
  for (const Donation& d : donated) {
    attrs[static_cast<size_t>(d.leaf)].alias_result = d.root;
    attrs[static_cast<size_t>(d.leaf)].donate = !d.root;
  }
  std::vector<Value> parameters;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (partitions.mesh)
      attrs[i].sharding = i < graph.leaves.size()
                              ? partitions.leaves[i]
                              : hlo::Sharding{.mesh = partitions.mesh->name, .dims = {{}}};
    parameters.push_back(b.parameter(shapes[i], attrs[i]));
  }
  const std::vector<Value> results = lower_graph(b, graph, parameters, platform, inputs, shared);
  std::vector<hlo::ResultAttrs> of_results;
  for (size_t i = 0; partitions.mesh && i < results.size(); ++i)
    of_results.push_back({.sharding = partitions.results[i]});
  return b.finish(results, of_results);
}

std::vector<Shape> parameters_of(const trace::Graph& graph, const std::vector<trace::Loose>& inputs,
                                 const trace::SharedNumbers& shared) {
  std::vector<Shape> out;
  for (const auto& leaf : graph.leaves) out.push_back(leaf.shape());
  const auto more = trace::numbers_of(graph, inputs);
  for (DType type : kNumberTypes)
    if (const int64_t n = count(graph, shared, more, type); n > 0) out.push_back(Shape{type, {n}});
  return out;
}

hlo::Values lower_graph(hlo::Builder& b, const trace::Graph& graph, std::span<const Value> parameters,
                        Platform platform, const std::vector<trace::Loose>& inputs,
                        const trace::SharedNumbers& shared) {
  return Lowering(b, graph, parameters, platform, inputs, shared).run();
}

std::string exported_program(const trace::Graph& graph, const ExportForm& form, Platform platform) {
  hlo::Builder b;
  const std::vector<Value> results = Lowering(b, graph, platform, form).run(form.results);
  std::vector<hlo::ResultAttrs> attrs;
  for (const auto& name : form.result_names) attrs.push_back({.name = name});
  return b.finish(results, attrs);
}

bool can_be_input(const trace::Graph& graph, const trace::Loose& loose) {
  const trace::Spec& spec = *graph.nodes[loose.node]->spec();
  const auto fits = static_cast<const Row*>(spec.op)->fits;
  if (!fits) return true;
  std::vector<const Shape*> shapes;
  for (const auto& o : graph.nodes[loose.node]->operands()) shapes.push_back(&o.shape());
  return fits(Call(spec.args, shapes));
}

std::vector<NumberPack> number_packs(std::span<const trace::Number> numbers,
                                     const trace::SharedNumbers& shared) {
  std::vector<NumberPack> packs;
  for (DType type : kNumberTypes) {
    NumberPack pack{Shape{type, {0}}, {}};
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i].dtype != type || !is_own(shared, i)) continue;
      append(pack.bytes, numbers[i]);
      ++pack.shape.dims[0];
    }
    if (!pack.bytes.empty()) packs.push_back(std::move(pack));
  }
  return packs;
}

std::vector<NumberPack> number_packs(const trace::Graph& graph, const std::vector<trace::Loose>& inputs,
                                     const trace::SharedNumbers& shared) {
  std::vector<trace::Number> numbers;
  numbers.reserve(graph.numbers.size());
  for (const auto* node : graph.numbers) numbers.push_back(node->number());
  for (const auto& n : trace::numbers_of(graph, inputs)) numbers.push_back(n);
  return number_packs(numbers, shared);
}

}  // namespace tpubridge::lower
