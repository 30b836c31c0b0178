// Programs about pictures, as the public tutorials write them.
#include <cstdio>
#include <random>

#include "tests/habits/program.h"

namespace tpubridge {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

// Pictures with a bright patch whose place is their class.
class Patches : public torch::data::Dataset<Patches> {
 public:
  explicit Patches(size_t n, int64_t side = 14) : n_(n), side_(side) {}
  torch::data::Example<> get(size_t i) override {
    const auto label = static_cast<int64_t>(i * 7 % 10);
    Tensor x = torch::sin(torch::arange(side_ * side_).view({1, side_, side_}) *
                          (0.1F + 0.01F * static_cast<float>(i)));
    x[0].narrow(0, label, 3).add_(1);
    return {x, torch::tensor(label)};
  }
  torch::optional<size_t> size() const override { return n_; }

 private:
  size_t n_;
  int64_t side_;
};

struct MnistNet : nn::Module {
  MnistNet() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  Tensor forward(Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
    x = torch::relu(torch::max_pool2d(conv2->forward(x), 2));
    x = x.view({-1, 8 * 2 * 2});
    x = torch::relu(fc1->forward(x));
    x = torch::dropout(x, /*p=*/0.0, is_training());
    return torch::log_softmax(fc2->forward(x), /*dim=*/1);
  }
  nn::Conv2d conv1{nn::Conv2dOptions(1, 4, 3)}, conv2{nn::Conv2dOptions(4, 8, 3)};
  nn::Linear fc1{32, 16}, fc2{16, 10};
};

// The MNIST example: workers, a smaller last batch, a test after each epoch.
TEST(Habits, Mnist) {
  Habit{.settled = 7}.expect_same([](Place& p) {
    MnistNet model;
    model.to(p.device);
    auto train = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        Patches(44)
            .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
            .map(torch::data::transforms::Stack<>()),
        torch::data::DataLoaderOptions().batch_size(8).workers(2));
    auto test = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        Patches(20)
            .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
            .map(torch::data::transforms::Stack<>()),
        torch::data::DataLoaderOptions().batch_size(10));
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.5));
    for (int epoch = 0; epoch < 3; ++epoch) {
      model.train();
      for (auto& batch : *train) {
        auto data = batch.data.to(p.device), targets = batch.target.to(p.device);
        optimizer.zero_grad();
        auto output = model.forward(data);
        auto loss = torch::nll_loss(output, targets);
        AT_ASSERT(!std::isnan(loss.template item<float>()));
        loss.backward();
        optimizer.step();
        p.step({loss});
      }
      torch::NoGradGuard no_grad;
      model.eval();
      double test_loss = 0;
      int64_t correct = 0;
      for (const auto& batch : *test) {
        auto data = batch.data.to(p.device), targets = batch.target.to(p.device);
        auto output = model.forward(data);
        test_loss += torch::nll_loss(output, targets, {}, torch::Reduction::Sum).template item<float>();
        correct += output.argmax(1).eq(targets).sum().template item<int64_t>();
      }
      p.step({torch::tensor(test_loss), torch::tensor(correct)});
      p.see(parameters_of(model));
    }
  });
}

nn::Sequential generator() {
  return nn::Sequential(
      nn::ConvTranspose2d(nn::ConvTranspose2dOptions(8, 16, 4).bias(false)), nn::BatchNorm2d(16),
      nn::ReLU(true),
      nn::ConvTranspose2d(nn::ConvTranspose2dOptions(16, 8, 4).stride(2).padding(1).bias(false)),
      nn::BatchNorm2d(8), nn::ReLU(true),
      nn::ConvTranspose2d(nn::ConvTranspose2dOptions(8, 1, 4).stride(2).padding(1).bias(false)), nn::Tanh());
}
nn::Sequential discriminator() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 8, 4).stride(2).padding(1).bias(false)),
                        nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
                        nn::Conv2d(nn::Conv2dOptions(8, 16, 4).stride(2).padding(1).bias(false)),
                        nn::BatchNorm2d(16), nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
                        nn::Conv2d(nn::Conv2dOptions(16, 1, 4).bias(false)), nn::Sigmoid());
}

// The DCGAN example, with a checkpoint that is saved and loaded in the middle.
TEST(Habits, Dcgan) {
  Habit{.settled = 6, .tolerance = 1e-2}.expect_same([](Place& p) {
    auto g = generator(), d = discriminator();
    g->to(p.device);
    d->to(p.device);
    torch::optim::Adam g_optimizer(g->parameters(), torch::optim::AdamOptions(2e-4).betas({0.5, 0.999}));
    torch::optim::Adam d_optimizer(d->parameters(), torch::optim::AdamOptions(2e-4).betas({0.5, 0.999}));
    for (int step = 0; step < 8; ++step) {
      const int64_t n = 6;
      d->zero_grad();
      Tensor real_images = p.rand({n, 1, 16, 16}) * 2 - 1;
      Tensor real_labels = (torch::rand({n}) * 0.2 + 0.8).to(p.device);
      Tensor real_output = d->forward(real_images).reshape(real_labels.sizes());
      Tensor d_loss_real = torch::binary_cross_entropy(real_output, real_labels);
      d_loss_real.backward();
      Tensor noise = p.randn({n, 8, 1, 1});
      Tensor fake_images = g->forward(noise);
      Tensor fake_labels = torch::zeros({n}, p.device);
      Tensor fake_output = d->forward(fake_images.detach()).reshape(fake_labels.sizes());
      Tensor d_loss_fake = torch::binary_cross_entropy(fake_output, fake_labels);
      d_loss_fake.backward();
      Tensor d_loss = d_loss_real + d_loss_fake;
      d_optimizer.step();
      g->zero_grad();
      fake_labels.fill_(1);
      fake_output = d->forward(fake_images).reshape(fake_labels.sizes());
      Tensor g_loss = torch::binary_cross_entropy(fake_output, fake_labels);
      g_loss.backward();
      g_optimizer.step();
      p.step({d_loss, g_loss});
      if (step != 4) continue;
      const std::string file = testing::TempDir() + "habits-dcgan" + p.device.str();
      torch::save(g, file + ".pt");
      torch::save(g_optimizer, file + "-optimizer.pt");
      {
        const torch::NoGradGuard quiet;
        for (auto& w : g->parameters()) w.zero_();
      }
      torch::load(g, file + ".pt");
      torch::load(g_optimizer, file + "-optimizer.pt");
      std::remove((file + ".pt").c_str());
      std::remove((file + "-optimizer.pt").c_str());
    }
    p.see({g->forward(p.randn({6, 8, 1, 1}))});
  });
}

struct BlockImpl : nn::Module {
  BlockImpl(int64_t in, int64_t out, int64_t stride)
      : conv1(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)),
        conv2(nn::Conv2dOptions(out, out, 3).padding(1).bias(false)),
        bn1(out),
        bn2(out) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("bn1", bn1);
    register_module("bn2", bn2);
    if (stride != 1)
      down = register_module(
          "down", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)),
                                 nn::BatchNorm2d(out)));
  }
  Tensor forward(const Tensor& x) {
    auto out = torch::relu(bn1->forward(conv1->forward(x)));
    out = bn2->forward(conv2->forward(out));
    out += down ? down->forward(x) : x;
    return torch::relu(out);
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::Sequential down{nullptr};
};
TORCH_MODULE(Block);

nn::Sequential small_resnet() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1).bias(false)), nn::BatchNorm2d(8),
                        nn::ReLU(), Block(8, 8, 1), Block(8, 16, 2), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                        nn::Linear(16, 5));
}

// The residual network example: a rate that falls, a smaller last batch, pictures moved and turned over on
// the device.
TEST(Habits, Resnet) {
  Habit{.settled = 11, .tolerance = 1e-2}.expect_same([](Place& p) {
    auto model = small_resnet();
    model->to(p.device);
    torch::optim::SGD optimizer(model->parameters(),
                                torch::optim::SGDOptions(0.02).momentum(0.9).weight_decay(1e-4));
    torch::optim::StepLR scheduler(optimizer, 2, 0.3);
    for (int epoch = 0; epoch < 5; ++epoch) {
      model->train();
      double running_loss = 0;
      int64_t num_correct = 0;
      for (int i = 0; i < 4; ++i) {
        const int64_t n = i == 3 ? 3 : 6;
        Tensor data = p.randn({n, 3, 12, 12});
        const Tensor padded = torch::constant_pad_nd(data, {2, 2, 2, 2});
        const auto at = torch::randint(5, {2}, torch::kLong);
        data = padded.slice(2, at[0].item<int64_t>(), at[0].item<int64_t>() + 12)
                   .slice(3, at[1].item<int64_t>(), at[1].item<int64_t>() + 12);
        const Tensor target = p.randint(5, {n});
        auto output = model->forward(data);
        auto loss = F::cross_entropy(output, target);
        running_loss += loss.item<double>() * static_cast<double>(data.size(0));
        auto prediction = output.argmax(1);
        num_correct += prediction.eq(target).sum().item<int64_t>();
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        p.step();
      }
      scheduler.step();
      p.step({torch::tensor(running_loss)});
    }
    model->eval();
    p.see({model->forward(p.randn({2, 3, 12, 12}))});
    p.see(parameters_of(*model));
  });
}

// Transfer learning: a frozen body in eval mode, a new head, two groups of parameters.
TEST(Habits, TransferLearning) {
  Habit{}.expect_same([](Place& p) {
    auto body = small_resnet();
    nn::Linear head(5, 2);
    body->to(p.device);
    head->to(p.device);
    for (auto& w : body->named_parameters())
      if (w.key().find("7.") == std::string::npos) w.value().set_requires_grad(false);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    std::vector<Tensor> slow;
    for (auto& w : body->parameters())
      if (w.requires_grad()) slow.push_back(w);
    groups.emplace_back(slow, std::make_unique<torch::optim::AdamOptions>(1e-4));
    groups.emplace_back(head->parameters());
    torch::optim::Adam optimizer(groups, torch::optim::AdamOptions(1e-2));
    float best = 0;
    for (int step = 0; step < 8; ++step) {
      body->eval();
      auto data = p.rand({4, 3, 12, 12}).to(torch::kF32).div(0.225);
      auto target = p.randint(2, {4}).squeeze();
      optimizer.zero_grad();
      auto output = head->forward(body->forward(data));
      auto loss = torch::nll_loss(torch::log_softmax(output, 1), target);
      loss.backward();
      optimizer.step();
      auto acc = output.argmax(1).eq(target).sum();
      best = std::max(best, acc.item<float>() / 4);
      p.step({loss, acc});
    }
    p.see(parameters_of(*head));
    p.see(parameters_of(*body));
  });
}

// A small U-Net with Dice's loss, decoder cut to what the encoder has.
TEST(Habits, Segmentation) {
  Habit{}.expect_same([](Place& p) {
    nn::Conv2d down1(nn::Conv2dOptions(1, 4, 3).padding(1)), down2(nn::Conv2dOptions(4, 8, 3).padding(1)),
        up(nn::Conv2dOptions(12, 4, 3).padding(1)), out(nn::Conv2dOptions(4, 1, 1));
    std::vector<Tensor> all;
    for (auto* m : {&down1, &down2, &up, &out}) {
      (*m)->to(p.device);
      for (auto& w : (*m)->parameters()) all.push_back(w);
    }
    torch::optim::RMSprop optimizer(all, torch::optim::RMSpropOptions(1e-3).momentum(0.9));
    for (int step = 0; step < 7; ++step) {
      auto x = p.randn({2, 1, 15, 15});
      auto mask = (x > 0.3).to(torch::kFloat);
      auto a = torch::relu(down1(x));
      auto b = torch::relu(down2(torch::max_pool2d(a, 2)));
      auto c = F::interpolate(b, F::InterpolateFuncOptions()
                                     .scale_factor(std::vector<double>{2, 2})
                                     .mode(torch::kBilinear)
                                     .align_corners(true));
      const int64_t dy = a.size(2) - c.size(2), dx = a.size(3) - c.size(3);
      c = F::pad(c, F::PadFuncOptions({dx / 2, dx - dx / 2, dy / 2, dy - dy / 2}));
      auto logits = out(torch::relu(up(torch::cat({a, c}, 1))));
      auto prob = torch::sigmoid(logits).flatten(1), want = mask.flatten(1);
      auto dice = 1 - ((2 * (prob * want).sum(1) + 1) / (prob.sum(1) + want.sum(1) + 1)).mean();
      auto loss = F::binary_cross_entropy_with_logits(logits, mask) + dice;
      optimizer.zero_grad();
      loss.backward();
      nn::utils::clip_grad_value_(all, 0.1);
      optimizer.step();
      auto iou = ((prob > 0.5) & (want > 0.5)).sum().item<float>() /
                 ((prob > 0.5) | (want > 0.5)).sum().item<float>();
      p.step({loss, torch::tensor(iou)});
    }
    p.see(all);
  });
}

}  // namespace
}  // namespace tpubridge
