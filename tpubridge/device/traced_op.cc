// The boxed kernel: the call is read, its plan found or made, a node recorded, and tensors made for its
// results.
#include "tpubridge/base/errors.h"
#include "tpubridge/device/call.h"
#include "tpubridge/device/check_indices.h"
#include "tpubridge/device/counted.h"
#include "tpubridge/device/dtype.h"
#include "tpubridge/device/fallback.h"
#include "tpubridge/device/generator.h"
#include "tpubridge/device/hand_over.h"
#include "tpubridge/device/host_indices.h"
#include "tpubridge/device/number_fits.h"
#include "tpubridge/device/place.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {
namespace {

using trace::Arg;
using trace::Value;

std::optional<c10::Device> device_of(const OpInfo& info, c10::ArrayRef<c10::IValue> args) {
  std::optional<c10::Device> device;
  each_tensor(info, args, [&](const at::Tensor& t) {
    if (!device && is_tpu(t)) device = t.device();
  });
  for (const auto& v : args)
    if (!device && v.isDevice() && is_tpu(v.toDevice())) device = v.toDevice();
  if (device && !device->has_index()) device = resolve(device);
  return device;
}

// Tensors that are to be read as conjugates or negatives (products get them so) are made plain.
void resolve_bits(const OpInfo& info, torch::jit::Stack& stack) {
  const size_t first = stack.size() - info.kinds.size();
  for (size_t i = 0; i < info.row_args; ++i) {
    c10::IValue& v = stack[first + i];
    if (info.kinds[i] != Kind::tensor || !v.isTensor()) continue;
    const at::Tensor& t = v.toTensor();
    if (t.defined() && (t.is_conj() || t.is_neg()) &&
        std::find(info.written.begin(), info.written.end(), i) == info.written.end())
      v = t.resolve_conj().resolve_neg();
  }
}

// The CPU has the words for a number that the result cannot hold, and for an out= of another type. Meta
// kernels look at the type of out= themselves.
bool numbers_and_types_fit(const OpInfo& info, c10::ArrayRef<c10::IValue> args, const Plan& plan) {
  if ((info.row->flags & lower::fitting) && !numbers_fit(info, args, plan)) return false;
  if (!info.resizes || !info.row->shape) return true;
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (args[info.written[i]].toTensor().scalar_type() != plan.outputs[i].dtype) return false;
  return true;
}

// Puts a result into the argument that the op writes to.
void put_result(const at::Tensor& to, Value value, const Plan::Output& out, bool resizes) {
  if (resizes && to.sizes() != c10::IntArrayRef(out.sizes)) {
    at::native::resize_output(to, out.sizes);
    if (to.is_contiguous()) to.unsafeGetTensorImpl()->set_sizes_and_strides(out.sizes, out.strides);
  }
  TORCH_CHECK(to.sizes() == c10::IntArrayRef(out.sizes), "output with shape ", to.sizes(),
              " doesn't match the broadcast shape ", c10::IntArrayRef(out.sizes));
  at::assert_no_internal_overlap(to);
  write(to, convert(std::move(value), dtype_of(to.scalar_type()).value()));
}

void add_random(CallKey& key, int64_t elements, c10::DeviceIndex device) {
  const Draw d = draw(key.generator, device, elements);
  for (uint64_t word : {d.seed, d.offset})
    key.operands.push_back(
        trace::Node::number({.dtype = DType::s64, .integer = static_cast<int64_t>(word)}, device));
  if (Recording* r = recording()) {
    const size_t n = key.operands.size();
    r->draw(key.generator.value_or(default_generator(device)), elements, d, key.operands[n - 2],
            key.operands[n - 1]);
  }
}

// In eager mode the op runs now, and what goes wrong is its own fault: the error says so.
void finish(const c10::OperatorHandle& op, Value value) {
  const int device = value->device();
  if (!exec::eager()) {
    value = Value();
    after_op(device);
    return;
  }
  try {
    exec::after_op(device);
    for (uint32_t i = 0; i < value->shapes().size(); ++i)
      if (value->data(i)) exec::wait_for(*value.node(), i);
  } catch (Error& e) {
    e.add({{"op", c10::toString(op.operator_name())}, {"called from", user_place()}});
    throw;
  }
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

const Plan& TracedOp::plan(const c10::OperatorHandle& op, c10::Device device, c10::ArrayRef<c10::IValue> args,
                           const CallKey& key) {
  return plans_->get(key.words, [&] { return make_plan(op, info_, device, args, key); });
}

void TracedOp::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          torch::jit::Stack* stack) try {
  const size_t n = info_.kinds.size();
  const auto args = torch::jit::last(*stack, n);
  const auto device = info_.traceable ? device_of(info_, args) : std::nullopt;
  if (!device) return fall_back(op, stack);
  resolve_bits(info_, *stack);
  if (info_.indices) bring_indices(*info_.indices, *stack, n);
  if (info_.indices && checks_indices()) check_indices(op, *info_.indices, args);

  std::unique_lock lock(exec::mutex());
  CallKey key;
  const bool readable = read_call(info_, *device, args, key);
  const Plan* plan = readable ? &this->plan(op, *device, args, key) : nullptr;
  if (!plan || plan->outputs.empty() || !numbers_and_types_fit(info_, args, *plan)) {
    lock.unlock();
    const Masks masks = info_.indices ? replace_masks(*info_.indices, *stack, n) : Masks::none;
    if (masks == Masks::done) return;
    if (masks == Masks::places) return (*this)(op, keys, stack);
    return fall_back_refused(op, !info_.written.empty(), stack);
  }
  if (info_.row->flags & lower::random) add_random(key, plan->elements, device->index());
  Value value = trace::Node::make(plan->spec, key.operands, device->index());

  if (info_.written.empty()) {
    torch::jit::drop(*stack, n);
    for (uint32_t i = 0; i < plan->outputs.size(); ++i)
      stack->emplace_back(plan->outputs[i].absent
                              ? at::Tensor()
                              : make_tensor(Value(value.node(), i), plan->outputs[i], *device));
  } else {
    std::vector<at::Tensor> results;
    for (uint32_t i = 0; i < plan->outputs.size(); ++i) {
      results.push_back(args[info_.written[i]].toTensor());
      put_result(results.back(), Value(value.node(), i), plan->outputs[i], info_.resizes);
    }
    torch::jit::drop(*stack, n);
    for (auto& t : results) stack->emplace_back(std::move(t));
  }
  finish(op, std::move(value));
} catch (const Error& e) {
  hand_over(e);
  throw;
}

TracedOp::TracedOp(OpInfo info) : info_(std::move(info)), plans_(std::make_unique<Plans>()) {}
TracedOp::~TracedOp() = default;

}  // namespace tpubridge::device
