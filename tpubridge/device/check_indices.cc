// The table of ops with indices, and the check.
#include "tpubridge/device/check_indices.h"

#include <atomic>
#include <limits>

#include "tpubridge/base/env.h"
#include "tpubridge/device/kernels.h"
#include "tpubridge/device/storage.h"

namespace tpubridge::device {
namespace {

using Form = IndexRule::Form;

constexpr IndexRule kRules[] = {
    {"index.Tensor", Form::list, 0, 1},
    {"index_put", Form::list, 0, 1},
    {"_index_put_impl", Form::list, 0, 1},
    {"gather", Form::along, 0, 2, 1},
    {"scatter.src", Form::along, 0, 2, 1},
    {"scatter.value", Form::along, 0, 2, 1},
    {"scatter_add", Form::along, 0, 2, 1},
    {"scatter_reduce.two", Form::along, 0, 2, 1},
    {"index_select", Form::along, 0, 2, 1},
    {"index_add", Form::along, 0, 2, 1},
    {"index_copy", Form::along, 0, 2, 1},
    {"index_fill.int_Scalar", Form::along, 0, 2, 1, false, true},
    {"index_fill.int_Tensor", Form::along, 0, 2, 1, false, true},
    {"embedding", Form::rows, 0, 1},
    {"embedding_dense_backward", Form::rows, 2, 1, 0, true},
    {"_embedding_bag", Form::rows, 0, 1},
    {"_embedding_bag_forward_only", Form::rows, 0, 1},
    {"nll_loss_forward", Form::targets, 0, 1, 4},
    {"nll_loss2d_forward", Form::targets, 0, 1, 4},
    {"multinomial", Form::rows},
    {"poisson", Form::rows},
};

std::atomic<bool>& mode() {
  static std::atomic<bool> value{env::flag("TPUBRIDGE_CHECK_INDICES")};
  return value;
}

struct Range {
  int64_t least, largest;
};

// One program, one transfer.
Range range_of(const at::Tensor& index) {
  const at::Tensor both = at::stack({index.min(), index.max()}).to(at::kLong);
  at::Tensor host = at::empty({2}, at::kLong);
  copy_to_host(both, host, "index check");
  return {host.data_ptr<int64_t>()[0], host.data_ptr<int64_t>()[1]};
}

void check(const c10::OperatorHandle& op, const at::Tensor& index, int64_t dim, int64_t size, bool negative) {
  if (!index.defined() || index.numel() == 0 || !is_tpu(index) ||
      !c10::isIntegralType(index.scalar_type(), false))
    return;
  const int64_t first = negative ? -size : 0;
  const Range r = range_of(index);
  for (int64_t place : {r.least, r.largest})
    TORCH_CHECK_INDEX(place >= first && place < size, "index ", place, " is out of bounds for dimension ",
                      dim, " with size ", size, " (", op.operator_name(), " takes ", first, " to ", size - 1,
                      ")");
}

int64_t wrapped(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }

void check_list(const c10::OperatorHandle& op, const at::Tensor& source, const c10::IValue& list) {
  int64_t dim = 0;
  for (const auto& item : list.toListRef()) {
    if (!item.isNone() && dim < source.dim())
      check(op, item.toTensor(), dim, source.size(dim), /*negative=*/true);
    ++dim;
  }
}

// Classes of a loss; one of them may be declared to be ignored.
void check_targets(const c10::OperatorHandle& op, const at::Tensor& scores, const at::Tensor& target,
                   int64_t ignored) {
  if (!is_tpu(target) || target.numel() == 0 || scores.dim() == 0) return;
  const int64_t dim = scores.dim() == 1 ? 0 : 1;
  check(op, target.masked_fill(target == ignored, 0), dim, scores.size(dim), /*negative=*/false);
}

// What is drawn by them: where one is no such number the CPU has the words.
void check_weights(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args) {
  const at::Tensor& weights = args[0].toTensor();
  if (!is_tpu(weights) || weights.dim() == 0 || weights.numel() == 0 || !weights.is_floating_point()) return;
  at::Tensor wrong = weights.ge(0).logical_and(weights.isfinite()).logical_not();
  const bool shares = args.size() > 2;
  if (shares) wrong = wrong.logical_or(weights.sum(-1, true).le(0));
  if (!wrong.any().item<bool>()) return;
  torch::jit::Stack stack(args.begin(), args.end());
  at::native::cpu_fallback(op, &stack);
}

}  // namespace

const IndexRule* index_rule(std::string_view row) {
  for (const IndexRule& rule : kRules)
    if (rule.op == row) return &rule;
  return nullptr;
}

bool checks_indices() { return mode(); }
bool set_checks_indices(bool on) { return mode().exchange(on); }

void check_indices(const c10::OperatorHandle& op, const IndexRule& rule, c10::ArrayRef<c10::IValue> args) {
  const c10::IValue& index = args[rule.index];
  if (rule.form == Form::list) return check_list(op, args[rule.source].toTensor(), index);
  if (rule.form == Form::targets)
    return check_targets(op, args[rule.source].toTensor(), index.toTensor(), args[rule.dim].toInt());
  if (rule.op == "multinomial" || rule.op == "poisson") return check_weights(op, args);
  if (rule.form == Form::rows) {
    const int64_t rows = rule.source_is_size                  ? args[rule.source].toInt()
                         : args[rule.source].toTensor().dim() ? args[rule.source].toTensor().size(0)
                                                              : 1;
    return check(op, index.toTensor(), 0, rows, /*negative=*/false);
  }
  const at::Tensor& source = args[rule.source].toTensor();
  const int64_t dim = wrapped(args[rule.dim].toInt(), source.dim());
  if (source.dim() > 0 && (dim < 0 || dim >= source.dim())) return;  // the op itself says what is wrong
  check(op, index.toTensor(), dim, source.dim() ? source.size(dim) : 1, rule.negative);
}

}  // namespace tpubridge::device
