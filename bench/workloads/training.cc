#include "bench/workloads/training.h"

namespace workloads {

using torch::Tensor;

namespace {

using Step = std::function<Tensor(const Tensor&, const Tensor&)>;

Step compiled(const std::shared_ptr<Training>& t) {
  auto plain = [t](const Tensor& x, const Tensor& y) { return t->step(x, y); };
  auto step = std::make_shared<tpubridge::CompiledStep<decltype(plain)>>(
      tpubridge::compile(plain, {.modules = {t->model}, .optimizers = {t->optimizer.get()}}));
  return [step](const Tensor& x, const Tensor& y) { return (*step)(x, y); };
}

// A call is a window of steps; many() counts steps.
Workload windows(Mode mode, const std::shared_ptr<Training>& t) {
  auto plain = [t](const Tensor& x, const Tensor& y) { return t->step(x, y); };
  auto step = std::make_shared<tpubridge::CompiledStep<decltype(plain)>>(
      tpubridge::compile(plain, {.modules = {t->model}, .optimizers = {t->optimizer.get()}}));
  const auto rows = [&](const Tensor& a) {
    std::vector<int64_t> sizes = a.sizes().vec();
    sizes.insert(sizes.begin(), t->window);
    return a.expand(sizes).contiguous();
  };
  const Tensor xs = rows(t->x), ys = rows(t->y);
  const auto one = [=] {
    if (mode == Mode::replayed) return step->many(xs, ys);
    Tensor last;
    for (int64_t i = 0; i < t->window; ++i) last = plain(t->x, t->y);
    return last;
  };
  Workload w;
  w.call = [=] { wait(one()); };
  w.many = [=](int64_t n) {
    for (; n > t->window; n -= t->window) (void)one();
    wait(one());
  };
  return w;
}

}  // namespace

Workload training(Mode mode, std::shared_ptr<Training> t) {
  t->model->train();
  if (t->window > 0) return windows(mode, t);
  auto plain = [t](const Tensor& x, const Tensor& y) { return t->step(x, y); };
  auto step = std::make_shared<Step>(mode == Mode::replayed ? compiled(t) : Step(plain));
  Workload w;
  w.call = [=] { wait((*step)(t->x, t->y)); };
  w.many = [=](int64_t n) {
    Tensor last;
    for (int64_t i = 0; i < n; ++i) {
      last = (*step)(t->x, t->y);
      if (mode == Mode::traced) tpubridge::sync();  // queues the step
    }
    wait(last);
  };
  if (mode == Mode::replayed) w.renew = [=] { *step = compiled(t); };
  if (mode != Mode::libtorch)
    w.facts = [=] {
      return std::map<std::string, double>{{"peak_bytes", peak_bytes([&] { wait(plain(t->x, t->y)); })}};
    };
  return w;
}

}  // namespace workloads
