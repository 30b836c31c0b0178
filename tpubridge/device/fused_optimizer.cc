// torch's fused optimizer steps: each becomes one node over all parameters. Kernels of their own because they
// write lists of tensors.
#include "tpubridge/device/fused_optimizer.h"

#include <cmath>

#include "tpubridge/device/recording.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {
namespace {

using at::Tensor;
using at::TensorList;

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
  after_op(device.index());
}

// The rate of a step: a number or a tensor.
void add_rate(Arguments& a, const FusedRate& rate, bool f64) {
  if (rate.lr_tensor.defined())
    a.tensor(rate.lr_tensor);
  else
    a.number(rate.lr, f64);
}

void add_scaler(Arguments& a, const FusedRate& rate) {
  a.tensor(rate.grad_scale);
  a.tensor(rate.found_inf);
}

// A function of a number; it follows the number where that is asked for anew.
HostNumber map(const HostNumber& n, double (*f)(double)) {
  if (!n.again) return {f(n.value)};
  return {f(n.value), [ask = n.again, f] { return f(ask()); }};
}
double one_minus(double v) { return 1 - v; }
double logarithm(double v) { return std::log(v); }

template <class Rate>
FusedRate rate_of(const Rate& lr, const OptTensor& grad_scale, const OptTensor& found_inf) {
  FusedRate r{.lr = {}, .lr_tensor = {}, .factor = {}, .grad_scale = grad_scale, .found_inf = found_inf};
  if constexpr (std::is_same_v<Rate, double>)
    r.lr.value = lr;
  else
    r.lr_tensor = lr;
  return r;
}

template <class Rate, bool Decoupled>
void adam_kernel(TensorList params, TensorList grads, TensorList averages, TensorList squares,
                 TensorList largest, TensorList steps, Rate lr, double beta1, double beta2,
                 double weight_decay, double eps, bool amsgrad, bool maximize, const OptTensor& grad_scale,
                 const OptTensor& found_inf) {
  if (params.empty()) return;
  fused_adam({params.vec(),
              grads.vec(),
              averages.vec(),
              squares.vec(),
              amsgrad ? largest.vec() : std::vector<Tensor>(),
              steps.vec(),
              {}},
             rate_of<std::decay_t<Rate>>(lr, grad_scale, found_inf),
             {{beta1}, {beta2}, {weight_decay}, {eps}, amsgrad, maximize, Decoupled});
}

template <class Rate>
void sgd_kernel(TensorList params, TensorList grads, TensorList momenta, double weight_decay, double momentum,
                Rate lr, double dampening, bool nesterov, bool maximize, bool first,
                const OptTensor& grad_scale, const OptTensor& found_inf) {
  if (params.empty()) return;
  fused_sgd(
      {params.vec(), grads.vec(), momentum != 0 ? momenta.vec() : std::vector<Tensor>(), {}, {}, {}, {}},
      rate_of<std::decay_t<Rate>>(lr, grad_scale, found_inf),
      {{weight_decay}, {momentum}, {dampening}, nesterov, maximize, first});
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
    a.number({lr}, f64);
  else
    a.tensor(lr);
  for (double n : {lr_decay, weight_decay, eps}) a.number({n}, f64);
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

void fused_adam(const FusedLists& lists, const FusedRate& rate, const FusedAdam& s) {
  check_lists(lists.params, {lists.grads, lists.averages, lists.squares});
  if (s.amsgrad) check_lists(lists.params, {lists.largest});
  if (!lists.masters.empty()) check_lists(lists.params, {lists.masters});
  TORCH_CHECK(lists.steps.size() == lists.params.size(),
              "state_steps must hold one tensor for each parameter");
  exec::Lock lock(exec::mutex());
  Arguments a(lists.params[0].device());
  for (const auto* list : {&lists.params, &lists.grads, &lists.averages, &lists.squares, &lists.largest})
    a.tensors(*list);
  a.tensors(lists.steps);
  const bool f64 = wide(lists.params), decays = s.weight_decay.value != 0;
  add_rate(a, rate, f64);
  for (const auto& n : {map(s.beta1, one_minus), map(s.beta2, one_minus), map(s.beta1, logarithm),
                        map(s.beta2, logarithm), s.weight_decay, s.eps})
    a.number(n, f64);
  for (bool flag : {s.decoupled, s.amsgrad, s.maximize, decays}) a.constant(flag);
  add_scaler(a, rate);
  a.tensors(lists.masters);
  a.tensor(rate.factor);
  Written w;
  for (const auto* list : {&lists.params, &lists.averages, &lists.squares, &lists.largest}) w.add(*list);
  if (rate.grad_scale && rate.grad_scale->defined()) w.add(lists.grads);
  w.add(lists.masters);
  record_step("_fused_adam_", std::move(a), w, lists.params[0].device());
}

void fused_sgd(const FusedLists& lists, const FusedRate& rate, const FusedSgd& s) {
  const bool moves = s.momentum.value != 0, decays = s.weight_decay.value != 0;
  check_lists(lists.params, {lists.grads});
  if (moves) check_lists(lists.params, {lists.averages});
  if (!lists.masters.empty()) check_lists(lists.params, {lists.masters});
  exec::Lock lock(exec::mutex());
  Arguments a(lists.params[0].device());
  const bool f64 = wide(lists.params);
  a.tensors(lists.params);
  a.tensors(lists.grads);
  a.tensors(lists.averages);
  a.number(s.weight_decay, f64);
  a.number(s.momentum, f64);
  add_rate(a, rate, f64);
  a.number(map(s.dampening, one_minus), f64);
  for (bool flag : {s.nesterov, s.maximize, s.first, decays, moves}) a.constant(flag);
  add_scaler(a, rate);
  a.tensors(lists.masters);
  a.tensor(rate.factor);
  a.tensors(lists.steps);
  Written w;
  w.add(lists.params);
  w.add(lists.averages);
  if (rate.grad_scale && rate.grad_scale->defined()) w.add(lists.grads);
  w.add(lists.masters);
  record_step("_fused_sgd_", std::move(a), w, lists.params[0].device());
}

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
