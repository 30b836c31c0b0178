#include "tpubridge/kernels/call.h"

#include <algorithm>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"
#include "tpubridge/lower/context.h"

namespace tpubridge {
namespace {

[[noreturn]] void not_a(std::string_view argument, const char* what, const char* hint = "") {
  throw ArgumentError("argument '" + std::string(argument) + "' is no " + what, {}, hint);
}

// Constants of another kind make the variant throw.
template <class F>
auto as(std::string_view argument, const char* what, F read) {
  try {
    return read();
  } catch (const std::bad_variant_access&) {
    not_a(argument, what);
  }
}

}  // namespace

size_t OpCall::place(std::string_view argument) const {
  const auto it = std::find(names_.begin(), names_.end(), argument);
  if (it != names_.end()) return static_cast<size_t>(it - names_.begin());
  std::string all;
  for (const auto& n : names_) all += (all.empty() ? "" : ", ") + n;
  throw ArgumentError("the op has no argument '" + std::string(argument) + "'", {{"arguments", all}});
}

bool OpCall::has(std::string_view argument) const { return call_.has(place(argument)); }
const Shape& OpCall::shape(std::string_view argument) const {
  const size_t i = place(argument);
  if (!call_.is_tensor(i)) not_a(argument, "tensor");
  return call_.shape(i);
}
std::vector<Shape> OpCall::shapes(std::string_view argument) const {
  const size_t i = place(argument);
  if (!call_.is_list(i)) not_a(argument, "list of tensors");
  std::vector<Shape> out;
  for (const Shape* s : call_.shapes(i))
    if (s) out.push_back(*s);
  return out;
}
int64_t OpCall::integer(std::string_view argument) const {
  return as(argument, "integer", [&] { return call_.integer(place(argument)); });
}
double OpCall::number(std::string_view argument) const {
  const size_t i = place(argument);
  if (call_.is_tensor(i)) not_a(argument, "constant", "A Scalar is an input of the program: take value().");
  return as(argument, "number", [&] { return call_.number(i); });
}
bool OpCall::flag(std::string_view argument) const {
  return as(argument, "flag", [&] { return call_.flag(place(argument)); });
}
std::vector<int64_t> OpCall::integers(std::string_view argument) const {
  return as(argument, "list of integers", [&] { return call_.integers(place(argument)); });
}
std::string OpCall::text(std::string_view argument) const {
  return as(argument, "text", [&] { return call_.text(place(argument)); });
}
std::optional<DType> OpCall::dtype(std::string_view argument) const {
  return as(argument, "element type", [&] { return call_.dtype(place(argument)); });
}

// Operands stand in the order of the arguments.
size_t LoweringCall::first_operand(size_t place) const {
  size_t n = 0;
  for (size_t i = 0; i < place; ++i) {
    if (call_.is_tensor(i)) ++n;
    if (call_.is_list(i)) {
      const auto all = call_.shapes(i);
      n += static_cast<size_t>(std::count_if(all.begin(), all.end(), [](auto* s) { return s != nullptr; }));
    }
  }
  return n;
}

hlo::Value LoweringCall::tensor(std::string_view argument) const {
  const size_t i = place(argument);
  if (!call_.is_tensor(i)) not_a(argument, "tensor");
  return operands_.at(first_operand(i));
}

hlo::Values LoweringCall::tensors(std::string_view argument) const {
  const size_t i = place(argument);
  const auto first = operands_.begin() + static_cast<std::ptrdiff_t>(first_operand(i));
  return {first, first + static_cast<std::ptrdiff_t>(shapes(argument).size())};
}

hlo::Value LoweringCall::value(std::string_view argument, DType dtype) const {
  const size_t i = place(argument);
  if (call_.is_tensor(i)) return lower::to(operands_.at(first_operand(i)), dtype);
  const double v = number(argument);
  return is_int(dtype) ? hlo::constant(b_, dtype, integer(argument)) : hlo::constant(b_, dtype, v);
}

}  // namespace tpubridge
