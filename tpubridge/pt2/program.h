// What a .pt2 file says: the graph of an exported model, its signature, its weights' places. No torch here.
//
// Values have numbers (slots) instead of names, so running a graph looks nothing up. Reading checks that
// every value is given before it is used (so there is no cycle) and by one node alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tpubridge/pt2/size_expr.h"
#include "tpubridge/pt2/tree_spec.h"

namespace tpubridge::exported {

struct Graph;

enum class ArgKind {
  none,
  value,  // what another node gave
  boolean,
  integer,
  real,
  complex,
  text,
  dtype,  // numbers of the file, not of torch
  layout,
  memory_format,
  device,
  list,
  graph,
};

struct Arg {
  ArgKind kind = ArgKind::none;
  int32_t slot = -1;          // value
  int64_t number = 0;         // boolean, integer, dtype, layout, memory_format
  double real = 0, imag = 0;  // real, complex
  std::string text;           // text; type of a device; name of a graph
  std::vector<Arg> items;     // list
  std::shared_ptr<const Graph> graph;
};

struct NamedArg {
  std::string name;
  Arg arg;
};

struct Node {
  std::string target, name, stack;  // stack: the Python lines that it comes from
  std::vector<NamedArg> inputs;
  std::vector<Arg> outputs;    // values, lists of values, or none
  std::vector<int32_t> frees;  // slots that nobody reads after this node
};

struct Graph {
  std::vector<Arg> inputs, outputs;
  std::vector<Node> nodes;
  std::vector<std::string> names;  // of the slots
};

struct TensorMeta {
  int64_t dtype = 0;  // number of the file
  std::vector<SizeExpr> sizes, strides;
  SizeExpr offset;
  bool requires_grad = false;
};

enum class InputKind { user, parameter, buffer, constant, fixed };
struct InputSpec {
  InputKind kind;
  std::string target;  // the Python name of a parameter, buffer or constant
  bool persistent = true;
  Arg value;  // fixed: the only value that the export knows
};

enum class OutputKind { user, buffer, parameter, input };  // but for the first: where it is written back
struct OutputSpec {
  OutputKind kind;
  std::string target;
};

struct Range {
  int64_t least, most;
};

struct Payload {
  std::string entry;  // in the archive
  bool is_parameter = false;
  TensorMeta meta;
};

struct Program {
  Graph graph;
  std::vector<InputSpec> inputs;            // as graph.inputs
  std::vector<OutputSpec> outputs;          // as graph.outputs
  std::map<std::string, TensorMeta> metas;  // of the graph's inputs, by name
  std::map<std::string, Range> ranges;      // of symbols
  TreeSpec in_tree, out_tree;
  std::vector<std::string> argument_names;  // of forward(); may be empty
  std::map<std::string, Payload> weights, constants;
  std::string torch_version;
  int64_t schema_major = 0, schema_minor = 0;
};

}  // namespace tpubridge::exported
