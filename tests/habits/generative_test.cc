// Programs that make things: VAE, GANs, diffusion, NeRF, pictures that are optimised.
#include "tests/habits/program.h"

namespace tpubridge {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

struct VaeImpl : nn::Module {
  VaeImpl() {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_module("fc3", fc3);
    register_module("fc4", fc4);
    register_module("fc5", fc5);
  }
  std::vector<Tensor> forward(const Tensor& x, const Tensor& eps) {
    const auto h = F::relu(fc1->forward(x));
    const auto mu = fc2->forward(h), log_var = fc3->forward(h);
    const auto z = mu + eps * log_var.div(2).exp();
    return {torch::sigmoid(fc5->forward(F::relu(fc4->forward(z)))), mu, log_var};
  }
  nn::Linear fc1{36, 24}, fc2{24, 5}, fc3{24, 5}, fc4{5, 24}, fc5{24, 36};
};
TORCH_MODULE(Vae);

// The public VAE: a value is read every 100 steps only, and the last batch of an epoch is smaller.
TEST(Habits, VaeThatLogsEveryHundredSteps) {
  Habit{.settled = 5}.expect_same([](Place& p) {
    Vae model;
    model->to(p.device);
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
    for (int epoch = 0; epoch < 3; ++epoch)
      for (int i = 0; i < 230; ++i) {
        const int64_t n = i == 229 ? 7 : 16;
        auto images = p.rand({n, 6, 6}).reshape({-1, 36});
        auto output = model->forward(images, p.randn({n, 5}));
        auto reconstruction = F::binary_cross_entropy(
            output[0], images, F::BinaryCrossEntropyFuncOptions().reduction(torch::kSum));
        auto kl = -0.5 * torch::sum(1 + output[2] - output[1].pow(2) - output[2].exp());
        auto loss = reconstruction + kl;
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        if ((i + 1) % 100 == 0) p.step({reconstruction, kl});
      }
    p.see(parameters_of(*model));
  });
}

// Nothing is read before the end of an epoch, but sums are kept on the device.
TEST(Habits, LossesThatAreSummedOnTheDevice) {
  Habit{.settled = 2}.expect_same([](Place& p) {
    nn::Sequential model(nn::Linear(6, 12), nn::ReLU(), nn::BatchNorm1d(12), nn::Linear(12, 3));
    model->to(p.device);
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3).amsgrad(true));
    const auto all = p.randn({300, 6}), labels = p.randint(3, {300});
    for (int epoch = 0; epoch < 6; ++epoch) {
      Tensor total = torch::zeros({}, p.device),
             correct = torch::zeros({}, torch::dtype(torch::kLong).device(p.device));
      for (int64_t i = 0; i < 300; i += 8) {
        const auto x = all.slice(0, i, i + 8), y = labels.slice(0, i, i + 8);
        optimizer.zero_grad();
        auto output = model->forward(x);
        auto loss = F::cross_entropy(output, y);
        loss.backward();
        optimizer.step();
        total += loss.detach() * x.size(0);
        correct += output.argmax(1).eq(y).sum();
      }
      p.step({total / 300, correct});
    }
    p.see(parameters_of(*model));
  });
}

// A GAN of two perceptrons, then WGAN with a penalty on the gradient (a gradient of second order).
TEST(Habits, GanWithGradientPenalty) {
  Habit{.settled = 3, .tolerance = 1e-2}.expect_same([](Place& p) {
    nn::Sequential g(nn::Linear(4, 16), nn::ReLU(), nn::Linear(16, 6), nn::Tanh()),
        d(nn::Linear(6, 16), nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)), nn::Linear(16, 1));
    g->to(p.device);
    d->to(p.device);
    torch::optim::Adam go(g->parameters(), torch::optim::AdamOptions(1e-3).betas({0, 0.9})),
        d_o(d->parameters(), torch::optim::AdamOptions(1e-3).betas({0, 0.9}));
    for (int step = 0; step < 8; ++step) {
      for (int critic = 0; critic < 3; ++critic) {
        d->zero_grad();
        auto real = p.randn({8, 6});
        auto fake = g->forward(p.randn({8, 4})).detach();
        auto alpha = p.rand({8, 1}).expand({8, 6});
        auto between = (alpha * real + (1 - alpha) * fake).requires_grad_(true);
        auto out = d->forward(between);
        auto gradient = torch::autograd::grad({out}, {between}, {torch::ones_like(out)}, true, true)[0];
        auto penalty = (gradient.norm(2, 1) - 1).pow(2).mean();
        auto loss = d->forward(fake).mean() - d->forward(real).mean() + 10 * penalty;
        loss.backward();
        d_o.step();
        p.see({loss, penalty});
      }
      g->zero_grad();
      auto g_loss = -d->forward(g->forward(p.randn({8, 4}))).mean();
      g_loss.backward();
      go.step();
      p.step({g_loss});
    }
    p.see(parameters_of(*d));
  });
}

// Denoising diffusion: steps drawn on the host look schedules up, then a loop goes back with t as a number.
TEST(Habits, Diffusion) {
  Habit{.settled = 9}.expect_same([](Place& p) {
    const int64_t steps = 20;
    auto betas = torch::linspace(1e-4, 0.02, steps).to(p.device);
    auto alphas = 1 - betas, bars = torch::cumprod(alphas, 0);
    nn::Sequential net(nn::Linear(8 + 8, 24), nn::SiLU(), nn::Linear(24, 8));
    net->to(p.device);
    torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(2e-3));
    const auto embed = [&](const Tensor& t) {
      auto f = torch::exp(-torch::arange(4, torch::kFloat) * 0.5).to(p.device);
      auto a = t.to(torch::kFloat).unsqueeze(1) * f.unsqueeze(0);
      return torch::cat({a.sin(), a.cos()}, 1);
    };
    for (int step = 0; step < 6; ++step) {
      auto x0 = p.randn({5, 8}), noise = p.randn({5, 8});
      auto t = torch::randint(0, steps, {5}, torch::kLong).to(p.device);
      auto bar = bars.index({t}).view({-1, 1});
      auto xt = bar.sqrt() * x0 + (1 - bar).sqrt() * noise;
      auto loss = F::mse_loss(net->forward(torch::cat({xt, embed(t)}, 1)), noise);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      p.step({loss});
    }
    const torch::NoGradGuard quiet;
    auto x = p.randn({3, 8});
    for (int64_t t = steps - 1; t >= 0; --t) {
      auto tt = torch::full({3}, t, torch::dtype(torch::kLong).device(p.device));
      auto eps = net->forward(torch::cat({x, embed(tt)}, 1));
      auto mean = (x - betas[t] / (1 - bars[t]).sqrt() * eps) / alphas[t].sqrt();
      x = t > 0 ? mean + betas[t].sqrt() * p.randn({3, 8}) : mean;
      if (t > 1)
        p.step({x});
      else
        p.see({x});  // 1 and 0 have programs of their own
    }
  });
}

// NeRF: rays, samples along them, those of the fine pass by the inverse of the distribution, chunks of
// another last size.
TEST(Habits, Nerf) {
  Habit{.settled = 5, .tolerance = 1e-2}.expect_same([](Place& p) {
    const auto encode = [](const Tensor& x, int64_t levels) {
      std::vector<Tensor> out{x};
      for (int64_t i = 0; i < levels; ++i)
        for (const auto& y : {torch::sin(x * std::pow(2.0, i)), torch::cos(x * std::pow(2.0, i))})
          out.push_back(y);
      return torch::cat(out, -1);
    };
    nn::Sequential net(nn::Linear(3 * 7, 24), nn::ReLU(), nn::Linear(24, 24), nn::ReLU(), nn::Linear(24, 4));
    net->to(p.device);
    torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(5e-4));
    const auto render = [&](const Tensor& origin, const Tensor& direction, const Tensor& z) {
      auto points = origin.unsqueeze(1) + direction.unsqueeze(1) * z.unsqueeze(-1);
      auto raw =
          net->forward(encode(points.reshape({-1, 3}), 3)).reshape({points.size(0), points.size(1), 4});
      auto rgb = torch::sigmoid(raw.slice(-1, 0, 3)), sigma = torch::relu(raw.select(-1, 3));
      auto far = torch::full({z.size(0), 1}, 1e10, z.options());
      auto distance = torch::cat({z.slice(1, 1) - z.slice(1, 0, -1), far}, 1);
      auto alpha = 1 - torch::exp(-sigma * distance);
      auto through =
          torch::cumprod(torch::cat({torch::ones({z.size(0), 1}, z.options()), 1 - alpha + 1e-10}, 1), 1);
      auto weights = alpha * through.slice(1, 0, -1);
      return std::make_pair((weights.unsqueeze(-1) * rgb).sum(1), weights);
    };
    const auto sample = [&](const Tensor& bins, Tensor weights, const Tensor& u) {
      weights = weights + 1e-5;
      auto pdf = weights / weights.sum(-1, true);
      auto cdf = torch::cumsum(pdf, -1);
      cdf = torch::cat({torch::zeros_like(cdf.slice(-1, 0, 1)), cdf}, -1);
      auto at = torch::searchsorted(cdf.contiguous(), u.contiguous(), false, true);
      auto below = torch::clamp_min(at - 1, 0), above = torch::clamp_max(at, cdf.size(-1) - 1);
      auto c0 = cdf.gather(-1, below), c1 = cdf.gather(-1, above);
      auto b0 = bins.gather(-1, below), b1 = bins.gather(-1, above);
      auto width = torch::where(c1 - c0 < 1e-5, torch::ones_like(c0), c1 - c0);
      return b0 + (u - c0) / width * (b1 - b0);
    };
    for (int step = 0; step < 8; ++step) {
      const int64_t n = step % 4 == 3 ? 5 : 12;
      auto origin = p.randn({n, 3}) * 0.1,
           direction = F::normalize(p.randn({n, 3}), F::NormalizeFuncOptions().dim(-1));
      auto target = p.rand({n, 3});
      auto z = torch::linspace(2, 6, 8, p.device).expand({n, 8});
      auto mid = 0.5 * (z.slice(1, 1) + z.slice(1, 0, -1));
      auto [coarse, weights] = render(origin, direction, z);
      auto fine_z = sample(mid, weights.slice(1, 1, -1).detach(), p.rand({n, 6})).detach();
      auto all_z = std::get<0>(torch::cat({z, fine_z}, 1).sort(1));
      auto [fine, fine_weights] = render(origin, direction, all_z);
      auto loss = F::mse_loss(coarse, target) + F::mse_loss(fine, target);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      p.step({loss, -10 * torch::log10(loss.detach()), fine_weights.sum()});
    }
    p.see(parameters_of(*net));
  });
}

// A picture that is optimised with LBFGS towards Gram matrices, as style transfer does.
TEST(Habits, StyleTransferWithLbfgs) {
  Habit{.settled = 2, .tolerance = 2e-2}.expect_same([](Place& p) {
    nn::Conv2d conv1(nn::Conv2dOptions(3, 6, 3).padding(1)), conv2(nn::Conv2dOptions(6, 8, 3).padding(1));
    conv1->to(p.device);
    conv2->to(p.device);
    for (auto* c : {&conv1, &conv2})
      for (auto& w : (*c)->parameters()) w.set_requires_grad(false);
    const auto features = [&](const Tensor& x) {
      auto a = torch::relu(conv1->forward(x));
      return std::vector<Tensor>{a, torch::relu(conv2->forward(torch::avg_pool2d(a, 2)))};
    };
    const auto gram = [](const Tensor& f) {
      auto flat = f.view({f.size(1), -1});
      return flat.mm(flat.t()) / f.numel();
    };
    auto content = features(p.rand({1, 3, 12, 12})), style = features(p.rand({1, 3, 12, 12}));
    auto image = p.rand({1, 3, 12, 12}).requires_grad_();
    torch::optim::LBFGS optimizer({image}, torch::optim::LBFGSOptions(0.5).max_iter(4).history_size(5));
    for (int step = 0; step < 5; ++step) {
      Tensor last;
      optimizer.step([&] {
        optimizer.zero_grad();
        auto f = features(image);
        auto loss = F::mse_loss(f[1], content[1]);
        for (size_t i = 0; i < 2; ++i) loss = loss + 100 * F::mse_loss(gram(f[i]), gram(style[i]));
        loss.backward();
        last = loss.detach();
        return loss;
      });
      {
        const torch::NoGradGuard quiet;
        image.clamp_(0, 1);
      }
      p.step({last, image});
    }
  });
}

}  // namespace
}  // namespace tpubridge
