// One walk over the arguments of a call, used twice: to make the key by which a call is recognised, with its
// operands (call_key.cc), and, when it is new, to make the constants of its node (call_plan.cc). Both must
// agree on which argument becomes an operand, so the decision is made here and nowhere else.
#pragma once

#include "tpubridge/device/dtype.h"
#include "tpubridge/device/ops.h"
#include "tpubridge/device/storage.h"

namespace tpubridge::device {

// Numbers that programs are full of are part of the program; every other is an input of it.
[[nodiscard]] inline bool is_plain(const at::Scalar& s) {
  if (s.isComplex()) return false;
  const double v = s.toDouble();
  return s.isBoolean() || v == 0 || v == 1 || v == -1;
}

template <class Sink>
class CallWalk {
 public:
  CallWalk(const OpInfo& info, c10::Device device, Sink& sink) : info_(info), device_(device), sink_(sink) {}

  // False where an argument cannot be recorded (an element type that XLA does not have, a sparse tensor).
  bool run(c10::ArrayRef<c10::IValue> args) {
    for (at_ = 0; at_ < info_.row_args; ++at_)
      if (!argument(args[at_], info_.kinds[at_])) return false;
    return true;
  }

 private:
  bool argument(const c10::IValue& v, Kind kind) {
    if (v.isNone()) return sink_.none(), true;
    switch (kind) {
      case Kind::tensor:
        return tensor(v.toTensor());
      case Kind::tensors:
        return tensors(v);
      case Kind::scalar:
        return scalar(v.toScalar());
      case Kind::integer:
        return !v.isSymInt() && (sink_.constant(v.toInt()), true);
      case Kind::number:
        return sink_.constant(v.toDouble()), true;
      case Kind::boolean:
        return sink_.constant(v.toBool()), true;
      case Kind::integers:
        return integers(v);
      case Kind::numbers:
        return sink_.constant(v.toDoubleVector()), true;
      case Kind::text:
        return sink_.constant(v.toStringRef()), true;
      case Kind::dtype: {
        const auto d = dtype_of(v.toScalarType());
        return d && (sink_.constant(*d), true);
      }
      case Kind::generator:
        return sink_.generator(v.toGenerator()), true;
      default:
        return sink_.ignored(v), true;
    }
  }

  bool tensor(const at::Tensor& t) {
    if (!t.defined()) return sink_.absent(), true;
    if ((info_.row->flags & lower::promote) && t.unsafeGetTensorImpl()->is_wrapped_number() &&
        !t.is_complex()) {
      const at::Scalar s = t.item();
      if (is_plain(s)) {
        sink_.promotes(t);
        return plain(s), true;
      }
    }
    return operand(t);
  }

  bool operand(const at::Tensor& t) {
    if (t.layout() != c10::kStrided || !dtype_of(t.scalar_type()) || t.is_conj() || t.is_neg()) return false;
    const bool here = is_tpu(t);
    TORCH_CHECK(here ? t.device() == device_ : t.dim() == 0 && t.device().is_cpu(),
                "Expected all tensors to be on the same device, but found at least two devices, ", device_,
                " and ", t.device(), "! Argument '", info_.schema->arguments()[at_].name(), "' of ",
                info_.schema->name(), " is on ", t.device(), "; .to(\"", device_, "\") brings it there.");
    sink_.promotes(t);
    if (here)
      sink_.tensor(t);
    else
      sink_.host_number(t);
    return true;
  }

  bool tensors(const c10::IValue& v) {
    const auto list = v.toListRef();
    sink_.begin_list(list.size());
    for (const auto& item : list) {
      if (item.isNone() || !item.toTensor().defined())
        sink_.absent();
      else if (!operand(item.toTensor()))
        return false;
    }
    sink_.end_list();
    return true;
  }

  void plain(const at::Scalar& s) {
    if (s.isFloatingPoint())
      sink_.constant(s.toDouble());
    else
      sink_.constant(s.toLong());
  }

  bool scalar(const at::Scalar& s) {
    if (s.isComplex() || s.isSymbolic()) return false;
    if (info_.row->flags & lower::promote_scalars) sink_.promotes(s);
    if ((info_.row->flags & lower::bake) || is_plain(s))
      plain(s);
    else
      sink_.number(s);
    return true;
  }

  bool integers(const c10::IValue& v) {
    c10::SmallVector<int64_t, 8> out;
    if (v.isInt()) {
      out.push_back(v.toInt());
    } else if (v.isIntList() || v.isBoolList()) {
      for (const c10::IValue& item : v.toListRef())
        out.push_back(item.isInt() ? item.toInt() : item.toBool() ? 1 : 0);
    } else {
      return false;
    }
    return sink_.constant(c10::IntArrayRef(out)), true;
  }

  const OpInfo& info_;
  c10::Device device_;
  Sink& sink_;
  size_t at_ = 0;  // the argument that is looked at
};

}  // namespace tpubridge::device
