#include "tpubridge/hlo/reduction.h"

#include <fmt/format.h>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"
#include "tpubridge/hlo/reducer.h"
#include "tpubridge/hlo/window.h"

namespace tpubridge::hlo {
namespace {

constexpr std::string_view kReduce = "stablehlo.reduce", kWindow = "stablehlo.reduce_window",
                           kScatter = "stablehlo.select_and_scatter";

void check_inits(std::string_view op, List<Value> operands, List<Value> inits) {
  if (operands.empty()) fail(op, "needs at least one operand");
  check_count(op, "the list of initial values", inits.size(), operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].dtype() == DType::token) fail(op, "takes no token", operands[i]);
    check_same_dims(op, operands[0], operands[i]);
    if (inits[i].rank() != 0 || inits[i].dtype() != operands[i].dtype())
      fail(op, "an initial value must be a scalar of its operand's element type",
           {{"operand", operands[i].shape().str()}, {"init", inits[i].shape().str()}});
  }
}

std::vector<int64_t> reduced_dims(const Value& x, List<int64_t> dims) {
  check_dims(kReduce, "dimensions", dims, x.rank());
  std::vector<int64_t> out;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!contains(dims, d)) out.push_back(x.dim(d));
  return out;
}

Values joined(List<Value> a, List<Value> b) {
  Values out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

std::vector<const Type*> types_of(List<Value> values) {
  std::vector<const Type*> out;
  for (const Value& v : values) out.push_back(v.type());
  return out;
}

// Scalars of the operands' types twice, as a reducing region takes them.
void reducing_region(std::string_view op, Op& writer, List<Value> inits, const Body& body) {
  const auto types = types_of(inits);
  const Values got = writer.region(types_of(joined(inits, inits)), Op::Sees::nothing, body);
  check_region(op, "reducer", got, types);
}

std::vector<const Type*> with_dims(List<Value> operands, List<int64_t> dims) {
  std::vector<const Type*> out;
  for (const Value& v : operands) out.push_back(v.builder().type(v.dtype(), dims));
  return out;
}

void write_window(Op& writer, const FullWindow& w) {
  writer.list("window_dimensions", w.size)
      .list("window_strides", w.strides)
      .list("base_dilations", w.base_dilation)
      .list("window_dilations", w.window_dilation)
      .table("padding", w.padding);
}

}  // namespace

Value reduce(Value x, Value init, List<int64_t> dims, Reducer reducer) {
  check_inits(kReduce, {x}, {init});
  const std::string region = reducer_text(kReduce, reducer, init.type());
  const auto result = reduced_dims(x, dims);
  return Op(kReduce, {x, init}).list("dimensions", dims).text_region(region).result(x.dtype(), result);
}

Values reduce(List<Value> operands, List<Value> inits, List<int64_t> dims, const Body& body) {
  check_inits(kReduce, operands, inits);
  const auto result = reduced_dims(operands[0], dims);
  Op writer(kReduce, joined(operands, inits));
  writer.list("dimensions", dims);
  reducing_region(kReduce, writer, inits, body);
  return writer.results(with_dims(operands, result));
}

Value reduce_window(Value x, Value init, const Window& window, Reducer reducer) {
  check_inits(kWindow, {x}, {init});
  const std::string region = reducer_text(kWindow, reducer, init.type());
  const FullWindow w(kWindow, x, window);
  Op writer(kWindow, {x, init});
  write_window(writer, w);
  return writer.text_region(region).result(x.dtype(), w.positions);
}

Values reduce_window(List<Value> operands, List<Value> inits, const Window& window, const Body& body) {
  check_inits(kWindow, operands, inits);
  const FullWindow w(kWindow, operands[0], window);
  Op writer(kWindow, joined(operands, inits));
  write_window(writer, w);
  reducing_region(kWindow, writer, inits, body);
  return writer.results(with_dims(operands, w.positions));
}

Value select_and_scatter(Value x, Value source, Value init, const Window& window, const Body& select,
                         const Body& scatter) {
  check_inits(kScatter, {x}, {init});
  if (!window.base_dilation.empty() || !window.window_dilation.empty())
    fail(kScatter, "its window has no dilations", x);
  const FullWindow w(kScatter, x, window);
  if (source.dtype() != x.dtype() || source.dims() != w.positions)
    fail(
        kScatter, "the source must have the operand's element type and one element per window",
        {{"operand", x.shape().str()}, {"source", source.shape().str()}, {"windows", dims_str(w.positions)}});
  Op writer(kScatter, {x, source, init});
  writer.list("window_dimensions", w.size).list("window_strides", w.strides).table("padding", w.padding);
  Builder& b = x.builder();
  const Type* scalar = init.type();
  check_region(kScatter, "selector", writer.region({scalar, scalar}, Op::Sees::nothing, select),
               {b.type(DType::pred, {})});
  check_region(kScatter, "scatter region", writer.region({scalar, scalar}, Op::Sees::nothing, scatter),
               {scalar});
  return writer.result(x.type());
}

}  // namespace tpubridge::hlo
