// Models, optimizers and generators through a checkpoint and back: the same bits, or an error that says
// where.
#include <gmock/gmock.h>

#include "tests/device/check.h"
#include "tpubridge/optim/optim.h"
#include "tpubridge/train/checkpoint_store.h"
#include "tpubridge/train/state.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

struct Everything : torch::nn::Module {
  explicit Everything(int64_t wide = 3, torch::ScalarType half = torch::kBFloat16) {
    register_parameter("w", torch::randn({wide, 2}));
    register_parameter("half", torch::randn({5}).to(half));
    register_parameter("scalar", torch::randn({}));
    register_buffer("count", torch::tensor({int64_t{1} << 40, int64_t{-3}}));
    register_buffer("mask", torch::tensor({true, false, true}));
    register_buffer("nothing", torch::empty({0, 4}));
    register_buffer("wide", torch::randn({2}, torch::kDouble));
  }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto x = a.detach().cpu().contiguous(), y = b.detach().cpu().contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

void expect_same(torch::nn::Module& a, torch::nn::Module& b) {
  for (const auto& p : a.named_parameters())
    EXPECT_TRUE(same_bits(p.value(), b.named_parameters()[p.key()])) << p.key();
  for (const auto& p : a.named_buffers())
    EXPECT_TRUE(same_bits(p.value(), b.named_buffers()[p.key()])) << p.key();
}

// Through the disk.
CheckpointData stored(const CheckpointData& data) {
  const TempFolder folder;
  write_checkpoint(folder.path() / "c", data);
  return read_checkpoint(folder.path() / "c");
}

TEST(State, EveryKindOfTensorComesBack) {
  for (const auto device : {torch::Device(torch::kCPU), tpu()}) {
    torch::manual_seed(1);
    Everything a;
    torch::manual_seed(2);
    Everything b;
    a.to(device), b.to(device);
    const auto parameter = b.named_parameters()["w"];
    restore({&b, nullptr}, stored(capture({&a, nullptr}, {{"step", 7}})), "folder");
    expect_same(a, b);
    EXPECT_EQ(b.named_parameters()["w"].unsafeGetTensorImpl(), parameter.unsafeGetTensorImpl());
    EXPECT_EQ(b.named_buffers()["count"][0].item<int64_t>(), int64_t{1} << 40);
  }
}

TEST(State, ACheckpointDoesNotFollowTheModel) {
  Everything a;
  const auto before = a.named_parameters()["w"].detach().clone();
  const auto data = capture({&a, nullptr}, {});
  {
    torch::NoGradGuard no_grad;
    a.named_parameters()["w"].add_(1);
  }
  restore({&a, nullptr}, data, "folder");
  EXPECT_TRUE(same_bits(a.named_parameters()["w"], before));
}

TEST(State, AGeneratorGoesOnWhereItWas) {
  Everything a;
  a.to(tpu());
  torch::manual_seed(11);
  (void)torch::rand({3}), (void)torch::rand({3}, tpu());
  const auto data = stored(capture({&a, nullptr}, {}));
  const auto host = torch::rand({5}), there = torch::rand({5}, tpu()).cpu();
  (void)torch::rand({100}), (void)torch::rand({100}, tpu());
  restore({&a, nullptr}, data, "folder");
  EXPECT_TRUE(same_bits(torch::rand({5}), host));
  EXPECT_TRUE(same_bits(torch::rand({5}, tpu()), there));
}

template <class E = TPUCheckpointError, class F>
E thrown(F f) {
  try {
    f();
  } catch (const E& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return E("");
}

TEST(State, WhatDoesNotFitIsNamedAndNothingChanges) {
  Everything a, wider(4), half(3, torch::kHalf);
  const auto data = capture({&a, nullptr}, {});
  const auto before = wider.named_parameters()["half"].detach().clone();
  const auto e1 = thrown([&] { restore({&wider, nullptr}, data, "/c"); });
  EXPECT_EQ(e1.detail("tensor"), "w");
  EXPECT_EQ(e1.detail("path"), "/c/model.safetensors");
  EXPECT_THAT(e1.what(), HasSubstr("f32[3,2]"));
  EXPECT_THAT(e1.what(), HasSubstr("f32[4,2]"));
  EXPECT_TRUE(same_bits(wider.named_parameters()["half"], before));

  const auto e2 = thrown([&] { restore({&half, nullptr}, data, "/c"); });
  EXPECT_EQ(e2.detail("tensor"), "half");
  EXPECT_THAT(e2.what(), HasSubstr("bf16[5], the model's is f16[5]"));

  Everything more;
  more.register_parameter("extra", torch::ones({1}));
  const auto e3 = thrown([&] { restore({&more, nullptr}, data, "/c"); });
  EXPECT_EQ(e3.detail("tensor"), "extra");
  EXPECT_THAT(e3.what(), HasSubstr("not in the checkpoint"));
  const auto with_more = capture({&more, nullptr}, {});
  const auto e4 = thrown([&] { restore({&a, nullptr}, with_more, "/c"); });
  EXPECT_EQ(e4.detail("tensor"), "extra");
  EXPECT_THAT(e4.what(), HasSubstr("not in the model"));

  auto without = data;
  without.files.erase("model");
  const auto e5 = thrown([&] { restore({&a, nullptr}, without, "/c"); });
  EXPECT_EQ(e5.detail("file"), "model.safetensors");
  without = data;
  without.files["generators"].clear();
  EXPECT_EQ(thrown([&] { restore({&a, nullptr}, without, "/c"); }).detail("tensor"), "cpu");
}

using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<Tensor>)>;

struct Small : torch::nn::Module {
  Small()
      : a(register_module("a", torch::nn::Linear(3, 4))), b(register_module("b", torch::nn::Linear(4, 2))) {}
  torch::nn::Linear a, b;
};

void step(Small& net, torch::optim::Optimizer& opt, const torch::Device& device, int i) {
  opt.zero_grad();
  const auto x = torch::arange(6, torch::kFloat).view({2, 3}).mul(0.1 * (i + 1)).to(device);
  net.b(torch::gelu(net.a(x))).pow(2).sum().backward();
  opt.step();
}

// Three steps, a checkpoint into fresh objects, three more on both: the same bits.
void expect_goes_on(const Make& make, bool on_cpu = true) {
  for (const auto device : {tpu(), torch::Device(torch::kCPU)}) {
    if (device.is_cpu() && !on_cpu) continue;
    Small net, other;
    net.to(device), other.to(device);
    auto opt = make(net.parameters()), other_opt = make(other.parameters());
    for (int i = 0; i < 3; ++i) step(net, *opt, device, i);
    opt->param_groups()[0].options().set_lr(0.004);
    restore({&other, other_opt.get()}, stored(capture({&net, opt.get()}, {})), "folder");
    EXPECT_EQ(other_opt->param_groups()[0].options().get_lr(), 0.004);
    for (int i = 3; i < 6; ++i) step(net, *opt, device, i), step(other, *other_opt, device, i);
    expect_same(net, other);
  }
}

template <class O, class Options>
Make maker(Options options) {
  return [options](std::vector<Tensor> p) { return std::make_unique<O>(std::move(p), options); };
}

TEST(State, OptimizersGoOn) {
  using namespace torch::optim;
  expect_goes_on(maker<SGD>(SGDOptions(0.01)));
  expect_goes_on(maker<SGD>(SGDOptions(0.01).momentum(0.9).nesterov(true)));
  expect_goes_on(maker<Adam>(AdamOptions(0.01).amsgrad(true)));
  expect_goes_on(maker<AdamW>(AdamWOptions(0.01).weight_decay(0.1)));
  expect_goes_on(maker<RMSprop>(RMSpropOptions(0.01).centered(true).momentum(0.5)));
  expect_goes_on(maker<Adagrad>(AdagradOptions(0.01).lr_decay(0.1)));
}

TEST(State, OptimizersOfTheDeviceGoOn) {
  expect_goes_on([](auto p) { return std::make_unique<optim::AdamW>(std::move(p), 0.01); }, false);
  expect_goes_on(
      [](auto p) {
        return std::make_unique<optim::SGD>(std::move(p), torch::optim::SGDOptions(0.01).momentum(0.9));
      },
      false);
  Small net;
  net.to(tpu());
  optim::Adam adam(net.parameters(), torch::optim::AdamOptions(0.01));
  step(net, adam, tpu(), 0);
  auto data = capture({&net, &adam}, {});
  data.files["optimizer"].pop_back();
  EXPECT_EQ(thrown([&] { restore({&net, &adam}, data, "/c"); }).detail("path"), "/c/optimizer.safetensors");
}

TEST(State, AnotherOptimizerIsRefused) {
  Small net;
  torch::optim::Adam adam(net.parameters(), torch::optim::AdamOptions(0.01));
  torch::optim::AdamW adamw(net.parameters(), torch::optim::AdamWOptions(0.01));
  step(net, adam, torch::kCPU, 0);
  auto data = capture({&net, &adam}, {});
  EXPECT_THAT(thrown([&] { restore({&net, &adamw}, data, "/c"); }).what(), HasSubstr("\"Adam\""));
  torch::optim::Adam fewer({net.a->weight}, torch::optim::AdamOptions(0.01));
  EXPECT_THAT(thrown([&] { restore({&net, &fewer}, data, "/c"); }).what(), HasSubstr("are 4, not 1"));

  const auto weight = net.a->weight.detach().clone();
  data.files["model"][0] = host_tensor(data.files["model"][0].name, torch::zeros({4, 3}));
  auto bad = data;
  bad.files["optimizer"].pop_back();
  const auto e6 = thrown([&] { restore({&net, &adam}, bad, "/c"); });
  EXPECT_EQ(e6.detail("file"), "optimizer.safetensors");
  EXPECT_THAT(e6.what(), HasSubstr("is missing"));
  EXPECT_TRUE(same_bits(net.a->weight, weight));  // the model is not changed either
  bad = data;
  bad.files["optimizer"].push_back(host_tensor("param9.exp_avg", torch::ones({1})));
  EXPECT_EQ(thrown([&] { restore({&net, &adam}, bad, "/c"); }).detail("tensor"), "param9.exp_avg");
  bad = data;
  bad.numbers["optimizer"]["group0.lr"] = "fast";
  EXPECT_THAT(thrown([&] { restore({&net, &adam}, bad, "/c"); }).what(), HasSubstr("is no number"));
  for (const nlohmann::json& step : {nlohmann::json(-5), nlohmann::json(std::numeric_limits<int64_t>::max()),
                                     nlohmann::json(std::numeric_limits<uint64_t>::max())}) {
    bad = data;
    bad.numbers["optimizer"]["param0.step"] = step;
    EXPECT_THAT(thrown([&] {
                  restore({&net, &adam}, bad, "/c");
                }).what(),
                HasSubstr("is no number of steps"));
  }
  bad.numbers.erase("optimizer");
  EXPECT_THROW(restore({&net, &adam}, bad, "/c"), TPUCheckpointError);
}

// An optimizer of one's own joins by a second base.
struct Own : torch::optim::Optimizer, CheckpointedState {
  explicit Own(std::vector<Tensor> params)
      : Optimizer({torch::optim::OptimizerParamGroup(std::move(params))},
                  std::make_unique<torch::optim::SGDOptions>(0.1)) {
    for (const auto& p : param_groups()[0].params()) sums.push_back(torch::zeros_like(p));
  }
  Tensor step(LossClosure = nullptr) override {
    torch::NoGradGuard no_grad;
    ++steps;
    for (size_t i = 0; i < sums.size(); ++i) {
      auto& p = param_groups()[0].params()[i];
      sums[i].add_(p.grad());
      p.sub_(sums[i], 0.01 / static_cast<double>(steps));
    }
    return {};
  }
  std::string state_type() const override { return "Own"; }
  void visit_state(StateVisitor& v) override {
    v.count("steps", steps);
    for (size_t i = 0; i < sums.size(); ++i)
      v.tensor("sum" + std::to_string(i), sums[i], param_groups()[0].params()[i]);
  }
  int64_t steps = 0;
  std::vector<Tensor> sums;
};

struct Foreign : torch::optim::Optimizer {
  explicit Foreign(std::vector<Tensor> params)
      : Optimizer({torch::optim::OptimizerParamGroup(std::move(params))},
                  std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  Tensor step(LossClosure = nullptr) override { return {}; }
};

TEST(State, AnOptimizerOfOnesOwn) {
  Small net, other;
  Own opt(net.parameters()), other_opt(other.parameters());
  for (int i = 0; i < 3; ++i) step(net, opt, torch::kCPU, i);
  restore({&other, &other_opt}, stored(capture({&net, &opt}, {})), "folder");
  EXPECT_EQ(other_opt.steps, 3);
  for (int i = 3; i < 6; ++i) step(net, opt, torch::kCPU, i), step(other, other_opt, torch::kCPU, i);
  expect_same(net, other);
  Foreign foreign(net.parameters());
  EXPECT_THAT(thrown<ArgumentError>([&] {
                (void)capture({&net, &foreign}, {});
              }).hint(),
              HasSubstr("CheckpointedState"));
}

}  // namespace
}  // namespace tpubridge
