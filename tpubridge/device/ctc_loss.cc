// ctc_loss on the device. Lengths are data: those of the host are copied as by `to(device)`, so that other
// lengths are the same program, and a compiled step reads them anew. What is wrong with a call is left to
// torch's own composition, which has the words for it.
#include "tpubridge/device/check_indices.h"
#include "tpubridge/device/host_origin.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/storage.h"

namespace tpubridge::device {
namespace {

using at::Tensor;

struct CtcCall {
  Tensor log_probs, targets, input_lengths, target_lengths;
  int64_t blank = 0, reduction = 0;
  bool zero_infinity = false;

  [[nodiscard]] bool batched() const { return log_probs.dim() == 3; }
  [[nodiscard]] int64_t steps() const { return log_probs.size(0); }
  [[nodiscard]] int64_t count() const { return batched() ? log_probs.size(1) : 1; }
};

Tensor lengths_of(const c10::IValue& v) { return v.isTensor() ? v.toTensor() : at::tensor(v.toIntVector()); }

CtcCall read_ctc(c10::ArrayRef<c10::IValue> args) {
  return {args[0].toTensor(), args[1].toTensor(), lengths_of(args[2]), lengths_of(args[3]),
          args[4].toInt(),    args[5].toInt(),    args[6].toBool()};
}

// Of lengths that the host knows: the numbers.
std::optional<std::vector<int64_t>> known(const Tensor& lengths) {
  if (!lengths.device().is_cpu()) return std::nullopt;
  const OwnOps own;
  const Tensor n = lengths.to(at::kLong).contiguous();
  const auto* first = n.const_data_ptr<int64_t>();
  return std::vector<int64_t>(first, first + n.numel());
}

bool are_lengths(const Tensor& t, int64_t count, const Tensor& beside) {
  return t.defined() && (t.device() == beside.device() || t.device().is_cpu()) && t.dim() <= 1 &&
         t.numel() == count && c10::isIntegralType(t.scalar_type(), false);
}

bool fits(const CtcCall& c) {
  const Tensor &p = c.log_probs, &y = c.targets;
  const bool right = is_tpu(p) && (p.dim() == 2 || p.dim() == 3) && p.numel() > 0 &&
                     (p.scalar_type() == at::kFloat || p.scalar_type() == at::kDouble) &&
                     y.device() == p.device() &&
                     (y.scalar_type() == at::kInt || y.scalar_type() == at::kLong);
  if (!right || c.blank < 0 || c.blank >= p.size(-1) || c.reduction < 0 || c.reduction > 2) return false;
  if (y.dim() != 1 && (y.dim() != 2 || y.size(0) != c.count())) return false;
  if (!are_lengths(c.input_lengths, c.count(), p) || !are_lengths(c.target_lengths, c.count(), p))
    return false;
  const auto times = known(c.input_lengths), labels = known(c.target_lengths);
  if ((!times || !labels) && checks_indices()) return false;  // the composition reads them
  for (int64_t n : times.value_or(std::vector<int64_t>()))
    if (n < 0 || n > c.steps()) return false;
  int64_t total = 0;
  for (int64_t n : labels.value_or(std::vector<int64_t>())) {
    if (n < 0 || (y.dim() == 2 && n > y.size(1))) return false;
    total += n;
  }
  return !labels || y.dim() == 2 || total == y.size(0);
}

// Targets that lie one behind the other, a row for each.
Tensor in_rows(const CtcCall& c, const Tensor& lengths) {
  if (c.targets.dim() == 2 && c.targets.size(1) > 0) return c.targets;
  const int64_t total = c.targets.dim() == 2 ? 0 : c.targets.size(0), count = c.count();
  if (total == 0) return at::zeros({count, 1}, c.targets.options());
  // In a compiled step, and where the device alone knows them, one may be as long as all.
  const auto labels = recording() ? std::nullopt : known(c.target_lengths);
  const int64_t longest =
      labels ? std::max<int64_t>(*std::max_element(labels->begin(), labels->end()), 1) : total;
  const Tensor begins = (lengths.cumsum(0) - lengths).unsqueeze(1);
  const Tensor places = (begins + at::arange(longest, lengths.options())).clamp(0, total - 1);
  return c.targets.index_select(0, places.view(-1)).view({count, longest});
}

Tensor loss_of(const CtcCall& c) {
  const auto there = [&](const Tensor& t) { return t.to(c.log_probs.device()).to(at::kLong).view({-1}); };
  const Tensor times = there(c.input_lengths), labels = there(c.target_lengths);
  const Tensor p = c.batched() ? c.log_probs : c.log_probs.unsqueeze(1);
  Tensor loss = std::get<0>(at::_ctc_loss(p, in_rows(c, labels), times, labels, c.blank, c.zero_infinity));
  if (c.zero_infinity)
    loss = at::where(loss == std::numeric_limits<double>::infinity(), at::zeros({}, loss.options()), loss);
  if (c.reduction == at::Reduction::Mean) return (loss / labels.clamp_min(1).to(loss.scalar_type())).mean();
  if (c.reduction == at::Reduction::Sum) return loss.sum();
  return c.batched() ? loss : loss.squeeze(0);
}

void ctc_loss(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const CtcCall c = read_ctc(torch::jit::last(*stack, count));
  if (!fits(c)) return op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
  Tensor loss = loss_of(c);
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, std::move(loss));
}

void implement(torch::Library& m) {
  for (const char* name : {"ctc_loss.IntList", "ctc_loss.Tensor"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&ctc_loss>());
}

}  // namespace

// Without autograd (inference mode) the same.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { implement(m); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { implement(m); }

}  // namespace tpubridge::device
