// Training steps of an MLP, a ResNet and a GPT, and writing with the GPT.
#include "bench/workloads/training.h"
#include "examples/models/gpt.h"

namespace workloads {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

models::GptConfig gpt_config(const Params& p) {
  return {.vocabulary = p.number("vocabulary"),
          .context = p.number("length"),
          .layers = p.number("layers"),
          .heads = p.number("heads"),
          .width = p.number("width"),
          .tied = p.number("tied") != 0};
}

Tensor some_tokens(const Params& p, torch::Device device) {
  return torch::randint(p.number("vocabulary"), {p.number("batch"), p.number("length")}, torch::kLong)
      .to(device);
}

// A function over state (caches, the token that was written last) and no arguments.
using Step = std::function<void()>;
Step maybe_compiled(Mode mode, Step plain) {
  if (mode != Mode::replayed) return plain;
  auto step = std::make_shared<tpubridge::CompiledStep<Step>>(tpubridge::compile(plain));
  return [step] { (*step)(); };
}

}  // namespace

Workload mlp(Mode mode, const Params& p) {
  const int64_t width = p.number("width"), batch = p.number("batch");
  const auto device = device_of(mode);
  nn::Sequential net;
  for (int64_t i = 0; i < p.number("layers"); ++i) {
    if (i > 0) net->push_back(nn::ReLU());
    net->push_back(nn::Linear(width, width));
  }
  net->to(device);
  auto t = std::make_shared<Training>();
  t->model = net.ptr();
  t->optimizer = std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(1e-2));
  t->loss = [net](const Tensor& x, const Tensor& y) mutable { return torch::mse_loss(net->forward(x), y); };
  t->x = torch::randn({batch, width}).to(device);
  t->y = torch::randn({batch, width}).to(device);
  t->window = p.number_or("window", 0);
  return training(mode, t);
}

// An LSTM of two layers and directions reads images row by row.
Workload birnn(Mode mode, const Params& p) {
  const auto device = device_of(mode);
  const int64_t width = p.number("width"), rows = p.number("rows"), classes = p.number("classes");
  nn::LSTM lstm(
      nn::LSTMOptions(rows, width).num_layers(p.number("layers")).batch_first(true).bidirectional(true));
  nn::Linear out(2 * width, classes);
  const auto net = std::make_shared<nn::ModuleListImpl>();
  net->push_back(lstm);
  net->push_back(out);
  net->to(device);
  auto t = std::make_shared<Training>();
  t->model = net;
  t->optimizer = std::make_unique<torch::optim::AdamW>(net->parameters(),
                                                       torch::optim::AdamWOptions(1e-3).weight_decay(0.01));
  t->loss = [lstm, out, rows](const Tensor& x, const Tensor& y) mutable {
    const Tensor last = std::get<0>(lstm->forward(x)).select(1, rows - 1);
    return torch::cross_entropy_loss(out->forward(last), y);
  };
  t->x = torch::randn({p.number("batch"), rows, rows}).to(device);
  t->y = torch::randint(classes, {p.number("batch")}, torch::kLong).to(device);
  return training(mode, t);
}

Workload gpt(Mode mode, const Params& p) {
  const auto device = device_of(mode);
  const auto net = std::make_shared<models::GptImpl>(gpt_config(p));
  net->to(device);
  auto t = std::make_shared<Training>();
  t->model = net;
  t->optimizer = std::make_unique<torch::optim::AdamW>(net->parameters(),
                                                       torch::optim::AdamWOptions(1e-3).weight_decay(0.01));
  t->loss = [net, device, dtype = p.text("dtype")](const Tensor& x, const Tensor& y) {
    const Autocast narrow(device, dtype);
    return torch::cross_entropy_loss(net->forward(x).flatten(0, 1), y.flatten());
  };
  t->x = some_tokens(p, device);
  t->y = some_tokens(p, device);
  t->window = p.number_or("window", 0);
  return training(mode, t);
}

// Greedy: each token is the likeliest after the ones before. Token, place and cache stay on the device; after
// the last place it begins again at the first.
Workload decode(Mode mode, const Params& p) {
  const auto device = device_of(mode);
  const int64_t batch = p.number("batch"), length = p.number("length");
  const auto dtype = p.text("dtype") == "bf16" ? torch::kBFloat16 : torch::kFloat;
  const auto net = std::make_shared<models::GptImpl>(gpt_config(p));
  net->to(device, dtype);
  net->eval();
  auto cache = std::make_shared<models::KvCache>(net->cache(batch, torch::dtype(dtype).device(device)));
  const auto token = torch::zeros({batch, 1}, torch::kLong).to(device);
  const auto place = torch::zeros({1}, torch::kLong).to(device);
  const auto step = maybe_compiled(mode, [=]() mutable {
    torch::NoGradGuard quiet;
    token.copy_(net->next(token, place, *cache).argmax(-1));
    place.copy_((place + 1).remainder(length));
  });
  Workload w;
  w.call = [=] {
    step();
    wait(token);
  };
  w.many = [=](int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      step();
      if (mode == Mode::traced) tpubridge::sync();
    }
    wait(token);
  };
  return w;
}

}  // namespace workloads
