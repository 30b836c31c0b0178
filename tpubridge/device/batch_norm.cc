// Batch normalisation: the one op that writes to arguments (the running statistics) without saying so in its
// schema.
#include "tpubridge/device/dtype.h"
#include "tpubridge/device/ops.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {
namespace {

using Result = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

void check(const at::Tensor& input, const std::optional<at::Tensor>& t, const char* name) {
  if (!t || !t->defined()) return;
  TORCH_CHECK(t->device() == input.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ",
              input.device(), " and ", t->device(), "! (", name, " of batch_norm)");
  TORCH_CHECK(t->dim() == 1 && t->size(0) == input.size(1), name, " should contain ", input.size(1),
              " elements not ", t->numel());
}

Result batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                  const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& running_mean,
                  const std::optional<at::Tensor>& running_var, bool training, double momentum, double eps) {
  TORCH_CHECK(input.dim() >= 2 && input.is_floating_point(),
              "batch_norm: expected floating-point input of 2 or more dimensions");
  check(input, weight, "weight");
  check(input, bias, "bias");
  check(input, running_mean, "running_mean");
  check(input, running_var, "running_var");
  const bool has_stats = running_mean && running_mean->defined() && running_var && running_var->defined();
  TORCH_CHECK(training || has_stats,
              "batch_norm: running_mean and running_var must be defined in evaluation mode");

  exec::Lock lock(exec::mutex());
  std::vector<trace::Value> operands;
  std::vector<trace::Arg> args;
  auto add = [&](const std::optional<at::Tensor>& t) {
    trace::Ref ref;
    if (t && t->defined()) {
      ref.operand = static_cast<int>(operands.size());
      operands.push_back(read(*t));
    }
    args.emplace_back(ref);
  };
  add(input);
  for (const auto* t : {&weight, &bias, &running_mean, &running_var}) add(*t);
  args.insert(args.end(), {training, momentum, eps});

  const auto stat_type =
      weight && weight->defined() ? weight->scalar_type() : at::toOpMathType(input.scalar_type());
  const std::vector<int64_t> channel{training ? input.size(1) : 0};
  std::vector<Shape> shapes{shape_of(input), Shape{*dtype_of(stat_type), channel},
                            Shape{*dtype_of(stat_type), channel}};
  const bool moves = training && has_stats;
  if (moves) {
    shapes.push_back(shape_of(*running_mean));
    shapes.push_back(shape_of(*running_var));
  }
  static const lower::Row* row = lower::find("tpubridge::batch_norm");
  const int device = input.device().index();
  const DType common = shapes[0].dtype;
  const auto values = record(row, std::move(operands), std::move(args), std::move(shapes), device, common);
  if (moves) {
    write(*running_mean, values[3]);
    write(*running_var, values[4]);
  }
  const auto strides = input.is_non_overlapping_and_dense() ? input.strides().vec()
                                                            : trace::contiguous(input.sizes().vec()).strides;
  const std::vector<int64_t> one{1};
  Result out(make_tensor(values[0], input.sizes(), strides, input.scalar_type(), input.device()),
             make_tensor(values[1], channel, one, stat_type, input.device()),
             make_tensor(values[2], channel, one, stat_type, input.device()));
  after_op(device);
  return out;
}

Result legit(const at::Tensor& input, const std::optional<at::Tensor>& weight,
             const std::optional<at::Tensor>& bias, at::Tensor& running_mean, at::Tensor& running_var,
             bool training, double momentum, double eps) {
  return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Result legit_no_stats(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                      const std::optional<at::Tensor>& bias, bool training, double momentum, double eps) {
  return batch_norm(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_batch_norm", TORCH_FN(batch_norm));
  m.impl("_native_batch_norm_legit", TORCH_FN(legit));
  m.impl("_native_batch_norm_legit.no_stats", TORCH_FN(legit_no_stats));
}

}  // namespace tpubridge::device
