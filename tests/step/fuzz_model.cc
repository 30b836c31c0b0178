// Models and optimizers of fuzzed cases.
#include "tests/step/fuzz_world.h"

namespace tpubridge::fuzz {

using namespace torch::optim;

namespace {

// Batch norm takes away what was added before it, also through linear pieces: the gradient of such a bias
// would be rounding errors alone.
bool bias_is_lost(const Model& m, size_t piece) {
  for (size_t i = piece + 1; i < m.pieces.size(); ++i) {
    if (m.pieces[i] == Piece::batch_norm) return true;
    if (m.pieces[i] != Piece::linear && m.pieces[i] != Piece::tied) return false;
  }
  return false;
}

}  // namespace

Net::Net(const Model& m) {
  for (size_t i = 0; i < m.pieces.size(); ++i) {
    const std::string name = "p" + std::to_string(i);
    const auto add = [&](auto module) {
      register_module(name, module);
      pieces.push_back([module](const Tensor& x) mutable { return module->forward(x); });
    };
    switch (m.pieces[i]) {
      case Piece::linear: {
        const auto options = torch::nn::LinearOptions(m.features, m.features).bias(!bias_is_lost(m, i));
        torch::nn::Linear linear(options);
        if (!first) first = linear;
        add(linear);
        break;
      }
      case Piece::tied:
        pieces.push_back([linear = first](const Tensor& x) { return torch::linear(x, linear->weight); });
        break;
      case Piece::batch_norm:
        add(torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(m.features).affine(!bias_is_lost(m, i))));
        break;
      case Piece::layer_norm:
        add(torch::nn::LayerNorm(
            torch::nn::LayerNormOptions({m.features}).elementwise_affine(!bias_is_lost(m, i))));
        break;
      case Piece::dropout:
        add(torch::nn::Dropout(0.3));
        break;
      case Piece::relu:
        pieces.push_back([](const Tensor& x) { return torch::relu(x); });
        break;
      case Piece::tanh:
        pieces.push_back([](const Tensor& x) { return torch::tanh(x); });
        break;
      case Piece::gelu:
        pieces.push_back([](const Tensor& x) { return torch::gelu(x); });
        break;
    }
  }
  to(torch::kDouble);
  const auto all = parameters();
  if (m.frozen >= 0) all[static_cast<size_t>(m.frozen) % all.size()].requires_grad_(false);
}

Tensor Net::forward(Tensor x) {
  for (auto& piece : pieces) x = piece(x);
  if (scale != 1) x = x * scale;
  return negates ? -x : x;
}

namespace {

// Large enough that a gradient of nothing but rounding errors does not count.
constexpr double kEps = 1e-3;
// A centered RMSprop takes the root of a difference that may be nothing but rounding errors: 1e-16 becomes
// 1e-8.
constexpr double kCenteredEps = 0.1;

SGDOptions sgd(const Optimizer& o) {
  return SGDOptions(o.lr)
      .momentum(o.momentum)
      .weight_decay(o.weight_decay)
      .nesterov(o.flag && o.momentum > 0);
}
template <class Options>
Options adam(const Optimizer& o) {
  return Options(o.lr).betas({o.momentum, 0.95}).eps(kEps).weight_decay(o.weight_decay).amsgrad(o.flag);
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Optimizer& o, bool on_cpu, Tensors p) {
  switch (o.rule) {
    case Rule::fused_sgd:
      if (!on_cpu) return std::make_unique<tpubridge::optim::SGD>(p, sgd(o));
      [[fallthrough]];
    case Rule::sgd:
      return std::make_unique<torch::optim::SGD>(p, sgd(o));
    case Rule::fused_adam:
      if (!on_cpu) return std::make_unique<tpubridge::optim::Adam>(p, adam<AdamOptions>(o));
      [[fallthrough]];
    case Rule::adam:
      return std::make_unique<torch::optim::Adam>(p, adam<AdamOptions>(o));
    case Rule::fused_adamw:
      if (!on_cpu) return std::make_unique<tpubridge::optim::AdamW>(p, adam<AdamWOptions>(o));
      [[fallthrough]];
    case Rule::adamw:
      return std::make_unique<torch::optim::AdamW>(p, adam<AdamWOptions>(o));
    case Rule::rmsprop:
      return std::make_unique<torch::optim::RMSprop>(p, RMSpropOptions(o.lr)
                                                            .momentum(o.momentum)
                                                            .eps(o.flag ? kCenteredEps : kEps)
                                                            .weight_decay(o.weight_decay)
                                                            .centered(o.flag));
    case Rule::adagrad:
      return std::make_unique<torch::optim::Adagrad>(
          p, AdagradOptions(o.lr).eps(kEps).weight_decay(o.weight_decay).lr_decay(o.flag ? 0.1 : 0));
  }
  return nullptr;
}

double* option_of(OptimizerOptions& options, Do which) {
  const auto pick = [which](double& lr, double& weight_decay, double* momentum) {
    return which == Do::lr ? &lr : which == Do::weight_decay ? &weight_decay : momentum;
  };
  if (auto* o = dynamic_cast<SGDOptions*>(&options)) return pick(o->lr(), o->weight_decay(), &o->momentum());
  if (auto* o = dynamic_cast<AdamOptions*>(&options))
    return pick(o->lr(), o->weight_decay(), &std::get<0>(o->betas()));
  if (auto* o = dynamic_cast<AdamWOptions*>(&options))
    return pick(o->lr(), o->weight_decay(), &std::get<0>(o->betas()));
  if (auto* o = dynamic_cast<RMSpropOptions*>(&options))
    return pick(o->lr(), o->weight_decay(), &o->momentum());
  if (auto* o = dynamic_cast<AdagradOptions*>(&options)) return pick(o->lr(), o->weight_decay(), nullptr);
  return nullptr;
}

}  // namespace tpubridge::fuzz
