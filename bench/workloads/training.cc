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

}  // namespace

Workload training(Mode mode, std::shared_ptr<Training> t) {
  t->model->train();
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
