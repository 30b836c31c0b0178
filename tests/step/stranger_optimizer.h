// What the tests of optimizers in strangers' steps share.
#pragma once

#include "tests/step/stranger.h"

namespace tpubridge::stranger {

using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::SGD;
using torch::optim::SGDOptions;

inline void set_rate(torch::optim::Optimizer& o, double lr) {
  for (auto& g : o.param_groups()) g.options().set_lr(lr);
}

// A net and its optimizer, with a step of a kind.
template <class Optimizer, class Options, class Body>
auto training(Options options, Body body, bool named, StepOptions more = {}) {
  return [=](torch::Device device, bool compiled) {
    auto net = std::make_shared<Net>(device);
    auto opt = std::make_shared<Optimizer>(net->parameters(), options);
    Program p;
    StepOptions step = more;
    if (named) step.optimizers = {opt.get()};
    set_call(
        p, compiled, [=](const Tensor& x) { return body(*net, *opt, x); }, step);
    p.state = [net] { return net->parameters(); };
    p.change = [opt](int i) {
      if (i == 6) set_rate(*opt, 0.02);
      if (i == 9) set_rate(*opt, 0.005);
    };
    return p;
  };
}

inline const auto plain = [](Net& net, torch::optim::Optimizer& opt, const Tensor& x) {
  opt.zero_grad();
  const auto loss = loss_of(net.forward(x));
  loss.backward();
  opt.step();
  return loss.detach();
};

}  // namespace tpubridge::stranger
