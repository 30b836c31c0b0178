// Whole optimizer steps: one op for all parameters. Numbers (learning rate, decays) are inputs of the
// program, so a schedule never compiles again. Where the gradients were found to be infinite nothing changes.
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

// One step over lists of tensors. Results come list after list. From place `scaler` on stand grad_scale?,
// found_inf?, and where a row has them masters and factor?.
class Step {
 public:
  Step(Context& c, size_t scaler, bool maximize)
      : c_(c), params_(c.list(0)), grads_(c.list(1)), maximize_(maximize) {
    if (c.has(scaler)) scale_ = reshaped(c.in(scaler), {});
    if (c.has(scaler + 1)) found_ = to(reshaped(c.in(scaler + 1), {}), DType::pred);
    if (c.arg_count() <= scaler + 2) return;
    masters_ = c.list(scaler + 2);
    if (c.has(scaler + 3)) factor_ = reshaped(c.in(scaler + 3), {});
  }

  [[nodiscard]] size_t count() const { return params_.size(); }
  [[nodiscard]] DType type(size_t i) const { return opmath_of(params_[i].dtype()); }
  // The master where there is one. A parameter that is not its master, rounded, was written by somebody
  // else: then the parameter counts.
  [[nodiscard]] Value param(size_t i) const {
    const Value p = to(params_[i], type(i));
    if (masters_.empty()) return p;
    const Value same = hlo::compare(to(masters_[i], params_[i].dtype()), params_[i], hlo::Direction::eq);
    return hlo::select(same, masters_[i], p);
  }
  // The learning rate, a scalar of this type.
  [[nodiscard]] Value rate(size_t arg, DType t) const {
    const Value lr = reshaped(c_.in(arg, t), {});
    return factor_ ? mul(lr, to(factor_, t)) : lr;
  }
  // A number of the step, shaped as parameter i.
  [[nodiscard]] Value number(size_t arg, size_t i) const { return spread_to(c_.in(arg, type(i)), i); }
  [[nodiscard]] Value spread_to(Value v, size_t i) const { return expand(v, params_[i].dims()); }

  // The gradient; where it was scaled, the plain one is a result too (list `keep`).
  [[nodiscard]] Value grad(size_t i, size_t keep) {
    Value g = to(grads_[i], type(i));
    if (scale_) {
      g = hlo::divide(g, spread_to(to(scale_, type(i)), i));
      set(keep, i, g, grads_[i]);
    }
    return maximize_ ? hlo::negate(g) : g;
  }
  void set(size_t list, size_t i, Value fresh, Value old) {
    fresh = to(fresh, old.dtype());
    if (found_) fresh = hlo::select(found_, old, fresh);
    c_.result(fresh, list * count() + i);
  }
  void set_param(size_t i, Value fresh) {
    set(0, i, fresh, params_[i]);
    if (!masters_.empty()) set(c_.results().size() / count() - 1, i, fresh, masters_[i]);
  }

 private:
  Context& c_;
  std::vector<Value> params_, grads_, masters_;
  Value scale_, found_, factor_;
  bool maximize_;
};

// 1 − beta^step by the logarithm of beta: exact where beta is near 1.
Value correction(Value log_beta, Value step) {
  return hlo::negate(hlo::exponential_minus_one(mul(log_beta, step)));
}

// params, grads, averages, squares, largest squares, steps; lr, 1−β1, 1−β2, log β1, log β2, weight decay, ε;
// decoupled decay, amsgrad, maximize, decays; grad_scale?, found_inf?, masters, factor of lr?
void adam(Context& c) {
  Step s(c, 17, c.flag(15));
  const auto averages = c.list(2), squares = c.list(3), largest = c.list(4), steps = c.list(5);
  const bool decoupled = c.flag(13), amsgrad = c.flag(14), decays = c.flag(16);
  for (size_t i = 0; i < s.count(); ++i) {
    const DType t = s.type(i);
    Value p = s.param(i), g = s.grad(i, amsgrad ? 4 : 3);
    if (decays && decoupled)
      p = hlo::subtract(p, mul(s.spread_to(mul(s.rate(6, t), c.in(11, t)), i), p));
    else if (decays)
      g = hlo::add(g, mul(s.number(11, i), p));
    const Value m0 = to(averages[i], t), v0 = to(squares[i], t);
    const Value m = hlo::add(m0, mul(s.number(7, i), hlo::subtract(g, m0)));
    const Value v = hlo::add(v0, mul(s.number(8, i), hlo::subtract(mul(g, g), v0)));
    s.set(1, i, m, averages[i]);
    s.set(2, i, v, squares[i]);
    Value top = v;
    if (amsgrad) {
      top = hlo::maximum(v, to(largest[i], t));
      s.set(3, i, top, largest[i]);
    }
    const Value step = reshaped(to(steps[i], t), {});
    const Value rate = hlo::divide(s.rate(6, t), correction(c.in(9, t), step));
    const Value root = hlo::sqrt(correction(c.in(10, t), step));
    const Value denominator = hlo::add(hlo::divide(hlo::sqrt(top), s.spread_to(root, i)), s.number(12, i));
    s.set_param(i, hlo::subtract(p, mul(s.spread_to(rate, i), hlo::divide(m, denominator))));
  }
}

// params, grads, momenta; weight decay, momentum, lr, 1−dampening; nesterov, maximize, first, decays, moves;
// grad_scale?, found_inf?, masters, factor of lr?, steps (may be empty)
void sgd(Context& c) {
  Step s(c, 12, c.flag(8));
  const auto momenta = c.list(2), steps = c.list(16);
  const bool nesterov = c.flag(7), first = c.flag(9), decays = c.flag(10), moves = c.flag(11);
  for (size_t i = 0; i < s.count(); ++i) {
    const Value p = s.param(i);
    Value g = s.grad(i, moves ? 2 : 1);
    if (decays) g = hlo::add(g, mul(s.number(3, i), p));
    if (moves) {
      Value m = g;
      Value part = c.in(6, s.type(i));
      if (!steps.empty()) {
        const Value step = reshaped(to(steps[i], s.type(i)), {});
        part = hlo::select(hlo::compare(step, like(step, 1), hlo::Direction::le), like(step, 1), part);
      }
      if (!first) m = hlo::add(mul(s.number(4, i), to(momenta[i], s.type(i))), mul(s.spread_to(part, i), g));
      s.set(1, i, m, momenta[i]);
      g = nesterov ? hlo::add(g, mul(s.number(4, i), m)) : m;
    }
    s.set_param(i, hlo::subtract(p, mul(s.spread_to(s.rate(5, s.type(i)), i), g)));
  }
}

// params, grads, sums, steps; lr, lr decay, weight decay, ε; maximize, decays; grad_scale?, found_inf?
void adagrad(Context& c) {
  Step s(c, 10, c.flag(8));
  const auto sums = c.list(2), steps = c.list(3);
  for (size_t i = 0; i < s.count(); ++i) {
    const DType t = s.type(i);
    const Value p = s.param(i);
    Value g = s.grad(i, 2);
    if (c.flag(9)) g = hlo::add(g, mul(s.number(6, i), p));
    const Value total = hlo::add(to(sums[i], t), mul(g, g));
    s.set(1, i, total, sums[i]);
    const Value step = reshaped(to(steps[i], t), {});
    const Value slow = hlo::add(like(step, 1), mul(hlo::subtract(step, like(step, 1)), c.in(5, t)));
    const Value rate = s.spread_to(hlo::divide(c.in(4, t), slow), i);
    s.set_param(i, hlo::subtract(p, mul(rate, hlo::divide(g, hlo::add(hlo::sqrt(total), s.number(7, i))))));
  }
}

// grads, found_inf, inverse scale → found_inf, grads
void unscale(Context& c) {
  Value found = c.in(1);
  const Dims dims = found.dims();
  found = to(reshaped(found, {}), DType::pred);
  const auto grads = c.list(0);
  for (size_t i = 0; i < grads.size(); ++i) {
    const Value g = to(grads[i], opmath_of(grads[i].dtype()));
    const Value bad = to(hlo::not_(hlo::is_finite(g)), DType::s32);
    found = hlo::or_(found, to(max(bad, wrapped({}, g.rank(), true)), DType::pred));
    c.result(mul(g, expand(reshaped(c.in(2, g.dtype()), {}), g.dims())), i + 1);
  }
  c.result(reshaped(to(found, c.out(0).dtype), dims), 0);
}

}  // namespace

std::span<const Row> optimizer_rows() {
  static const Row rows[] = {
      {{"_fused_adam_"}, adam},
      {{"_fused_sgd_"}, sgd},
      {{"_fused_adagrad_"}, adagrad},
      {{"_amp_foreach_non_finite_check_and_unscale_"}, unscale},
  };
  return rows;
}

}  // namespace tpubridge::lower
