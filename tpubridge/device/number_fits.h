// Whether the result of a call can hold its numbers: torch refuses those that it cannot.
#pragma once

#include "tpubridge/device/call.h"
#include "tpubridge/device/storage.h"

namespace tpubridge::device {

template <class T>
[[nodiscard]] bool holds(const at::Scalar& s) {
  return s.isFloatingPoint() ? !c10::overflows<T, double>(s.toDouble())
                             : !c10::overflows<T, int64_t>(s.toLong());
}

[[nodiscard]] inline bool holds(c10::ScalarType type, const at::Scalar& s) {
  using S = c10::ScalarType;
  if (s.isComplex() || s.isSymbolic()) return true;  // not recorded anyway
  switch (type) {
    case S::Byte:
      return holds<uint8_t>(s);
    case S::Char:
      return holds<int8_t>(s);
    case S::Short:
      return holds<int16_t>(s);
    case S::Int:
      return holds<int32_t>(s);
    case S::Long:
      return holds<int64_t>(s);
    case S::Half:
      return holds<c10::Half>(s);
    case S::BFloat16:
      return holds<c10::BFloat16>(s);
    case S::Float:
    case S::ComplexFloat:
      return holds<float>(s);
    default:
      return true;
  }
}

// Whether every number of a type fits: then it need not be read, which a compiled step would have to do again
// at each call.
[[nodiscard]] inline bool always_holds(c10::ScalarType type, c10::ScalarType number) {
  using S = c10::ScalarType;
  const bool wide = type == S::Double || type == S::ComplexDouble || type == S::Float ||
                    type == S::ComplexFloat || type == S::BFloat16;
  return type == number || number == S::Bool || type == S::Bool ||
         (wide && (c10::isIntegralType(number, true) || c10::isReducedFloatingType(number))) ||
         (wide && type != S::BFloat16 && number == S::Float);
}

// Numbers are Scalars and, where no types are promoted, CPU tensors of one element. Tensors of the device are
// not looked at: that would mean to wait for them.
[[nodiscard]] inline bool numbers_fit(const OpInfo& info, c10::ArrayRef<c10::IValue> args, const Plan& plan) {
  for (size_t i = 0; i < info.row_args; ++i) {
    std::optional<at::Scalar> s;
    if (info.kinds[i] == Kind::scalar && !args[i].isNone()) s = args[i].toScalar();
    const bool tensor = info.kinds[i] == Kind::tensor && args[i].isTensor();
    if (tensor && !(info.row->flags & lower::promote)) {
      const at::Tensor& t = args[i].toTensor();
      if (t.defined() && !is_tpu(t) && t.dim() == 0 && !always_holds(plan.outputs[0].dtype, t.scalar_type()))
        s = t.item();
    }
    if (s && !holds(plan.outputs[0].dtype, *s)) return false;
  }
  return true;
}

}  // namespace tpubridge::device
