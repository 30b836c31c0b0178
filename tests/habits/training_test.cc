// Ways to train: optimizers, averages, accumulation, groups, checkpoints, other sizes, errors that are
// caught.
#include <random>
#include <sstream>

#include "tests/habits/program.h"

namespace tpubridge {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

nn::Sequential perceptron() {
  return nn::Sequential(nn::Linear(nn::LinearOptions(6, 10).bias(false)), nn::BatchNorm1d(10), nn::GELU(),
                        nn::Linear(10, 3));
}

// Gradients of several batches, then a step; averages of weights; a rate by a formula; a copy with averaged
// weights.
TEST(Habits, AccumulationAndAverages) {
  Habit{.settled = 5}.expect_same([](Place& p) {
    auto model = perceptron(), average = perceptron(), swa = perceptron();
    for (auto* m : {&model, &average, &swa}) (*m)->to(p.device);
    const auto copy = [](nn::Sequential& to, nn::Sequential& from) {
      const torch::NoGradGuard quiet;
      auto sources = from->named_parameters();
      for (auto& w : to->named_parameters()) w.value().copy_(sources[w.key()]);
      auto buffers = from->named_buffers();
      for (auto& b : to->named_buffers()) b.value().copy_(buffers[b.key()]);
    };
    copy(average, model);
    copy(swa, model);
    torch::optim::SGD optimizer(model->parameters(),
                                torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true));
    int64_t averaged = 0;
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      double total = 0;
      for (int micro = 0; micro < 3; ++micro) {
        auto x = p.randn({4, 6});
        auto loss = F::cross_entropy(model->forward(x), p.randint(3, {4})) / 3;
        loss.backward();
        total += loss.item<double>();
      }
      const double rate = 0.05 * (1 + std::cos(3.14159 * step / 10));
      for (auto& g : optimizer.param_groups()) g.options().set_lr(rate);
      const double norm = nn::utils::clip_grad_norm_(model->parameters(), 2.0);
      optimizer.step();
      {
        const torch::NoGradGuard quiet;
        const double decay = std::min(0.99, (1.0 + step) / (10.0 + step));
        auto now = model->named_parameters();
        for (auto& w : average->named_parameters()) w.value().mul_(decay).add_(now[w.key()], 1 - decay);
        if (step % 2 == 1) {
          for (auto& w : swa->named_parameters())
            w.value().add_((now[w.key()] - w.value()) / static_cast<double>(averaged + 1));
          ++averaged;
        }
      }
      p.step({torch::tensor(total), torch::tensor(norm)});
    }
    swa->train();
    for (int i = 0; i < 3; ++i) (void)swa->forward(p.randn({8, 6}));
    swa->eval();
    p.see({swa->forward(p.randn({5, 6}))});
    p.see(parameters_of(*average));
    p.see(parameters_of(*swa));
  });
}

template <class Optimizer, class Options>
void expect_trains(Options options, int settled = 3) {
  Habit{.settled = settled, .tolerance = 5e-3}.expect_same([&](Place& p) {
    auto model = perceptron();
    model->to(p.device);
    Optimizer optimizer(model->parameters(), options);
    torch::optim::StepLR schedule(optimizer, 3, 0.5);
    for (int step = 0; step < 8; ++step) {
      auto x = p.randn({8, 6}), y = p.randn({8, 3});
      auto loss = F::mse_loss(model->forward(x), y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      schedule.step();
      p.step({loss});
    }
    p.see(parameters_of(*model));
  });
}

TEST(Habits, EveryOptimizer) {
  expect_trains<torch::optim::SGD>(torch::optim::SGDOptions(0.05).momentum(0.9).dampening(0.1));
  expect_trains<torch::optim::Adam>(torch::optim::AdamOptions(1e-2).weight_decay(1e-2));
  expect_trains<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-2).amsgrad(true));
  expect_trains<torch::optim::Adagrad>(torch::optim::AdagradOptions(1e-2).lr_decay(0.1));
  expect_trains<torch::optim::RMSprop>(torch::optim::RMSpropOptions(1e-2).centered(true).momentum(0.5));
}

// LBFGS with and without its line search: on Rosenbrock's valley, and on a small net.
TEST(Habits, Lbfgs) {
  Habit{.settled = 3, .tolerance = 2e-2}.expect_same([](Place& p) {
    auto x = torch::tensor({-1.5, 1.2}, torch::kDouble).to(p.device).requires_grad_();
    torch::optim::LBFGS optimizer({x},
                                  torch::optim::LBFGSOptions(1).max_iter(5).line_search_fn("strong_wolfe"));
    for (int step = 0; step < 8; ++step) {
      auto loss = optimizer.step([&] {
        optimizer.zero_grad();
        auto y = (1 - x[0]).pow(2) + 100 * (x[1] - x[0].pow(2)).pow(2);
        y.backward();
        return y;
      });
      p.step({loss, x});
    }
  });
}

// Everything is saved in the middle, to a stream and by name, and loaded into fresh objects.
TEST(Habits, SavedAndLoadedInTheMiddle) {
  Habit{.settled = 6}.expect_same([](Place& p) {
    auto model = perceptron();
    model->to(p.device);
    auto optimizer =
        std::make_unique<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(1e-2));
    for (int step = 0; step < 9; ++step) {
      auto loss = F::cross_entropy(model->forward(p.randn({8, 6})), p.randint(3, {8}));
      optimizer->zero_grad();
      loss.backward();
      optimizer->step();
      p.step({loss});
      if (step % 5 != 4) continue;
      std::stringstream weights, state, loose;
      torch::serialize::OutputArchive archive;
      model->save(archive);
      archive.save_to(weights);
      torch::save(*optimizer, state);
      torch::save(loss.detach(), loose);
      auto other = perceptron();
      torch::serialize::InputArchive in;
      in.load_from(weights, p.device);
      other->to(p.device);
      other->load(in);
      model = other;
      optimizer =
          std::make_unique<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(1e-2));
      torch::load(*optimizer, state);
      Tensor back;
      torch::load(back, loose);
      p.see({back});
    }
    p.see(parameters_of(*model));
  });
}

// Batches of any size, one after the other, some seen once.
TEST(Habits, BatchesOfAnySize) {
  Habit{.settled = 4}.expect_same([](Place& p) {
    nn::Sequential model(nn::Linear(6, 16), nn::ReLU(), nn::LayerNorm(nn::LayerNormOptions({16})),
                         nn::Linear(16, 3));
    model->to(p.device);
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
    for (const int64_t n : {9, 10, 13, 12, 15, 11, 14, 16, 10, 9, 13, 12}) {
      auto x = p.randn({n, 6});
      auto y = p.randint(3, {n});
      auto logits = model->forward(x);
      auto loss = F::cross_entropy(logits, y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      auto hits = logits.argmax(1).eq(y).to(torch::kFloat).mean();
      p.step({loss, hits});
    }
    p.see(parameters_of(*model));
  });
}

// Graphs of any number of nodes and edges: messages are gathered, scattered and normalised by degree.
TEST(Habits, GraphsOfAnySize) {
  Habit{.settled = 4}.expect_same([](Place& p) {
    nn::Linear first(5, 12), second(12, 3);
    std::vector<Tensor> all;
    for (auto* m : {&first, &second}) {
      (*m)->to(p.device);
      for (auto& w : (*m)->parameters()) all.push_back(w);
    }
    torch::optim::Adam optimizer(all, torch::optim::AdamOptions(1e-2));
    std::mt19937 random(3);
    for (int step = 0; step < 14; ++step) {
      const auto n = static_cast<int64_t>(9 + random() % 8), e = static_cast<int64_t>(33 + random() % 30);
      auto from = p.randint(n, {e}), to = p.randint(n, {e});
      const auto spread = [&](const Tensor& x) {
        auto degree = torch::zeros({n}, p.device).index_add(0, to, torch::ones({e}, p.device)).clamp_min(1);
        return torch::zeros({n, x.size(1)}, p.device).index_add(0, to, x.index_select(0, from)) /
               degree.unsqueeze(1);
      };
      auto h = torch::relu(first->forward(spread(p.randn({n, 5}))));
      auto y = second->forward(spread(h)).log_softmax(1);
      auto loss = F::nll_loss(y, p.randint(3, {n}));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      p.step({loss});
    }
    p.see(all);
  });
}

// What goes wrong is told as on the CPU, and the program goes on.
TEST(Habits, MistakesAreCaughtAndTheProgramGoesOn) {
  Habit{.settled = 3}.expect_same([](Place& p) {
    auto model = perceptron();
    model->to(p.device);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    const auto refused = [](auto&& call) {
      try {
        call();
      } catch (const std::exception&) {
        return true;
      }
      return false;
    };
    for (int step = 0; step < 6; ++step) {
      const auto x = p.randn({4, 6});
      EXPECT_TRUE(refused([&] { (void)model->forward(p.randn({4, 7})); }));
      EXPECT_TRUE(refused(
          [&] { (void)F::cross_entropy(model->forward(x), torch::zeros({5}, torch::kLong).to(p.device)); }));
      EXPECT_TRUE(refused([&] { (void)torch::cat({x, p.randn({4, 3})}, 0); }));
      EXPECT_TRUE(refused([&] { (void)x.view({5, 5}); }));
      EXPECT_TRUE(refused([&] { (void)(x + p.randn({3, 6})); }));
      EXPECT_TRUE(refused([&] { x.sum().backward(); }));
      EXPECT_TRUE(refused([&] { (void)x.item<float>(); }));
      if (p.device != torch::kCPU) {
        EXPECT_TRUE(refused([&] { (void)model->forward(torch::ones({4, 6})); }));
      }
      auto loss = F::cross_entropy(model->forward(x), p.randint(3, {4}));
      optimizer.zero_grad();
      loss.backward();
      EXPECT_TRUE(refused([&] { loss.backward(); }));
      optimizer.step();
      p.step({loss});
    }
    p.see(parameters_of(*model));
  });
}

}  // namespace
}  // namespace tpubridge
