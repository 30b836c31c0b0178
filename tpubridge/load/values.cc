// Arguments of the file as values of torch.
#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/load/prepared.h"

namespace tpubridge::exported {
namespace {

using c10::IValue;
using c10::TypeKind;

[[noreturn]] void unfit(const Arg&, const c10::Type& type) {
  throw FileError("an argument does not fit the op, which wants " + type.str(), {}, "",
                  Code::invalid_argument);
}

int64_t torch_layout(int64_t layout) {
  constexpr int64_t kStrided = 7;
  if (layout != kStrided)
    throw UnsupportedError("only dense tensors can be made; the op asks for another layout");
  return static_cast<int64_t>(at::kStrided);
}

int64_t torch_memory_format(int64_t format) {
  switch (format) {
    case 1:
      return static_cast<int64_t>(at::MemoryFormat::Contiguous);
    case 2:
      return static_cast<int64_t>(at::MemoryFormat::ChannelsLast);
    case 3:
      return static_cast<int64_t>(at::MemoryFormat::ChannelsLast3d);
    case 4:
      return static_cast<int64_t>(at::MemoryFormat::Preserve);
    default:
      throw FileError("a memory format is not known", {{"number", std::to_string(format)}});
  }
}

// Without a wish for a type.
IValue plain_value(const Arg& arg, const Frame& frame) {
  switch (arg.kind) {
    case ArgKind::none:
      return {};
    case ArgKind::value:
      return frame.slots[static_cast<size_t>(arg.slot)];
    case ArgKind::boolean:
      return arg.number != 0;
    case ArgKind::integer:
      return arg.number;
    case ArgKind::real:
      return arg.real;
    case ArgKind::complex:
      return c10::complex<double>(arg.real, arg.imag);
    case ArgKind::text:
      return arg.text;
    case ArgKind::dtype: {
      const auto type = torch_dtype(arg.number);
      if (!type) throw FileError("an element type is not known", {{"number", std::to_string(arg.number)}});
      return static_cast<int64_t>(*type);
    }
    case ArgKind::layout:
      return torch_layout(arg.number);
    case ArgKind::memory_format:
      return torch_memory_format(arg.number);
    case ArgKind::device:
      return arg.text == "meta" ? at::Device(at::kMeta) : frame.context.device;
    case ArgKind::list:
    case ArgKind::graph:
      break;
  }
  throw FileError("a list or a graph stands where one value is wanted");
}

// As C++ does for `tensor + 2`: a tensor of no dimensions that leaves the other's type alone.
IValue as_tensor(const IValue& v, const Arg& arg, const c10::Type& type) {
  if (v.isTensor()) return v;
  if (!v.isScalar()) unfit(arg, type);
  at::Tensor out = at::scalar_to_tensor(v.toScalar());
  out.unsafeGetTensorImpl()->set_wrapped_number(true);
  return out;
}

template <class T>
IValue list_as(const Arg& arg, const c10::Type& element, const Frame& frame, auto&& take) {
  c10::List<T> out;
  out.reserve(arg.items.size());
  for (const auto& item : arg.items) out.push_back(take(value_of(item, element, frame)));
  return out;
}

IValue list_value(const Arg& arg, const c10::Type& element, const Frame& frame) {
  switch (element.kind()) {
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return list_as<int64_t>(arg, element, frame, [](const IValue& v) { return v.toInt(); });
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return list_as<double>(arg, element, frame, [](const IValue& v) { return v.toDouble(); });
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return list_as<bool>(arg, element, frame, [](const IValue& v) { return v.toBool(); });
    case TypeKind::TensorType:
      return list_as<at::Tensor>(arg, element, frame, [](const IValue& v) { return v.toTensor(); });
    case TypeKind::StringType:
      return list_as<std::string>(arg, element, frame, [](const IValue& v) { return v.toStringRef(); });
    case TypeKind::NumberType:
      return list_as<at::Scalar>(arg, element, frame, [](const IValue& v) { return v.toScalar(); });
    case TypeKind::OptionalType:
      return list_as<std::optional<at::Tensor>>(arg, element, frame, [](const IValue& v) {
        return v.isNone() ? std::optional<at::Tensor>() : std::optional(v.toTensor());
      });
    default:
      unfit(arg, element);
  }
}

}  // namespace

std::optional<at::ScalarType> torch_dtype(int64_t dtype) {
  static const std::map<int64_t, at::ScalarType> types = {{1, at::kByte},
                                                          {2, at::kChar},
                                                          {3, at::kShort},
                                                          {4, at::kInt},
                                                          {5, at::kLong},
                                                          {6, at::kHalf},
                                                          {7, at::kFloat},
                                                          {8, at::kDouble},
                                                          {9, at::kComplexHalf},
                                                          {10, at::kComplexFloat},
                                                          {11, at::kComplexDouble},
                                                          {12, at::kBool},
                                                          {13, at::kBFloat16},
                                                          {28, at::kUInt16},
                                                          {29, at::kFloat8_e4m3fn},
                                                          {30, at::kFloat8_e5m2},
                                                          {31, at::kFloat8_e4m3fnuz},
                                                          {32, at::kFloat8_e5m2fnuz},
                                                          {33, at::kFloat8_e8m0fnu},
                                                          {34, at::kUInt32},
                                                          {35, at::kUInt64}};
  const auto at = types.find(dtype);
  return at == types.end() ? std::nullopt : std::optional(at->second);
}

IValue value_of(const Arg& arg, const c10::Type& type, const Frame& frame) {
  if (type.kind() == TypeKind::OptionalType) {
    if (arg.kind == ArgKind::none) return {};
    return value_of(arg, *type.containedType(0), frame);
  }
  if (type.kind() == TypeKind::ListType) {
    if (arg.kind == ArgKind::list) return list_value(arg, *type.containedType(0), frame);
    Arg one;  // a number for all of them
    one.kind = ArgKind::list;
    one.items = {arg};
    return list_value(one, *type.containedType(0), frame);
  }
  const IValue v = plain_value(arg, frame);
  switch (type.kind()) {
    case TypeKind::TensorType:
      return v.isNone() ? IValue(at::Tensor()) : as_tensor(v, arg, type);
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      if (v.isBool()) return static_cast<int64_t>(v.toBool());
      if (!v.isInt()) unfit(arg, type);
      return v;
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      if (!v.isInt() && !v.isDouble() && !v.isBool()) unfit(arg, type);
      return v.toScalar().toDouble();
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      if (v.isInt()) return v.toInt() != 0;
      if (!v.isBool()) unfit(arg, type);
      return v;
    case TypeKind::NumberType:
      if (v.isTensor()) return v.toTensor().item();
      if (!v.isScalar()) unfit(arg, type);
      return v;
    case TypeKind::StringType:
      if (!v.isString()) unfit(arg, type);
      return v;
    case TypeKind::DeviceObjType:
      if (!v.isDevice()) unfit(arg, type);
      return v;
    case TypeKind::GeneratorType:
      if (!v.isNone()) unfit(arg, type);
      return v;
    default:
      return v;
  }
}

void values_of(const Arg& arg, const Frame& frame, std::vector<IValue>& out) {
  if (arg.kind != ArgKind::list) return out.push_back(plain_value(arg, frame));
  for (const auto& item : arg.items) values_of(item, frame, out);
}

void put(const Arg& output, IValue value, Frame& frame) {
  if (output.kind == ArgKind::value) {
    frame.slots[static_cast<size_t>(output.slot)] = std::move(value);
  } else if (output.kind == ArgKind::list) {
    if (!value.isList()) throw FileError("the op gives one value, the graph wants a list of them");
    const auto items = value.toListRef();
    if (items.size() != output.items.size())
      throw FileError("the op gives " + std::to_string(items.size()) + " values, the graph wants " +
                      std::to_string(output.items.size()));
    for (size_t i = 0; i < items.size(); ++i) put(output.items[i], items[i], frame);
  }
}

}  // namespace tpubridge::exported
