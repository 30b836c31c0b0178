// Numbers of the host in a graph: sizes, and arithmetic and conditions over them, as Python has them.
#include <ATen/ATen.h>

#include <cmath>
#include <map>

#include "tpubridge/base/errors.h"
#include "tpubridge/load/prepared.h"

namespace tpubridge::exported {
namespace {

using c10::IValue;
using Values = std::vector<IValue>;
using Compute = IValue (*)(const Values&);

[[noreturn]] void number_error(const std::string& what) {
  throw FileError(what, {}, "", Code::invalid_argument);
}

const IValue& nth(const Values& v, size_t i) {
  if (i >= v.size()) number_error("an argument is missing");
  return v[i];
}
bool whole(const IValue& v) { return v.isInt() || v.isBool(); }
int64_t whole_of(const IValue& v) {
  if (v.isBool()) return v.toBool();
  if (!v.isInt()) number_error("expected a whole number");
  return v.toInt();
}
double real_of(const IValue& v) {
  if (v.isDouble()) return v.toDouble();
  return static_cast<double>(whole_of(v));
}
bool truth_of(const IValue& v) { return v.isDouble() ? v.toDouble() != 0 : whole_of(v) != 0; }

// Whole numbers stay whole, and must fit.
template <class Whole, class Real>
IValue both(const Values& v, Whole whole_op, Real real_op) {
  const IValue &a = nth(v, 0), &b = nth(v, 1);
  if (!whole(a) || !whole(b)) return real_op(real_of(a), real_of(b));
  int64_t out = 0;
  if (whole_op(whole_of(a), whole_of(b), &out)) number_error("the result does not fit 64 bits");
  return out;
}
// As Python rounds: down.
bool floor_div(int64_t a, int64_t b, int64_t* out) {
  if (b == 0) number_error("division by zero");
  if (b == -1) return __builtin_sub_overflow(int64_t{0}, a, out);
  *out = a / b - (a % b != 0 && (a < 0) != (b < 0));
  return false;
}
bool floor_mod(int64_t a, int64_t b, int64_t* out) {
  int64_t quotient = 0;
  if (floor_div(a, b, &quotient)) return true;
  *out = b == -1 ? 0 : a - quotient * b;
  return false;
}
bool power(int64_t a, int64_t b, int64_t* out) {
  if (b < 0 || b > 4096) number_error("a power that is no size");
  *out = 1;
  for (; b > 0; --b)
    if (__builtin_mul_overflow(*out, a, out)) return true;
  return false;
}
template <class Compare>
IValue compare(const Values& v, Compare c) {
  if (whole(nth(v, 0)) && whole(nth(v, 1))) return c(whole_of(v[0]), whole_of(v[1]));
  return c(real_of(v[0]), real_of(v[1]));
}
int64_t to_whole(double v) {
  if (!(std::abs(v) < 9e18)) number_error("a number that is no size");
  return static_cast<int64_t>(v);
}
const at::Tensor tensor_of(const Values& v) {
  if (!nth(v, 0).isTensor()) number_error("expected a tensor");
  return v[0].toTensor();
}

const std::map<std::string, Compute>& computes() {
  static const std::map<std::string, Compute> all = {
      {"torch.ops.aten.sym_size.int",
       [](const Values& v) -> IValue { return tensor_of(v).size(whole_of(nth(v, 1))); }},
      {"torch.ops.aten.sym_stride.int",
       [](const Values& v) -> IValue { return tensor_of(v).stride(whole_of(nth(v, 1))); }},
      {"torch.ops.aten.sym_numel.default", [](const Values& v) -> IValue { return tensor_of(v).numel(); }},
      {"torch.ops.aten.sym_storage_offset.default",
       [](const Values& v) -> IValue { return tensor_of(v).storage_offset(); }},
      {"add",
       [](const Values& v) {
         return both(
             v, [](auto a, auto b, auto* o) { return __builtin_add_overflow(a, b, o); }, std::plus<double>());
       }},
      {"sub",
       [](const Values& v) {
         return both(
             v, [](auto a, auto b, auto* o) { return __builtin_sub_overflow(a, b, o); },
             std::minus<double>());
       }},
      {"mul",
       [](const Values& v) {
         return both(
             v, [](auto a, auto b, auto* o) { return __builtin_mul_overflow(a, b, o); },
             std::multiplies<double>());
       }},
      {"floordiv",
       [](const Values& v) {
         return both(v, floor_div, [](double a, double b) { return std::floor(a / b); });
       }},
      {"mod",
       [](const Values& v) {
         return both(v, floor_mod, [](double a, double b) { return a - b * std::floor(a / b); });
       }},
      {"pow",
       [](const Values& v) { return both(v, power, [](double a, double b) { return std::pow(a, b); }); }},
      {"lshift",
       [](const Values& v) {
         return both(
             v,
             [](int64_t a, int64_t b, int64_t* o) {
               return power(2, b, o) || __builtin_mul_overflow(a, *o, o);
             },
             std::plus<double>());
       }},
      {"rshift",
       [](const Values& v) {
         return both(
             v,
             [](int64_t a, int64_t b, int64_t* o) {
               *o = b < 0 || b > 63 ? 0 : a >> b;
               return false;
             },
             std::plus<double>());
       }},
      {"truediv",
       [](const Values& v) -> IValue {
         if (real_of(nth(v, 1)) == 0) number_error("division by zero");
         return real_of(nth(v, 0)) / real_of(v[1]);
       }},
      {"neg",
       [](const Values& v) -> IValue {
         return nth(v, 0).isDouble()
                    ? IValue(-v[0].toDouble())
                    : both(
                          {IValue(0), v[0]},
                          [](auto a, auto b, auto* o) { return __builtin_sub_overflow(a, b, o); },
                          std::minus<double>());
       }},
      {"pos", [](const Values& v) -> IValue { return nth(v, 0); }},
      {"eq", [](const Values& v) { return compare(v, std::equal_to<>()); }},
      {"ne", [](const Values& v) { return compare(v, std::not_equal_to<>()); }},
      {"lt", [](const Values& v) { return compare(v, std::less<>()); }},
      {"le", [](const Values& v) { return compare(v, std::less_equal<>()); }},
      {"gt", [](const Values& v) { return compare(v, std::greater<>()); }},
      {"ge", [](const Values& v) { return compare(v, std::greater_equal<>()); }},
      {"and_", [](const Values& v) -> IValue { return truth_of(nth(v, 0)) && truth_of(nth(v, 1)); }},
      {"or_", [](const Values& v) -> IValue { return truth_of(nth(v, 0)) || truth_of(nth(v, 1)); }},
      {"sym_not", [](const Values& v) -> IValue { return !truth_of(nth(v, 0)); }},
      {"sym_ite", [](const Values& v) -> IValue { return truth_of(nth(v, 0)) ? nth(v, 1) : nth(v, 2); }},
      {"sym_max",
       [](const Values& v) {
         return both(
             v,
             [](int64_t a, int64_t b, int64_t* o) {
               *o = std::max(a, b);
               return false;
             },
             [](double a, double b) { return std::max(a, b); });
       }},
      {"sym_min",
       [](const Values& v) {
         return both(
             v,
             [](int64_t a, int64_t b, int64_t* o) {
               *o = std::min(a, b);
               return false;
             },
             [](double a, double b) { return std::min(a, b); });
       }},
      {"sym_float", [](const Values& v) -> IValue { return real_of(nth(v, 0)); }},
      {"sym_int",
       [](const Values& v) -> IValue {
         return nth(v, 0).isDouble() ? to_whole(std::trunc(v[0].toDouble())) : whole_of(v[0]);
       }},
      {"sym_sqrt", [](const Values& v) -> IValue { return std::sqrt(real_of(nth(v, 0))); }},
      {"trunc",
       [](const Values& v) -> IValue {
         return nth(v, 0).isDouble() ? to_whole(std::trunc(v[0].toDouble())) : whole_of(v[0]);
       }},
      {"ceil",
       [](const Values& v) -> IValue {
         return nth(v, 0).isDouble() ? to_whole(std::ceil(v[0].toDouble())) : whole_of(v[0]);
       }},
      {"floor",
       [](const Values& v) -> IValue {
         return nth(v, 0).isDouble() ? to_whole(std::floor(v[0].toDouble())) : whole_of(v[0]);
       }},
  };
  return all;
}

// "_operator.add", "math.trunc", "torch.sym_max" → the last word.
std::string short_name(const std::string& target) {
  for (const char* prefix : {"_operator.", "operator.", "math.", "torch."})
    if (target.starts_with(prefix) && target.find('.', std::string_view(prefix).size()) == target.npos)
      return target.substr(std::string_view(prefix).size());
  return target;
}

Values inputs_of(const Step& step, const Frame& frame) {
  Values out;
  for (const auto& input : step.node->inputs) values_of(input.arg, frame, out);
  return out;
}

void compute(const Step& step, Frame& frame) {
  IValue out = computes().at(short_name(step.node->target))(inputs_of(step, frame));
  if (!step.node->outputs.empty()) put(step.node->outputs.front(), std::move(out), frame);
}

// torch.export's checks over numbers: what they demand was true of the export's own shapes.
void check_truth(const Step& step, Frame& frame) {
  const Values v = inputs_of(step, frame);
  if (truth_of(nth(v, 0))) return;
  number_error(v.size() > 1 && v[1].isString() ? v[1].toStringRef()
                                               : "a condition of the export does not hold");
}

void nothing(const Step&, Frame&) {}

}  // namespace

Kernel symbol_kernel(const std::string& target) {
  if (target == "torch.ops.aten._assert_scalar.default") return check_truth;
  // Sizes and types are checked when the module is called; what hangs on values would have to wait for them.
  if (target == "torch.ops.aten._assert_tensor_metadata.default" ||
      target == "torch.ops.aten._assert_async.msg" || target == "torch.ops.aten._assert_async.default" ||
      target == "torch.ops.aten.sym_constrain_range.default" ||
      target == "torch.ops.aten.sym_constrain_range_for_size.default")
    return nothing;
  return computes().contains(short_name(target)) ? compute : nullptr;
}

}  // namespace tpubridge::exported
