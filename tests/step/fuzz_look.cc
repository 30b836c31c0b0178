// What is compared between worlds.
#include "tests/step/fuzz_world.h"

namespace tpubridge::fuzz {
namespace {

std::string facts_of(const Tensor& t) {
  if (!t.defined()) return "undefined";
  std::ostringstream out;
  out << c10::toString(t.scalar_type()) << t.sizes() << (t.requires_grad() ? " requires grad" : "");
  return out.str();
}

struct List {
  std::vector<Seen>& all;
  bool of_device = false;

  void add(const std::string& kind, const std::string& which, const Tensor& t) {
    Seen s{kind + " " + which, kind, facts_of(t), {}, of_device};
    try {
      if (t.defined()) s.value = t.detach().cpu().to(torch::kDouble);
    } catch (const std::exception& e) {
      s.facts += std::string(", cannot be read: ") + e.what();
    }
    all.push_back(std::move(s));
  }
  void add(const std::string& kind, const std::string& which, const std::string& facts) {
    all.push_back({kind + " " + which, kind, facts, {}, of_device});
  }
};

// The state of one parameter in torch's own optimizers.
void look_at_state(List& list, const std::string& of, torch::optim::OptimizerParamState& state) {
  using namespace torch::optim;
  const auto moments = [&](auto& s) {
    list.add("step count", of, std::to_string(s.step()));
    list.add("optimizer state", "exp_avg " + of, s.exp_avg());
    list.add("optimizer state", "exp_avg_sq " + of, s.exp_avg_sq());
    list.add("optimizer state", "max_exp_avg_sq " + of, s.max_exp_avg_sq());
  };
  if (auto* s = dynamic_cast<AdamParamState*>(&state)) moments(*s);
  if (auto* s = dynamic_cast<AdamWParamState*>(&state)) moments(*s);
  if (auto* s = dynamic_cast<SGDParamState*>(&state))
    list.add("optimizer state", "momentum " + of, s->momentum_buffer());
  if (auto* s = dynamic_cast<RMSpropParamState*>(&state)) {
    list.add("step count", of, std::to_string(s->step()));
    list.add("optimizer state", "square_avg " + of, s->square_avg());
    list.add("optimizer state", "momentum " + of, s->momentum_buffer());
    list.add("optimizer state", "grad_avg " + of, s->grad_avg());
  }
  if (auto* s = dynamic_cast<AdagradParamState*>(&state)) {
    list.add("step count", of, std::to_string(s->step()));
    list.add("optimizer state", "sum " + of, s->sum());
  }
}

}  // namespace

// What a tensor that came out of the step shares memory with.
std::string World::aliases(const Tensor& t) const {
  if (!t.defined()) return "undefined";
  std::string text = "shares";
  const auto note = [&](const Tensor& other, const char* name) {
    if (other.defined() && t.is_alias_of(other)) text += std::string(" ") + name;
  };
  note(net->first->weight.grad(), "the gradient");
  note(extra, "extra");
  note(out, "out");
  return text;
}

// Tensors whose version counters must move as when traced.
std::vector<std::pair<std::string, Tensor>> World::counted() const {
  std::vector<std::pair<std::string, Tensor>> all{{"extra", extra}, {"out", out}};
  for (const auto& p : net->named_parameters()) all.emplace_back(p.key(), p.value());
  for (const auto& b : net->named_buffers()) all.emplace_back(b.key(), b.value());
  return all;
}

void World::look_at_optimizer(std::vector<Seen>& all) const {
  if (const auto* fused = dynamic_cast<tpubridge::optim::Fused*>(optimizer.get())) {
    List list{all, true};  // the CPU has torch's class instead
    for (const auto& [name, t] : fused->named_state()) list.add("optimizer state", name, t);
    return;
  }
  List list{all, c.optimizer.rule >= Rule::fused_sgd};
  const auto parameters = net->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string of = "of parameter " + std::to_string(i);
    const auto it = optimizer->state().find(parameters[i].unsafeGetTensorImpl());
    list.add("optimizer state", of, it == optimizer->state().end() ? "none" : "some");
    if (it != optimizer->state().end()) look_at_state(list, of, *it->second);
  }
}

Tensors World::state_tensors() const {
  Tensors out;
  if (const auto* fused = dynamic_cast<tpubridge::optim::Fused*>(optimizer.get())) {
    for (const auto& [name, t] : fused->named_state()) out.push_back(t);
    return out;
  }
  using namespace torch::optim;
  for (const auto& [key, base] : optimizer->state()) {
    OptimizerParamState* p = base.get();
    if (auto* s = dynamic_cast<AdamParamState*>(p)) out.insert(out.end(), {s->exp_avg(), s->exp_avg_sq()});
    if (auto* s = dynamic_cast<AdamWParamState*>(p)) out.insert(out.end(), {s->exp_avg(), s->exp_avg_sq()});
    if (auto* s = dynamic_cast<SGDParamState*>(p)) out.push_back(s->momentum_buffer());
    if (auto* s = dynamic_cast<RMSpropParamState*>(p)) out.push_back(s->square_avg());
    if (auto* s = dynamic_cast<AdagradParamState*>(p)) out.push_back(s->sum());
  }
  return out;
}

std::vector<Seen> World::look() const {
  std::vector<Seen> all;
  List list{all, false};
  for (size_t i = 0; i < returned.size(); ++i) list.add("result", std::to_string(i), returned[i]);
  const auto parameters = net->parameters(), buffers = net->buffers();
  for (size_t i = 0; i < parameters.size(); ++i) {
    list.add("parameter", std::to_string(i), parameters[i]);
    list.add("gradient", "of parameter " + std::to_string(i), parameters[i].grad());
  }
  for (size_t i = 0; i < buffers.size(); ++i) list.add("buffer", std::to_string(i), buffers[i]);
  list.add("captured", "tensor", extra);
  list.add("argument", "out", out);
  list.add("argument", "base of out", base);
  if (x.defined()) {
    list.add("argument", "x", x);
    list.add("gradient of an argument", "x", x.grad());
  }
  for (const auto& [name, t] : held) list.add("held", name, t);
  look_at_optimizer(all);
  for (size_t i = 0; i < returned.size(); ++i)
    list.add("memory", "of result " + std::to_string(i), aliases(returned[i]));
  if (kind == Kind::cpu) return all;
  list.of_device = true;
  list.add("generator", "state", generator);
  for (const auto& [name, change] : versions) list.add("version", "of " + name, std::to_string(change));
  return all;
}

}  // namespace tpubridge::fuzz
