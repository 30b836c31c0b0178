#include "tpubridge/hlo/control.h"

#include <fmt/format.h>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {
namespace {

std::vector<const Type*> types_of(List<Value> values) {
  std::vector<const Type*> out;
  for (const Value& v : values) out.push_back(v.type());
  return out;
}

void check_call(std::string_view op, const Builder& b, const Function& f, List<Value> operands) {
  if (b.find_function(f.name) != &f) fail(op, fmt::format("'{}' is a function of another program", f.name));
  check_count(op, fmt::format("the list of operands of '{}'", f.name), operands.size(), f.parameters.size());
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].type() != f.parameters[i])
      fail(op, fmt::format("operand {} has not the type of the parameter of '{}'", i, f.name),
           {{"operand", operands[i].shape().str()}, {"parameter", f.parameters[i]->shape.str()}});
}

// Writes the branches and gives the types that all of them give.
std::vector<const Type*> branches(std::string_view op, Op& writer, List<Body> bodies) {
  std::vector<const Type*> types;
  for (size_t i = 0; i < bodies.size(); ++i) {
    const Values got = writer.region({}, Op::Sees::all, bodies[i]);
    if (i == 0) types = types_of(got);
    check_region(op, fmt::format("branch {}", i), got, types);
  }
  return types;
}

bool is_composite_name(std::string_view name) {
  const size_t dot = name.find('.');
  return dot != name.npos && is_symbol(name) && name[0] != '_' && name.find('$') == name.npos &&
         is_symbol(name.substr(dot + 1)) && name[dot + 1] != '_';
}

}  // namespace

Values while_(List<Value> inits, const Body& cond, const Body& body) {
  static constexpr std::string_view op = "stablehlo.while";
  if (inits.empty()) fail(op, "needs at least one carried value");
  const auto types = types_of(inits);
  Op writer(op, inits);
  check_region(op, "condition", writer.region(types, Op::Sees::all, cond),
               {inits[0].builder().type(DType::pred, {})});
  check_region(op, "body", writer.region(types, Op::Sees::all, body), types);
  return writer.results(types);
}

Values if_(Value pred, const Body& on_true, const Body& on_false) {
  static constexpr std::string_view op = "stablehlo.if";
  if (pred.dtype() != DType::pred || pred.rank() != 0) fail(op, "the predicate must be a pred scalar", pred);
  Op writer(op, {pred});
  const auto types = branches(op, writer, {on_true, on_false});
  return writer.results(types);
}

Values case_(Value index, List<Body> bodies) {
  static constexpr std::string_view op = "stablehlo.case";
  if (index.dtype() != DType::s32 || index.rank() != 0) fail(op, "the index must be an s32 scalar", index);
  if (bodies.empty()) fail(op, "needs at least one branch", index);
  Op writer(op, {index});
  const auto types = branches(op, writer, bodies);
  return writer.results(types);
}

Values optimization_barrier(List<Value> values) {
  if (values.empty()) return {};
  return Op("stablehlo.optimization_barrier", values).results(types_of(values));
}

Values call(Builder& b, const Function& callee, List<Value> operands) {
  check_call("func.call", b, callee, operands);
  return Op("func.call", b, operands).attr("callee", "@" + callee.name).results(callee.results);
}

Values composite(Builder& b, const std::string& name, const Function& decomposition, List<Value> operands,
                 const Attributes& attributes, int64_t version) {
  static constexpr std::string_view op = "stablehlo.composite";
  if (!is_composite_name(name)) fail(op, fmt::format("'{}' is not a name with a dot, like aten.gelu", name));
  if (version < 0 || version > INT32_MAX) fail(op, fmt::format("{} is not a version", version));
  check_call(op, b, decomposition, operands);
  return Op(op, b, operands)
      .string("name", name)
      .attr("composite_attributes", attributes_text(attributes))
      .attr("decomposition", "@" + decomposition.name)
      .number("version", version, "i32")
      .results(decomposition.results);
}

Value after_all(Builder& b, List<Value> tokens) {
  static constexpr std::string_view op = "stablehlo.after_all";
  for (const Value& t : tokens)
    if (t.dtype() != DType::token) fail(op, "takes tokens alone", t);
  return Op(op, b, tokens).result(DType::token, {});
}

}  // namespace tpubridge::hlo
