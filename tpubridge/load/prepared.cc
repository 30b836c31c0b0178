#include "tpubridge/load/prepared.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "tpubridge/base/errors.h"

namespace tpubridge::exported {
namespace {

using c10::IValue;

// "node add_1 (torch.ops.aten.add.Tensor)" and the Python lines it comes from.
Details details_of(const Node& node, const std::string& file) {
  Details out{{"file", file}, {"node", node.name}, {"op", node.target}};
  if (!node.stack.empty()) out.emplace_back("python", node.stack);
  return out;
}
std::string words_of(const Node& node, const std::string& file, const std::string& what) {
  std::string out = file + ": node " + node.name + " (" + node.target + "): " + what;
  if (!node.stack.empty()) out += "\nIn Python:\n" + node.stack + "\n";
  return out;
}

bool has_value(const Arg& arg) {
  return arg.kind == ArgKind::value || arg.kind == ArgKind::device ||
         std::ranges::any_of(arg.items, has_value);
}

// Numbers where a tensor is wanted are made anew at each call, as C++ does: a tensor that lives on would be
// data of the program's user.
bool becomes_tensor(const Arg& arg, const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) return becomes_tensor(arg, *type.containedType(0));
  if (type.kind() == c10::TypeKind::ListType) return becomes_tensor(arg, *type.containedType(0));
  return type.kind() == c10::TypeKind::TensorType && arg.kind != ArgKind::none;
}

bool flag_follows_mode(const std::string& op, const std::string& argument) {
  static const std::set<std::string> ops = {"aten::dropout",
                                            "aten::dropout_",
                                            "aten::feature_dropout",
                                            "aten::feature_dropout_",
                                            "aten::alpha_dropout",
                                            "aten::alpha_dropout_",
                                            "aten::feature_alpha_dropout",
                                            "aten::native_dropout",
                                            "aten::batch_norm",
                                            "aten::rrelu",
                                            "aten::rrelu_",
                                            "aten::lstm",
                                            "aten::gru",
                                            "aten::rnn_tanh",
                                            "aten::rnn_relu"};
  return (argument == "train" || argument == "training") && ops.contains(op);
}

c10::OperatorHandle find_op(const Node& node, const std::string& file) {
  const std::string prefix = "torch.ops.";
  std::string name = node.target, overload;
  if (name.starts_with(prefix)) {
    name = name.substr(prefix.size());
    if (const auto dot = name.find('.'); dot != name.npos) name.replace(dot, 1, "::");
    if (const auto dot = name.rfind('.'); dot != name.npos) overload = name.substr(dot + 1), name.resize(dot);
    if (overload == "default") overload.clear();
    if (const auto op = c10::Dispatcher::singleton().findSchema({name, overload})) {
      const std::string why = why_refused(op->schema());
      if (why.empty()) return *op;
      throw UnsupportedError(words_of(node, file, "this op is not run for a model: " + why),
                             details_of(node, file),
                             "Take it out of the model's code and export it again; a file that somebody else "
                             "made may be hostile.");
    }
  }
  throw UnsupportedError(words_of(node, file, "this op is not there without Python"), details_of(node, file),
                         "Export the model so that it is made of torch's own ops "
                         "(ExportedProgram.run_decompositions()), or load the library that registers it.");
}

void run_op(const Step& step, Frame& frame) {
  torch::jit::Stack stack;
  stack.reserve(step.feeds.size());
  for (const Feed& feed : step.feeds) {
    if (feed.is_mode && frame.context.mode != Mode::as_exported)
      stack.emplace_back(frame.context.mode == Mode::train);
    else if (feed.arg == nullptr)
      stack.push_back(feed.constant);
    else
      stack.push_back(value_of(*feed.arg, *feed.type, frame));
  }
  step.op->callBoxed(stack);
  const auto& outputs = step.node->outputs;
  for (size_t i = 0; i < outputs.size(); ++i) put(outputs[i], std::move(stack[i]), frame);
}

Feed feed_of(const NamedArg& given, const c10::Argument& want, const std::string& op) {
  Feed out;
  out.type = want.type();
  const Context none{at::kCPU};
  const Frame nothing{none, {}};
  if (has_value(given.arg) || becomes_tensor(given.arg, *out.type))
    out.arg = &given.arg;
  else
    out.constant = value_of(given.arg, *out.type, nothing);
  if (want.name() == "pin_memory") out.arg = nullptr, out.constant = IValue();
  out.is_mode = given.arg.kind == ArgKind::boolean && flag_follows_mode(op, want.name());
  return out;
}

// Every argument of the op's schema: what the node says, or its default.
void bind(Step& step, const std::string& file) {
  const Node& node = *step.node;
  step.op = find_op(node, file);
  step.run = run_op;
  const auto& schema = step.op->schema();
  const auto bad = [&](const std::string& what) {
    throw FileError(words_of(node, file, what), details_of(node, file), "", Code::invalid_argument);
  };
  bool takes_tensor = false;
  for (const auto& want : schema.arguments()) {
    takes_tensor = takes_tensor || want.type()->kind() == c10::TypeKind::TensorType;
    const auto given = std::ranges::find(node.inputs, want.name(), &NamedArg::name);
    if (given != node.inputs.end()) {
      try {
        step.feeds.push_back(feed_of(*given, want, schema.name()));
      } catch (const Error& e) {
        bad(want.name() + ": " + e.what());
      } catch (const c10::Error& e) {
        bad(want.name() + ": " + e.what_without_backtrace());
      }
    } else if (want.name() == "device" && !takes_tensor) {
      static const Arg here = [] {
        Arg out;
        out.kind = ArgKind::device;
        return out;
      }();
      step.feeds.push_back({&here, want.type(), {}, false});
    } else if (want.default_value()) {
      step.feeds.push_back({nullptr, want.type(), *want.default_value(), false});
    } else if (want.type()->kind() == c10::TypeKind::OptionalType) {
      step.feeds.emplace_back();
    } else {
      bad("the argument " + want.name() + " is missing");
    }
  }
  for (const auto& given : node.inputs)
    if (std::ranges::find(schema.arguments(), given.name, &c10::Argument::name) == schema.arguments().end())
      bad("the op has no argument " + given.name);
  if (node.outputs.size() > schema.returns().size())
    bad("the op gives " + std::to_string(schema.returns().size()) + " values, the graph wants " +
        std::to_string(node.outputs.size()));
}

// Those ops give one value each.
void bind_own(Step& step, const std::string& file) {
  const Node& node = *step.node;
  step.run = own_kernel(node.target);
  if (step.run != nullptr && node.outputs.size() != 1)
    throw FileError(
        words_of(node, file, "the op gives 1 value, the graph wants " + std::to_string(node.outputs.size())),
        details_of(node, file), "", Code::invalid_argument);
}

}  // namespace

PreparedGraph::PreparedGraph(const Graph& graph, const std::string& file) : graph_(&graph), file_(file) {
  steps_.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    Step& step = steps_.emplace_back();
    step.node = &node;
    for (const auto& input : node.inputs)
      if (input.arg.kind == ArgKind::graph)
        step.graphs.push_back(std::make_unique<PreparedGraph>(*input.arg.graph, file));
    for (const auto& find : {symbol_kernel, higher_order_kernel})
      if (step.run == nullptr) step.run = find(node.target);
    if (step.run == nullptr) bind_own(step, file);
    if (step.run == nullptr) bind(step, file);
  }
}

bool PreparedGraph::trains() const {
  return std::ranges::any_of(steps_, [](const Step& step) {
    return std::ranges::any_of(step.feeds, [](const Feed& f) { return f.is_mode && f.constant.toBool(); }) ||
           std::ranges::any_of(step.graphs, [](const auto& g) { return g->trains(); });
  });
}

std::vector<IValue> PreparedGraph::run(const Context& context, std::vector<IValue> inputs) const {
  if (inputs.size() != graph_->inputs.size())
    throw FileError(file_ + ": a graph of " + std::to_string(graph_->inputs.size()) + " inputs is given " +
                    std::to_string(inputs.size()));
  Frame frame{context, std::vector<IValue>(graph_->names.size())};
  for (size_t i = 0; i < inputs.size(); ++i) put(graph_->inputs[i], std::move(inputs[i]), frame);
  inputs.clear();  // values die with their last use
  for (const Step& step : steps_) {
    const auto bad = [&](const std::string& what) {
      return ProgramError(words_of(*step.node, file_, what), details_of(*step.node, file_));
    };
    try {
      step.run(step, frame);
    } catch (const FileError& e) {
      throw bad(e.message());
    } catch (const c10::Error& e) {
      throw bad(e.what_without_backtrace());
    }
    for (const int32_t slot : step.node->frees) frame.slots[static_cast<size_t>(slot)] = IValue();
  }
  std::vector<IValue> out;
  for (const Arg& output : graph_->outputs) {
    std::vector<IValue> values;
    values_of(output, frame, values);
    if (output.kind != ArgKind::list) {
      out.push_back(std::move(values.front()));
      continue;
    }
    c10::impl::GenericList list(c10::AnyType::get());
    for (auto& v : values) list.push_back(std::move(v));
    out.emplace_back(std::move(list));
  }
  return out;
}

}  // namespace tpubridge::exported
