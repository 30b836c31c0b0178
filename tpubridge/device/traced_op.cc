// The boxed kernel: arguments to operands, shapes, a node, and tensors for its results.
#include "tpubridge/device/dtype.h"
#include "tpubridge/device/fallback.h"
#include "tpubridge/device/generator.h"
#include "tpubridge/device/ops.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/precision.h"

namespace tpubridge::device {
namespace {

using trace::Arg;
using trace::Ref;
using trace::Value;

// Collects the operands of one call.
class Recorder {
 public:
  Recorder(const OpInfo& info, c10::Device device) : info_(info), device_(device) {}

  // False where an argument cannot be recorded (an element type that XLA does not have, a sparse tensor).
  bool add(const c10::IValue& v, Kind kind) {
    if (v.isNone()) return put(std::monostate());
    switch (kind) {
      case Kind::tensor:
        return tensor(v.toTensor());
      case Kind::tensors:
        return tensors(v);
      case Kind::scalar:
        return scalar(v.toScalar());
      case Kind::integer:
        return v.isSymInt() ? false : put(v.toInt());
      case Kind::number:
        return put(v.toDouble());
      case Kind::boolean:
        return put(v.toBool());
      case Kind::integers:
        return integers(v);
      case Kind::numbers:
        return put(v.toDoubleVector());
      case Kind::text:
        return put(v.toStringRef());
      case Kind::dtype:
        return dtype(v.toScalarType());
      case Kind::generator:
        generator_ = v.toGenerator();
        return put(std::monostate());
      default:
        return put(std::monostate());
    }
  }

  void add_random(int64_t elements) {
    const Draw d = draw(generator_, device_.index(), elements);
    for (uint64_t word : {d.seed, d.offset}) {
      args.emplace_back(Ref{static_cast<int>(operands.size())});
      operands.push_back(
          trace::Node::number({.dtype = DType::s64, .integer = static_cast<int64_t>(word)}, device_.index()));
    }
  }

  [[nodiscard]] DType common(DType otherwise) const {
    if (!(info_.row->flags & (lower::promote | lower::promote_scalars))) return otherwise;
    return dtype_of(at::native::result_type(types_)).value_or(otherwise);
  }

  std::vector<Arg> args;
  std::vector<Value> operands;

 private:
  template <class T>
  bool put(T value) {
    args.emplace_back(std::move(value));
    return true;
  }

  bool operand(const at::Tensor& t, Ref& ref) {
    if (!t.defined()) return true;
    if (t.layout() != c10::kStrided || !dtype_of(t.scalar_type()) || t.is_conj() || t.is_neg()) return false;
    types_ = at::native::update_result_type_state(t, types_);
    ref.operand = static_cast<int>(operands.size());
    if (is_tpu(t)) {
      TORCH_CHECK(t.device() == device_,
                  "Expected all tensors to be on the same device, but found at least two devices, ", device_,
                  " and ", t.device(), "!");
      operands.push_back(read(t));
      return true;
    }
    TORCH_CHECK(t.dim() == 0 && t.device().is_cpu(),
                "Expected all tensors to be on the same device, but found at least two devices, ", device_,
                " and ", t.device(), "!");
    const bool double_tensor =
        t.scalar_type() == at::kDouble && !t.unsafeGetTensorImpl()->is_wrapped_number();
    const bool lifted = lift(t.item(), wide_scalars_ || double_tensor);
    if (!lifted) operands.push_back(exec::to_device(t.const_data_ptr(), shape_of(t), {}, device_.index()));
    return true;
  }

  bool tensor(const at::Tensor& t) {
    // The numbers that programs are full of stay constants, where the row takes a constant for a tensor.
    if (t.defined() && (info_.row->flags & lower::promote) && t.unsafeGetTensorImpl()->is_wrapped_number() &&
        !t.is_complex()) {
      const at::Scalar s = t.item();
      if (is_plain(s)) {
        types_ = at::native::update_result_type_state(t, types_);
        return s.isFloatingPoint() ? put(s.toDouble()) : put(s.toLong());
      }
    }
    Ref ref;
    if (!operand(t, ref)) return false;
    return put(ref);
  }

  bool tensors(const c10::IValue& v) {
    std::vector<Ref> refs;
    for (const auto& item : v.toListRef()) {
      refs.emplace_back();
      if (!item.isNone() && !operand(item.toTensor(), refs.back())) return false;
    }
    return put(std::move(refs));
  }

  // A number becomes an input of the program; false for complex ones.
  bool lift(const at::Scalar& s, bool wide) {
    trace::Number n;
    if (s.isFloatingPoint()) {
      n.dtype = wide ? DType::f64 : DType::f32;
      n.real = s.toDouble();
    } else if (s.isIntegral(/*includeBool=*/true)) {
      n.dtype = DType::s64;
      n.integer = s.toLong();
    } else {
      return false;
    }
    operands.push_back(trace::Node::number(n, device_.index()));
    return true;
  }

  static bool is_plain(const at::Scalar& s) {
    const double v = s.toDouble();
    return s.isBoolean() || v == 0 || v == 1 || v == -1;
  }

  bool scalar(const at::Scalar& s) {
    if (s.isComplex() || s.isSymbolic()) return false;
    if (info_.row->flags & lower::promote_scalars) types_ = at::native::update_result_type_state(s, types_);
    if ((info_.row->flags & lower::bake) || is_plain(s))
      return s.isFloatingPoint() ? put(s.toDouble()) : put(s.toLong());
    const Ref ref{static_cast<int>(operands.size())};
    lift(s, wide_scalars_);
    return put(ref);
  }

  bool integers(const c10::IValue& v) {
    if (v.isIntList()) return put(v.toIntVector());
    if (v.isInt()) return put(std::vector<int64_t>{v.toInt()});
    if (!v.isBoolList()) return false;
    std::vector<int64_t> out;
    for (bool b : v.toBoolList()) out.push_back(b ? 1 : 0);
    return put(std::move(out));
  }

  bool dtype(c10::ScalarType t) {
    const auto d = dtype_of(t);
    return d && put(*d);
  }

 public:
  bool wide_scalars_ = false;  // some operand is f64: numbers keep all their digits

 private:
  const OpInfo& info_;
  c10::Device device_;
  at::native::ResultTypeState types_;
  std::optional<at::Generator> generator_;
};

// Calls `f` with each defined tensor of the arguments.
template <class F>
void each_tensor(c10::ArrayRef<c10::IValue> args, F f) {
  for (const auto& v : args) {
    if (v.isTensor()) {
      if (v.toTensor().defined()) f(v.toTensor());
    } else if (v.isList() && (v.isTensorList() || v.isOptionalTensorList())) {
      for (const auto& item : v.toListRef())
        if (!item.isNone() && item.toTensor().defined()) f(item.toTensor());
    }
  }
}

std::optional<c10::Device> device_of(c10::ArrayRef<c10::IValue> args) {
  std::optional<c10::Device> device;
  each_tensor(args, [&](const at::Tensor& t) {
    if (!device && is_tpu(t)) device = t.device();
  });
  for (const auto& v : args)
    if (!device && v.isDevice() && is_tpu(v.toDevice())) device = v.toDevice();
  if (device && !device->has_index()) device = resolve(device);
  return device;
}

// torch's setting as a number of hlo::Precision.
int64_t float32_precision() {
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::HIGHEST:
      return static_cast<int64_t>(hlo::Precision::highest);
    case at::Float32MatmulPrecision::HIGH:
      return static_cast<int64_t>(hlo::Precision::high);
    default:
      return static_cast<int64_t>(hlo::Precision::default_);
  }
}

c10::ScalarType scalar_type(DType t) {
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i)
    if (dtype_of(static_cast<c10::ScalarType>(i)) == t) return static_cast<c10::ScalarType>(i);
  TORCH_CHECK(false, "torch has no element type ", std::string(name(t)));
}

std::vector<Meta> shapes_of_call(const c10::OperatorHandle& op, const OpInfo& info,
                                 c10::ArrayRef<c10::IValue> args, const Recorder& r) {
  if (!info.row->shape) return infer(op, info, args);
  std::vector<const Shape*> shapes;
  for (const auto& o : r.operands) shapes.push_back(&o.shape());
  std::vector<Meta> out;
  for (auto& s : info.row->shape(lower::Call(r.args, std::move(shapes)))) {
    if (s.dtype == DType::token) s.dtype = r.common(DType::f32);
    auto g = trace::contiguous(s.dims);
    out.push_back({g.sizes, g.strides, scalar_type(s.dtype)});
  }
  return out;
}

// Puts a result into the argument that the op writes to.
void put_result(const at::Tensor& to, Value value, const Meta& meta, bool resizes) {
  if (resizes && to.sizes() != c10::IntArrayRef(meta.sizes)) {
    at::native::resize_output(to, meta.sizes);
    if (to.is_contiguous()) to.unsafeGetTensorImpl()->set_sizes_and_strides(meta.sizes, meta.strides);
  }
  TORCH_CHECK(to.sizes() == c10::IntArrayRef(meta.sizes), "output with shape ", to.sizes(),
              " doesn't match the broadcast shape ", c10::IntArrayRef(meta.sizes));
  at::assert_no_internal_overlap(to);
  write(to, convert(std::move(value), *dtype_of(to.scalar_type())));
}

}  // namespace

std::vector<Value> record(const lower::Row* row, std::vector<Value> operands, std::vector<Arg> args,
                          std::vector<Shape> shapes, int device, DType common) {
  const size_t n = shapes.size();
  const Value first =
      trace::Node::make(row, std::move(operands), std::move(args), std::move(shapes), device, common);
  std::vector<Value> out;
  for (uint32_t i = 0; i < n; ++i) out.emplace_back(first.node(), i);
  return out;
}

void TracedOp::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t n = op.schema().arguments().size();
  const auto args = torch::jit::last(*stack, n);
  const auto device = info_.traceable ? device_of(args) : std::nullopt;
  if (!device) return fall_back(op, stack);

  std::unique_lock lock(exec::mutex());
  Recorder r(info_, *device);
  each_tensor(args, [&](const at::Tensor& t) {
    r.wide_scalars_ |= is_tpu(t) && (t.scalar_type() == at::kDouble || t.scalar_type() == at::kComplexDouble);
  });
  bool ok = true;
  for (size_t i = 0; i < info_.row_args && ok; ++i) ok = r.add(args[i], info_.kinds[i]);
  std::vector<Meta> metas;
  if (ok) metas = shapes_of_call(op, info_, args, r);
  if (metas.empty()) {
    lock.unlock();
    return fall_back(op, stack);
  }

  std::vector<Shape> shapes;
  int64_t elements = 0;
  for (size_t i = 0; i < metas.size(); ++i) {
    const auto dtype = dtype_of(metas[i].dtype);
    TORCH_CHECK(dtype, op.operator_name(), ": the result would be of ", metas[i].dtype,
                ", which XLA does not have");
    shapes.push_back({*dtype, metas[i].sizes});
    elements += shapes.back().elements();
  }
  if (info_.row->flags & lower::random) r.add_random(elements);
  if (info_.row->flags & lower::precise) r.args.emplace_back(float32_precision());
  const DType common = r.common(shapes[0].dtype);
  const auto values =
      record(info_.row, std::move(r.operands), std::move(r.args), std::move(shapes), device->index(), common);

  std::vector<at::Tensor> results;
  for (size_t i = 0; i < values.size(); ++i) {
    if (info_.written.empty()) {
      results.push_back(make_tensor(values[i], metas[i].sizes, metas[i].strides, metas[i].dtype, *device));
    } else {
      results.push_back(args[info_.written[i]].toTensor());
      put_result(results.back(), values[i], metas[i], info_.resizes);
    }
  }
  torch::jit::drop(*stack, n);
  for (auto& t : results) stack->emplace_back(std::move(t));
  exec::after_op(device->index());
}

}  // namespace tpubridge::device
