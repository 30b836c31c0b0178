// A graph made ready to run: ops found, arguments that never change made once. Not for users.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

#include "tpubridge/pt2/program.h"

namespace tpubridge::exported {

enum class Mode { as_exported, train, eval };

// What holds during one call.
struct Context {
  at::Device device;  // that of the module: the file's own ("cpu") means where it was exported
  Mode mode = Mode::as_exported;
};

struct Frame {
  const Context& context;
  std::vector<c10::IValue> slots;
};

struct Feed {
  const Arg* arg = nullptr;  // null: the constant
  c10::TypePtr type;
  c10::IValue constant;
  bool is_mode = false;  // whether the op is in training: train() and eval() decide
};

class PreparedGraph;
struct Step;
using Kernel = void (*)(const Step& step, Frame& frame);

struct Step {
  const Node* node = nullptr;
  Kernel run = nullptr;
  std::optional<c10::OperatorHandle> op;
  std::vector<Feed> feeds;
  std::vector<std::unique_ptr<PreparedGraph>> graphs;  // of a node that has some, in the order of its inputs
};

class PreparedGraph {
 public:
  // The graph must outlive this. Throws UnsupportedError for an op that is not there, with its node.
  PreparedGraph(const Graph& graph, const std::string& file);
  // Takes the graph's inputs in order, gives its outputs (lists are lists).
  [[nodiscard]] std::vector<c10::IValue> run(const Context& context, std::vector<c10::IValue> inputs) const;
  [[nodiscard]] bool trains() const;  // some op of it was exported in training

 private:
  const Graph* graph_;
  std::string file_;
  std::vector<Step> steps_;
};

// An argument as the value of a type; numbers become tensors where one is wanted.
[[nodiscard]] c10::IValue value_of(const Arg& arg, const c10::Type& type, const Frame& frame);
// As it is: for nodes that are no ops. Lists are flattened into `out`.
void values_of(const Arg& arg, const Frame& frame, std::vector<c10::IValue>& out);
// Puts what a node gave where its outputs are.
void put(const Arg& output, c10::IValue value, Frame& frame);
[[nodiscard]] std::optional<at::ScalarType> torch_dtype(int64_t dtype);  // of the file's number

// Why no file may ask for this op: what it does besides computing tensors. Empty for all others.
[[nodiscard]] std::string why_refused(const c10::FunctionSchema& schema);

// Nodes that are no ops of the dispatcher, by their target; null where there is none.
[[nodiscard]] Kernel symbol_kernel(const std::string& target);  // numbers: sizes and what is made of them
[[nodiscard]] Kernel higher_order_kernel(const std::string& target);  // cond, while_loop, …
[[nodiscard]] Kernel own_kernel(const std::string& target);           // ops that only Python has

}  // namespace tpubridge::exported
