// torch's fused optimizer steps: each becomes one node over all parameters. Kernels of their own because they
// write lists of tensors.
#include <cmath>

#include "tpubridge/device/arguments.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {
namespace {

using at::Tensor;
using at::TensorList;
using OptTensor = std::optional<Tensor>;

// The lists that a step writes, in the order of its row's results.
struct Written {
  std::vector<Tensor> tensors;
  void add(TensorList list) { tensors.insert(tensors.end(), list.begin(), list.end()); }
};

void check_lists(TensorList params, std::initializer_list<TensorList> others) {
  TORCH_CHECK(!params.empty() && is_tpu(params[0]),
              "a fused optimizer step needs parameters on the tpu device");
  for (TensorList list : others) {
    TORCH_CHECK(list.size() == params.size(), "Tensor lists must have the same number of tensors, got ",
                params.size(), " and ", list.size());
    for (size_t i = 0; i < list.size(); ++i)
      TORCH_CHECK(list[i].sizes() == params[i].sizes(),
                  "Tensors of the same index must have the same size, got ", list[i].sizes(), " and ",
                  params[i].sizes());
  }
}

bool wide(TensorList params) {
  return std::any_of(params.begin(), params.end(), [](auto& p) { return p.scalar_type() == at::kDouble; });
}

void record_step(const char* name, Arguments a, const Written& written, c10::Device device) {
  std::vector<Shape> shapes;
  shapes.reserve(written.tensors.size());
  for (const Tensor& t : written.tensors) shapes.push_back(shape_of(t));
  const auto values = std::move(a).record(lower::find(name), std::move(shapes));
  for (size_t i = 0; i < values.size(); ++i) write(written.tensors[i], values[i]);
  exec::after_op(device.index());
}

struct Adam {
  double beta1, beta2, weight_decay, eps;
  bool amsgrad, maximize, decoupled;
};

// The learning rate is a number or a tensor.
template <class Rate>
void adam(TensorList params, TensorList grads, TensorList averages, TensorList squares, TensorList largest,
          TensorList steps, const Rate& lr, const Adam& s, const OptTensor& grad_scale,
          const OptTensor& found_inf) {
  if (params.empty()) return;
  check_lists(params, {grads, averages, squares});
  if (s.amsgrad) check_lists(params, {largest});
  TORCH_CHECK(steps.size() == params.size(), "state_steps must hold one tensor for each parameter");
  exec::Lock lock(exec::mutex());
  Arguments a(params[0].device());
  Written w;
  for (TensorList list : {params, grads, averages, squares}) a.tensors(list);
  a.tensors(s.amsgrad ? largest : TensorList());
  a.tensors(steps);
  const bool f64 = wide(params);
  if constexpr (std::is_same_v<Rate, double>)
    a.number(lr, f64);
  else
    a.tensor(lr);
  for (double n : {1 - s.beta1, 1 - s.beta2, std::log(s.beta1), std::log(s.beta2), s.weight_decay, s.eps})
    a.number(n, f64);
  for (bool flag : {s.decoupled, s.amsgrad, s.maximize, s.weight_decay != 0}) a.constant(flag);
  a.tensor(grad_scale);
  a.tensor(found_inf);
  for (TensorList list : {params, averages, squares}) w.add(list);
  if (s.amsgrad) w.add(largest);
  if (grad_scale && grad_scale->defined()) w.add(grads);
  record_step("_fused_adam_", std::move(a), w, params[0].device());
}

template <class Rate, bool Decoupled>
void adam_kernel(TensorList params, TensorList grads, TensorList averages, TensorList squares,
                 TensorList largest, TensorList steps, Rate lr, double beta1, double beta2,
                 double weight_decay, double eps, bool amsgrad, bool maximize, const OptTensor& grad_scale,
                 const OptTensor& found_inf) {
  adam<std::decay_t<Rate>>(params, grads, averages, squares, largest, steps, lr,
                           {beta1, beta2, weight_decay, eps, amsgrad, maximize, Decoupled}, grad_scale,
                           found_inf);
}

template <class Rate>
void sgd_kernel(TensorList params, TensorList grads, TensorList momenta, double weight_decay, double momentum,
                Rate lr, double dampening, bool nesterov, bool maximize, bool first,
                const OptTensor& grad_scale, const OptTensor& found_inf) {
  if (params.empty()) return;
  const bool moves = momentum != 0;
  check_lists(params, {grads});
  if (moves) check_lists(params, {momenta});
  exec::Lock lock(exec::mutex());
  Arguments a(params[0].device());
  Written w;
  const bool f64 = wide(params);
  a.tensors(params);
  a.tensors(grads);
  a.tensors(moves ? momenta : TensorList());
  a.number(weight_decay, f64);
  a.number(momentum, f64);
  if constexpr (std::is_same_v<Rate, double>)
    a.number(lr, f64);
  else
    a.tensor(lr);
  a.number(1 - dampening, f64);
  for (bool flag : {nesterov, maximize, first, weight_decay != 0, moves}) a.constant(flag);
  a.tensor(grad_scale);
  a.tensor(found_inf);
  w.add(params);
  if (moves) w.add(momenta);
  if (grad_scale && grad_scale->defined()) w.add(grads);
  record_step("_fused_sgd_", std::move(a), w, params[0].device());
}

template <class Rate>
void adagrad_kernel(TensorList params, TensorList grads, TensorList sums, TensorList steps, Rate lr,
                    double lr_decay, double weight_decay, double eps, bool maximize,
                    const OptTensor& grad_scale, const OptTensor& found_inf) {
  if (params.empty()) return;
  check_lists(params, {grads, sums});
  TORCH_CHECK(steps.size() == params.size(), "state_steps must hold one tensor for each parameter");
  exec::Lock lock(exec::mutex());
  Arguments a(params[0].device());
  Written w;
  const bool f64 = wide(params);
  for (TensorList list : {params, grads, sums, steps}) a.tensors(list);
  if constexpr (std::is_same_v<Rate, double>)
    a.number(lr, f64);
  else
    a.tensor(lr);
  for (double n : {lr_decay, weight_decay, eps}) a.number(n, f64);
  for (bool flag : {maximize, weight_decay != 0}) a.constant(flag);
  a.tensor(grad_scale);
  a.tensor(found_inf);
  w.add(params);
  w.add(sums);
  if (grad_scale && grad_scale->defined()) w.add(grads);
  record_step("_fused_adagrad_", std::move(a), w, params[0].device());
}

void unscale(TensorList grads, Tensor& found_inf, const Tensor& inverse_scale) {
  if (grads.empty()) return;
  TORCH_CHECK(inverse_scale.numel() == 1 && found_inf.numel() == 1,
              "found_inf and inv_scale must each have one element");
  exec::Lock lock(exec::mutex());
  Arguments a(found_inf.device());
  a.tensors(grads);
  a.tensor(found_inf);
  a.tensor(inverse_scale);
  Written w;
  w.add(found_inf);
  w.add(grads);
  record_step("_amp_foreach_non_finite_check_and_unscale_", std::move(a), w, found_inf.device());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_adam_", TORCH_FN((adam_kernel<double, false>)));
  m.impl("_fused_adam_.tensor_lr", TORCH_FN((adam_kernel<const Tensor&, false>)));
  m.impl("_fused_adamw_", TORCH_FN((adam_kernel<double, true>)));
  m.impl("_fused_adamw_.tensor_lr", TORCH_FN((adam_kernel<const Tensor&, true>)));
  m.impl("_fused_sgd_", TORCH_FN(sgd_kernel<double>));
  m.impl("_fused_sgd_.tensor_lr", TORCH_FN(sgd_kernel<const Tensor&>));
  m.impl("_fused_adagrad_", TORCH_FN(adagrad_kernel<double>));
  m.impl("_fused_adagrad_.tensor_lr", TORCH_FN(adagrad_kernel<const Tensor&>));
  m.impl("_amp_foreach_non_finite_check_and_unscale_", TORCH_FN(unscale));
}

}  // namespace tpubridge::device
