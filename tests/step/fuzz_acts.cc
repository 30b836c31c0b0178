// What happens to a world between the calls of its step.
#include <sstream>

#include "tests/step/fuzz_world.h"

namespace tpubridge::fuzz {

Tensor World::parameter(int which) const {
  const auto all = net->parameters();
  return all[static_cast<size_t>(which) % all.size()];
}

// Both ways through an archive; in between the model is another.
void World::save_and_load() {
  std::stringstream model, state;
  torch::save(net, model);
  torch::save(*optimizer, state);
  for (const auto& p : net->parameters()) p.detach().mul_(1.5);
  torch::load(net, model, device);
  torch::load(*optimizer, state, device);
}

void World::apply(const Act& act) {
  const torch::NoGradGuard outside_of_autograd;
  auto p = parameter(act.which);
  switch (act.what) {
    case Do::call:
    case Do::call_throws:
    case Do::call_limited:
    case Do::second:
    case Do::prepare:
    case Do::many:
      throw std::logic_error("calls are made by run()");
    case Do::rows:
      rows = 4 + act.which % 3;
      break;
    case Do::factor:
      factor = act.value;
      break;
    case Do::write_to:
      write_to = act.which % 5;
      break;
    case Do::same:
      same = !same;
      break;
    case Do::keep:
      keep = !keep;
      break;
    case Do::thread:
      threaded = !threaded;
      break;
    case Do::no_grad:
      no_grad = !no_grad;
      break;
    case Do::argument_grad:
      argument_grad = !argument_grad;
      break;
    case Do::zero_grad:
      optimizer->zero_grad(act.which % 2 == 0);
      break;
    case Do::optimizer_step:
      optimizer->step();
      break;
    case Do::schedule:
      scene->scheduler->step();
      break;
    case Do::hold_state:
      for (const Tensor& t : state_tensors()) held_state.push_back(t);
      break;
    case Do::clear_state:
      optimizer->state().clear();
      break;
    case Do::lr:
    case Do::weight_decay:
    case Do::momentum:
      for (auto& group : optimizer->param_groups())
        if (double* o = option_of(group.options(), act.what)) *o = act.value;
      break;
    case Do::freeze:
      p.requires_grad_(!p.requires_grad());
      break;
    case Do::mode:
      net->train(!net->is_training());
      break;
    case Do::module_number:
      net->scale = act.value;
      break;
    case Do::module_flag:
      net->negates = !net->negates;
      break;
    case Do::write_view:
      p.detach().slice(0, 0, 1).fill_(act.value);
      break;
    case Do::swap:
      for (const auto& other : net->parameters()) {
        if (other.is_same(p) || other.sizes() != p.sizes()) continue;
        const auto old = p.detach().clone();
        p.detach().copy_(other);
        other.detach().copy_(old);
        break;
      }
      break;
    case Do::set_data:
      p.set_data(p.detach() * (1 + act.value / 4));
      break;
    case Do::save_load:
      save_and_load();
      break;
    case Do::drop_gradient:
      p.mutable_grad() = Tensor();
      break;
    case Do::give_gradient:
      p.mutable_grad() = torch::full_like(p, act.value);
      break;
    case Do::scale_gradient:
      if (p.grad().defined()) p.mutable_grad().mul_(act.value);
      break;
    case Do::hold_gradient:
      if (p.grad().defined()) held.emplace_back("a held gradient", p.grad());
      break;
    case Do::hold_parameter:
      held.emplace_back("a clone of a parameter", p.detach().clone());
      break;
    case Do::hold_result:
      for (const auto& r : returned)
        if (r.defined()) held.emplace_back("a held result", r);
      break;
    case Do::replace_extra:
      if (act.which % 2 == 0) held.emplace_back("the former captured tensor", extra);
      extra = extra * (1 + act.value);
      break;
    case Do::scale_extra:
      extra.mul_(act.value);
      break;
    case Do::host_number:
      scene->host_number.fill_(act.value);
      break;
    case Do::captured_number:
      scene->captured_number = act.value;
      break;
    case Do::table_start:
      scene->start = act.which % (3 * c.model.features);
      break;
    case Do::table_write:
      scene->table.mul_(act.value);
      break;
    case Do::plain: {
      Plain& s = scene->plain();
      if (act.which % 5 == 0) s.gain = act.value;
      if (act.which % 5 == 1) s.shift = static_cast<float>(act.value);
      if (act.which % 5 == 2) s.repeats = act.which % 4;
      if (act.which % 5 == 3) s.flips = act.value > 0.75;
      if (act.which % 5 == 4) s.most = act.which > 4 ? std::optional(act.value) : std::nullopt;
      break;
    }
    case Do::default_type:
      torch::set_default_dtype(
          caffe2::TypeMeta::fromScalarType(act.which % 2 ? torch::kDouble : torch::kFloat));
      break;
  }
}

}  // namespace tpubridge::fuzz
