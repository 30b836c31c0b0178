// The step of a case, and how each world calls it.
#include "tests/step/fuzz_world.h"

#include <ATen/CPUGeneratorImpl.h>

#include <thread>

namespace tpubridge::fuzz {

namespace {

at::Generator device_generator() { return at::globalContext().defaultGenerator(tpu()); }

// Numbers from a generator of its own: torch::manual_seed would seed the device's too.
Tensor numbers(at::IntArrayRef sizes, uint64_t seed) {
  return torch::randn(sizes, at::detail::createCPUGenerator(seed), torch::kDouble);
}

// Of all worlds: an act writes the same into it for each.
Plain g_plain;
thread_local Plain t_plain;

Plain& static_plain() {
  static Plain p;
  return p;
}

bool is_on_device(const Tensor& t) { return !t.device().is_cpu(); }

Tensor plainly(const Plain& p, const Tensor& given) {
  auto o = given * p.gain + p.shift;
  if (p.flips) o = -o;
  if (p.most) o = o.clamp_max(*p.most);
  for (int i = 0; i < p.repeats; ++i) o = o * 0.9;
  return o;
}

}  // namespace

Calls& calls() {
  static Calls c;
  return c;
}

World::~World() {
  for (const auto* s : {&step_, &second_})
    if (*s) {
      const StepReport r = (*s)->report();
      calls().all += r.calls;
      calls().replayed += r.replayed;
      calls().looped += r.looped;
    }
}

Scene::Scene(const Case& given, torch::Device d, bool on_cpu) : c(given), device(d) {
  torch::manual_seed(c.seed);
  g_plain = t_plain = static_plain() = Plain();
  net = std::make_shared<Net>(c.model);
  net->to(device);
  optimizer = make_optimizer(c.optimizer, on_cpu, net->parameters());
  scheduler = std::make_unique<torch::optim::StepLR>(*optimizer, 2, 0.5);
  const int64_t n = c.model.features;
  extra = numbers({n}, 1).to(device);
  table = numbers({4 * n}, 4);
  host_number = torch::scalar_tensor(1.5, torch::kDouble);
}

World::World(const Case& given, Kind k)
    : c(given),
      kind(k),
      device(k == Kind::cpu ? torch::kCPU : tpu()),
      scene(std::make_unique<Scene>(c, device, k == Kind::cpu)) {
  const int64_t n = c.model.features;
  base = numbers({n + 3}, 2).to(device);
  out = numbers({n}, 3).to(device);
  if (kind == Kind::cpu) return;
  auto g = device_generator();
  g.set_current_seed(c.seed);
  generator = g.get_state();
  if (kind == Kind::compiled) compile_steps();
}

Plain& Scene::plain() {
  switch (c.step.place) {
    case Place::shared:
      return *shared;
    case Place::owned:
      return owned->plain;
    case Place::listed:
      return listed[1];
    case Place::global:
      return g_plain;
    case Place::local_static:
      return static_plain();
    case Place::far:
      return *far->plain;
    case Place::thread:
      return t_plain;
    case Place::module:
      return net->plains[1];
    default:
      return settings;
  }
}

void World::compile_steps() {
  StepOptions named;
  if (c.step.named == Named::all || c.step.named == Named::modules) named.modules = {net};
  if (c.step.named == Named::all || c.step.named == Named::optimizers) named.optimizers = {optimizer.get()};
  const Body plain = [s = scene.get()](Tensor a, Tensor b, Tensor o, double f, int64_t stop) {
    return s->body(a, b, std::move(o), f, stop);
  };
  if (c.step.nested != Nested::none) inner_ = std::make_unique<CompiledStep<Body>>(plain, named);
  const Body outer = [inner = inner_.get()](Tensor a, Tensor b, Tensor o, double f, int64_t stop) {
    return (*inner)(a, b, o, f, stop);
  };
  step_ = std::make_unique<CompiledStep<Body>>(inner_ ? outer : plain,
                                               c.step.nested == Nested::inner_named ? StepOptions{} : named);
  second_ = std::make_unique<CompiledStep<Body>>(
      [s = scene.get()](Tensor a, Tensor b, Tensor, double, int64_t) { return s->other_body(a, b); }, named);
}

Tensors Scene::body(const Tensor& a, const Tensor& b, Tensor o, double f, int64_t stop) {
  const Step& s = c.step;
  if (s.busy) ++calls;
  if (s.zero == Zero::begin || s.zero == Zero::begin_zeros) optimizer->zero_grad(s.zero == Zero::begin);
  if (s.draws) (void)torch::rand({3}, device);
  Tensor loss, output;
  for (int64_t half = 0; half < (s.halves ? 2 : 1); ++half) {
    auto input = a.to(device, torch::kDouble), target = b.to(device, torch::kDouble);
    if (s.halves) input = input.chunk(2)[half], target = target.chunk(2)[half];
    if (s.noise) input = input + 0.1 * torch::rand_like(input);
    const auto forward = [net = net](const Tensor& t) { return net->forward(t); };
    output = (s.checkpointed ? checkpoint(forward)(input) : forward(input)) * f;
    if (s.host_number) output = output * host_number;
    if (s.captured_number) output = output * captured_number;
    if (s.table) output = output + table.slice(0, start, start + c.model.features).to(device);
    if (s.place != Place::nowhere) output = plainly(plain(), output);
    loss = torch::mse_loss(output, target);
    if (s.rate) loss = loss * (1 + optimizer->param_groups()[0].options().get_lr());
    if (s.default_type) loss = loss * torch::full({}, 1.5, device);
    if (stop == 1) throw Stop();
    if (s.goal != Goal::inference && loss.requires_grad()) loss.backward();
  }
  if (s.clip) (void)clip_grad_norm_(net->parameters(), 0.5);
  if (stop == 2) throw Stop();
  for (int i = 0; s.goal == Goal::train && i < (s.twice ? 2 : 1); ++i) optimizer->step();
  const torch::NoGradGuard no_more;
  const auto mean = output.detach().mean(0);
  if (s.extra == Extra::average) extra.mul_(0.9).add_(net->first->weight.mean(0), 0.1);
  if (s.extra == Extra::counter) extra.add_(1);
  if (s.write == Write::add) o.add_(mean);
  if (s.write == Write::copy) o.copy_(mean);
  if (s.write == Write::slice) o.slice(0, 0, 1).add_(1);
  if (stop == 3) throw Stop();
  Tensors results;
  if (s.returns & kLoss) results.push_back(loss.detach());
  if (s.returns & kGradient) results.push_back(net->first->weight.grad());
  if (s.returns & kView) results.push_back(extra.slice(0, 0, 2));
  if (s.returns & kOutput) results.push_back(output.detach());
  if (s.returns & kArgument) results.push_back(o);
  if (s.default_type) results.push_back(torch::ones({2}, device));
  if (s.zero == Zero::end) optimizer->zero_grad();
  if (s.schedule) scheduler->step();
  return results;
}

// Another loss, without the optimizer where the first has none inside.
Tensors Scene::other_body(const Tensor& a, const Tensor& b) {
  const auto input = a.to(device, torch::kDouble), target = b.to(device, torch::kDouble);
  const auto loss = (net->forward(input) - target).pow(4).mean();
  if (c.step.goal != Goal::inference && loss.requires_grad()) loss.backward();
  if (c.step.goal == Goal::train) optimizer->step();
  return {loss.detach()};
}

void World::make_arguments(uint64_t number) {
  const int64_t n = c.model.features;
  if (!(keep && x.defined() && x.size(0) == rows)) {
    const auto values = numbers({rows, n}, c.seed * 1000 + 2 * number);
    switch (c.step.form) {
      case Form::device:
        x = values.to(device).clone();
        break;
      case Form::host:
        x = values;
        break;
      case Form::host_slice: {
        const auto k = static_cast<int64_t>(number % 3);
        x = torch::cat({torch::zeros({k, n}, torch::kDouble), values}).slice(0, k);
        break;
      }
      case Form::host_float:
        x = values.to(torch::kFloat);
        break;
    }
    y = numbers({rows, n}, c.seed * 1000 + 2 * number + 1).to(device);
  }
  if (same) y = x;
  if (c.step.form == Form::device) x.requires_grad_(argument_grad);
  const auto plain = numbers({n}, c.seed + number);
  if (write_to == 0) out = plain.to(device);
  if (write_to == 1 && (out.is_alias_of(base) || out.is_alias_of(extra))) out = plain.to(device);
  if (write_to == 2) out = base.slice(0, 1, 1 + n);
  if (write_to == 3) out = extra;
  if (write_to == 4) out = extra.clone();
}

// Numbers, grad mode and thread of this world; versions are noted on the way.
void World::in_place(const std::function<Tensors()>& run) {
  const auto watched = counted();
  std::vector<int64_t> before;
  for (const auto& [name, t] : watched) before.push_back(static_cast<int64_t>(t._version()));
  if (kind != Kind::cpu) device_generator().set_state(generator);
  const auto with_mode = [&] {
    const torch::AutoGradMode mode(!no_grad);
    returned = run();
    if (kind == Kind::traced) sync();
  };
  std::exception_ptr error;
  const auto caught = [&] {
    try {
      with_mode();
    } catch (...) {
      error = std::current_exception();
    }
  };
  if (threaded)
    std::thread(caught).join();
  else
    caught();
  if (kind != Kind::cpu) generator = device_generator().get_state();
  if (error) std::rethrow_exception(error);
  versions.clear();
  for (size_t i = 0; i < watched.size(); ++i)
    versions.emplace_back(watched[i].first, static_cast<int64_t>(watched[i].second._version()) - before[i]);
}

void World::call(int64_t stop) {
  in_place([&] { return step_ ? (*step_)(x, y, out, factor, stop) : scene->body(x, y, out, factor, stop); });
}

void World::call_many(uint64_t number, int64_t steps) {
  const bool old_keep = std::exchange(keep, false), old_grad = std::exchange(argument_grad, false);
  const int old_write_to = std::exchange(write_to, 0);
  std::vector<Tensors> all(3);
  for (int64_t i = 0; i < steps; ++i) {
    make_arguments(number + static_cast<uint64_t>(i) * 7919);
    all[0].push_back(x), all[1].push_back(y), all[2].push_back(out);
  }
  const Tensor xs = torch::stack(all[0]), ys = same ? xs : torch::stack(all[1]), outs = torch::stack(all[2]);
  in_place([&] {
    if (kind == Kind::compiled && !singly) return step_->many(xs, ys, outs, factor, int64_t{0});
    std::vector<Tensors> given;
    for (int64_t i = 0; i < steps; ++i) {
      // An ordinary call of a compiled step has memory of its own for each argument.
      const auto row = [&](const Tensor& t) { return is_on_device(t) && step_ ? t[i].clone() : t[i]; };
      const Tensor a = row(xs), b = same ? a : row(ys), o = row(outs);
      const auto r = step_ ? (*step_)(a, b, o, factor, int64_t{0}) : scene->body(a, b, o, factor, 0);
      const torch::NoGradGuard quiet;
      if (step_) outs[i].copy_(o);
      given.resize(r.size());
      for (size_t k = 0; k < r.size(); ++k) given[k].push_back(r[k].defined() ? r[k].detach().clone() : r[k]);
      if (kind == Kind::traced) sync();
    }
    Tensors stacked;
    for (const auto& g : given) stacked.push_back(g[0].defined() ? torch::stack(g) : Tensor());
    return stacked;
  });
  returned.push_back(outs);
  const torch::NoGradGuard quiet;
  x = xs[steps - 1].clone(), y = same ? x : ys[steps - 1].clone(), out = outs[steps - 1].clone();
  keep = old_keep, argument_grad = old_grad, write_to = old_write_to;
}

void World::prepare() {
  const auto of_latest_call = versions;
  in_place([&] {
    step_->prepare(x, y, out, factor, int64_t{0});
    return returned;
  });
  versions = of_latest_call;
}

void World::call_second() {
  in_place([&] { return second_ ? (*second_)(x, y, out, factor, int64_t{0}) : scene->other_body(x, y); });
}

}  // namespace tpubridge::fuzz
