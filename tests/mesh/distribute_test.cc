// Models over a mesh: the losses of one device, whatever is split, and bytes that fall as planned.
#include "tpubridge/mesh/distribute.h"

#include <gmock/gmock.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include "tests/device/check.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/api.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

// A block as of a transformer: attention, norms, dropout-free, a pair of products.
struct SplitBlockImpl : torch::nn::Module {
  SplitBlockImpl() {
    embed = register_module("embed", torch::nn::Embedding(24, 16));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    qkv = register_module("qkv", torch::nn::Linear(16, 48));
    out = register_module("out", torch::nn::Linear(16, 16));
    up = register_module("up", torch::nn::Linear(16, 64));
    down = register_module("down", torch::nn::Linear(64, 16));
    head = register_module("head", torch::nn::Linear(16, 24));
  }
  Tensor forward(const Tensor& ids) {
    Tensor x = embed(ids);
    const auto parts = qkv(norm(x)).chunk(3, -1);
    const auto heads = [](const Tensor& t) { return t.unflatten(-1, {4, 4}).transpose(1, 2); };
    const Tensor a =
        at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {}, 0,
                                         /*is_causal=*/true);
    x = x + out(a.transpose(1, 2).flatten(2));
    x = x + down(torch::gelu(up(x)));
    return head(x);
  }
  torch::nn::Embedding embed{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr}, head{nullptr};
};
TORCH_MODULE(SplitBlock);

SplitBlock same_weights(const SplitBlock& model) {
  SplitBlock out;
  const torch::NoGradGuard no_grad;
  auto from = model->named_parameters();
  for (auto& p : out->named_parameters()) p.value().copy_(from[p.key()]);
  return out;
}

Tensor loss_of(SplitBlock& model, const Tensor& ids) {
  const Tensor logits = model->forward(ids.narrow(1, 0, ids.size(1) - 1));
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1),
                                              ids.narrow(1, 1, ids.size(1) - 1).flatten());
}

std::vector<Tensor> batches(int n) {
  std::vector<Tensor> out;
  torch::manual_seed(5);
  for (int i = 0; i < n; ++i) out.push_back(torch::randint(0, 24, {8, 9}));
  return out;
}

struct Strategy {
  std::string name;
  std::vector<Mesh::Axis> axes;
  Rules rules;
  bool all_split = false;  // fsdp() over these rules
  Split batch;
};

const Rules kTensorParallel = {{"qkv.*", {"model"}},
                               {"out.weight", {none, "model"}},
                               {"up.*", {"model"}},
                               {"down.weight", {none, "model"}},
                               {"head.weight", {"model"}}};

std::vector<Strategy> strategies() {
  return {{"data", {{"data", 4}}, {}, false, {"data"}},
          {"fsdp", {{"data", 4}}, {}, true, {"data"}},
          {"tensor", {{"model", 4}}, kTensorParallel, false, {}},
          {"data and tensor", {{"data", 2}, {"model", 2}}, kTensorParallel, false, {"data"}},
          {"fsdp and tensor", {{"data", 2}, {"model", 2}}, kTensorParallel, true, {"data"}},
          {"sequence", {{"data", 2}, {"seq", 2}}, {}, false, {"data"}}};
}

class Distribute : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (device_count() != 4) GTEST_SKIP() << "needs four devices";
  }
};

// Losses and weights of 20 steps beside the CPU's, each step traced or all but two replayed.
void expect_trains_as_on_the_cpu(const Strategy& s, bool compiled) {
  SCOPED_TRACE(s.name);
  torch::manual_seed(2);
  SplitBlock reference;
  SplitBlock model = same_weights(reference);
  const Mesh mesh(s.axes);
  const MeshPlan plan = distribute(*model, mesh, s.all_split ? fsdp(*model, mesh, "data", s.rules) : s.rules);
  // Gradients that are nothing but rounding (of the keys' bias) must not count: eps.
  const auto options = torch::optim::AdamOptions(1e-2).eps(1e-4);
  torch::optim::Adam cpu(reference->parameters(), options), over(model->parameters(), options);
  auto body = [&](Tensor ids) {
    over.zero_grad();
    Tensor loss = loss_of(model, ids);
    loss.backward();
    over.step();
    return loss;
  };
  auto step = compile(body, {.optimizers = {&over}, .name = s.name});
  for (const Tensor& ids : batches(20)) {
    cpu.zero_grad();
    const Tensor want = loss_of(reference, ids);
    want.backward();
    cpu.step();
    const Tensor x = shard(ids, mesh, s.batch);
    const Tensor got = compiled ? step(x) : body(x);
    if (!compiled) sync(got);
    ASSERT_NEAR(got.item<float>(), want.item<float>(), 1e-5 * std::abs(want.item<float>()) + 1e-6);
  }
  if (compiled) {
    EXPECT_GE(step.report().replayed, 15) << step.report().why_traced;
  }
  const auto want = reference->named_parameters();
  for (const auto& p : model->named_parameters()) {
    EXPECT_TRUE(torch::allclose(p.value().detach().cpu(), want[p.key()].detach(), 1e-3, 2e-4)) << p.key();
    const auto planned = std::ranges::find(plan.tensors, p.key(), &PlannedTensor::name);
    EXPECT_EQ(sharding_of(p.value())->split, planned->split) << p.key();
    const auto& state =
        static_cast<torch::optim::AdamParamState&>(*over.state().at(p.value().unsafeGetTensorImpl()));
    if (planned->bytes_on_each < planned->bytes) {
      EXPECT_EQ(sharding_of(state.exp_avg())->split, planned->split) << p.key();
    }
  }
}

TEST_P(Distribute, TrainsAsOnTheCpu) { expect_trains_as_on_the_cpu(strategies()[GetParam()], false); }
TEST_P(Distribute, TrainsAsOnTheCpuCompiled) { expect_trains_as_on_the_cpu(strategies()[GetParam()], true); }

INSTANTIATE_TEST_SUITE_P(Strategies, Distribute, testing::Range(size_t{0}, size_t{6}));

using DistributeRules = Distribute;
TEST_F(DistributeRules, BytesFallAsPlanned) {
  if (device_count() != 4) GTEST_SKIP();
  const Mesh mesh({{"data", 4}});
  SplitBlock model;
  int64_t bytes = 0;
  for (const auto& p : model->parameters()) bytes += static_cast<int64_t>(p.nbytes());
  const auto before = device_memory(3).live;
  const MeshPlan plan = distribute(*model, mesh, fsdp(*model, mesh));
  EXPECT_EQ(plan.bytes, bytes);
  EXPECT_LE(plan.bytes_on_each, bytes / 4 + 64);
  EXPECT_EQ(device_memory(3).live - before, plan.bytes_on_each);
  EXPECT_THAT(plan.str(), HasSubstr("qkv.weight"));
}

// Parameters, gradients and the optimizer's state on one device after some steps.
int64_t bytes_on_the_last(const Rules& rules, const Mesh& mesh, SplitBlock model) {
  const int last = mesh.devices().back();
  const auto before = device_memory(last).live;
  distribute(*model, mesh, rules);
  torch::optim::AdamW optimizer(model->parameters(), 1e-3);
  for (const Tensor& ids : batches(4)) {
    optimizer.zero_grad();
    loss_of(model, shard(ids, mesh, {"data"})).backward();
    optimizer.step();
    sync();
  }
  return device_memory(last).live - before;
}

TEST_F(DistributeRules, StateAndGradientsFallToo) {
  if (device_count() != 4) GTEST_SKIP();
  const Mesh mesh({{"data", 4}});
  SplitBlock a, b;
  const int64_t whole = bytes_on_the_last({}, mesh, a);
  const int64_t parts = bytes_on_the_last(fsdp(*b, mesh), mesh, b);
  int64_t parameters = 0;
  for (const auto& p : a->parameters()) parameters += static_cast<int64_t>(p.nbytes());
  EXPECT_GE(whole, 4 * parameters);  // two of Adam, gradients
  EXPECT_LE(parts, whole * 3 / 10);
}

TEST_F(DistributeRules, WrongRulesAreRefused) {
  if (device_count() != 4) GTEST_SKIP();
  const Mesh mesh({{"data", 4}});
  SplitBlock model;
  const auto told = [&](const Rules& rules) -> std::string {
    try {
      (void)distribute(*model, mesh, rules);
    } catch (const TPUDistributedError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(told({{"nothing.*", {"data"}}}), HasSubstr("names no parameter"));
  EXPECT_THAT(told({{"up.*", {"data"}}, {"*.weight", {"data"}}}), HasSubstr("two rules name"));
  EXPECT_THAT(told({{"up.weight", {"model"}}}), HasSubstr("no axis 'model'"));
  EXPECT_THAT(told({{"up.bias", {none, "data"}}}), HasSubstr("2 dimensions for a tensor of 1"));
  EXPECT_THAT(told({{"up.weight", {"data", "data"}}}), HasSubstr("splits two dimensions"));
  for (const auto& p : model->parameters()) EXPECT_TRUE(p.is_cpu());  // nothing was moved
}

}  // namespace
}  // namespace tpubridge
