// Ops that exist in Python alone, made of torch's own; and those of torch that no file may ask for: a model
// computes tensors from tensors, and its file may be anybody's.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "tpubridge/base/errors.h"
#include "tpubridge/load/prepared.h"

namespace tpubridge::exported {
namespace {

using at::Tensor;

Tensor tensor_at(const Step& step, const Frame& frame, size_t i) {
  std::vector<c10::IValue> values;
  if (i < step.node->inputs.size()) values_of(step.node->inputs[i].arg, frame, values);
  if (values.size() != 1 || !values.front().isTensor()) throw FileError("expected a tensor");
  return values.front().toTensor();
}

// transformers::grouped_mm_fallback(input [S, in], weight [E, in, out], offs [E]): rows up to offs[e] go
// through expert e; rows after the last offset are zero. Python reads the offsets on the host and multiplies
// slices. Here each row is masked into the expert it belongs to and all experts are one product, so shapes do
// not hang on values and nothing waits: E times the work of the sliced way, and it stays on the device.
void grouped_mm(const Step& step, Frame& frame) {
  const Tensor input = tensor_at(step, frame, 0), weight = tensor_at(step, frame, 1),
               offs = tensor_at(step, frame, 2);
  if (input.dim() != 2 || weight.dim() != 3 || offs.dim() != 1 || offs.size(0) != weight.size(0) ||
      input.size(1) != weight.size(1))
    throw FileError("its tensors do not fit each other");
  const Tensor rows = at::arange(input.size(0), offs.options()).unsqueeze(1);             // [S, 1]
  const Tensor before = at::constant_pad_nd(offs.slice(0, 0, offs.size(0) - 1), {1, 0});  // where each begins
  const Tensor mine = rows.ge(before).logical_and(rows.lt(offs));                         // [S, E]
  const Tensor spread = mine.to(input.scalar_type()).unsqueeze(2) * input.unsqueeze(1);   // [S, E, in]
  put(step.node->outputs.front(), spread.flatten(1).matmul(weight.flatten(0, 1)), frame);
}

// aten::histc with its bounds given: counts by comparison, where the CPU's kernel would be a fallback.
void histogram(const Step& step, Frame& frame) {
  const auto number = [&](std::string_view name, double otherwise) {
    for (const auto& input : step.node->inputs)
      if (input.name == name) {
        std::vector<c10::IValue> v;
        values_of(input.arg, frame, v);
        if (v.size() != 1 || !v.front().isScalar()) throw FileError("its bounds are no numbers");
        return v.front().toScalar().toDouble();
      }
    return otherwise;
  };
  const Tensor x = tensor_at(step, frame, 0).flatten();
  const auto bins = static_cast<int64_t>(number("bins", 100));
  const double least = number("min", 0), most = number("max", 0);
  if (least >= most || bins <= 0) {  // the bounds are those of the values
    put(step.node->outputs.front(), at::histc(x, bins, least, most), frame);
    return;
  }
  const Tensor place =
      ((x - least) * (static_cast<double>(bins) / (most - least))).floor().clamp_max(bins - 1);
  const Tensor inside = x.ge(least).logical_and(x.le(most)).unsqueeze(1);
  const Tensor counts = place.unsqueeze(1).eq(at::arange(bins, place.options())).logical_and(inside).sum(0);
  put(step.node->outputs.front(), counts.to(x.scalar_type()), frame);
}

bool is_one_of(std::string_view name, auto&& names) { return std::ranges::find(names, name) != names.end(); }

// Tensors, numbers, text and what describes a tensor; anything else is an object of the process.
bool is_value(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::NoneType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::GeneratorType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
    case c10::TypeKind::QSchemeType:
      return true;
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::ListType:
    case c10::TypeKind::TupleType:
      return std::ranges::all_of(type.containedTypes(), [](const auto& inner) { return is_value(*inner); });
    default:
      return false;
  }
}

bool holds_text(const c10::Type& type) {
  return type.kind() == c10::TypeKind::StringType ||
         std::ranges::any_of(type.containedTypes(), [](const auto& inner) { return holds_text(*inner); });
}

bool names_a_file(const c10::Argument& argument) {
  const std::string_view name = argument.name();
  return holds_text(*argument.type()) &&
         (name.find("file") != name.npos || name == "path" || name.ends_with("_path"));
}

// Torch's own whose only effect is outside of their tensors. Checks have none, but for what they throw.
bool acts_on_the_process(const c10::FunctionSchema& schema, std::string_view name) {
  const bool writes = std::ranges::any_of(schema.arguments(), [](const c10::Argument& a) {
    return a.alias_info() != nullptr && a.alias_info()->isWrite();
  });
  const bool checks = name.starts_with("aten::_assert") || name.starts_with("aten::_validate_") ||
                      name == "aten::_linalg_check_errors" || name.starts_with("aten::sym_constrain_");
  return name.starts_with("aten::") && schema.returns().empty() && !writes && !checks;
}

}  // namespace

Kernel own_kernel(const std::string& target) {
  if (target == "torch.ops.transformers.grouped_mm_fallback.default") return grouped_mm;
  if (target == "torch.ops.aten.histc.default") return histogram;
  return nullptr;
}

std::string why_refused(const c10::FunctionSchema& schema) {
  static constexpr std::array<std::string_view, 9> process = {"prim",           "profiler",       "inductor",
                                                              "static_runtime", "debug_mode_ops", "_test",
                                                              "_native",        "_native_aot",    "fsdp"};
  static constexpr std::array<std::string_view, 5> others = {
      "c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem", "_dtensor"};
  const std::string_view name = schema.name(), space = name.substr(0, name.find("::"));
  if (std::ranges::any_of(schema.arguments(), names_a_file)) return "it reads or writes a file";
  if (is_one_of(space, process)) return "it acts on the process";
  if (is_one_of(space, others)) return "it talks to other processes";
  // Sizes and strides are taken as they are, past the end of the tensor's memory.
  if (name == "aten::_reshape_alias" || name == "aten::_reshape_alias_copy")
    return "it does not look where its tensor ends";
  if (name == "aten::set_data" || acts_on_the_process(schema, name)) return "it acts on the process";
  const auto is_object = [](const c10::Argument& a) { return !is_value(*a.type()); };
  if (std::ranges::any_of(schema.arguments(), is_object) || std::ranges::any_of(schema.returns(), is_object))
    return "it works on objects of the process";
  return "";
}

}  // namespace tpubridge::exported
