// MLP and GPT train on the device as on the CPU, with every optimizer of libtorch.
#include "tests/device/models.h"

namespace tpubridge {
namespace {

namespace optim = torch::optim;

torch::Tensor mlp_loss(MlpImpl& m, int step, torch::Device d) {
  torch::manual_seed(100 + step);
  const auto x = torch::randn({16, 8}), y = labels(x, 3);
  return torch::cross_entropy_loss(m.forward(x.to(d)), y.to(d));
}
torch::Tensor mlp_output(MlpImpl& m, torch::Device d) {
  torch::manual_seed(99);
  return m.forward(torch::randn({5, 8}).to(d));
}
Training mlp(MakeOptimizer optimizer, double clip = 0) {
  return ordinary<MlpImpl>(seeded<MlpImpl>(1), mlp_loss, std::move(optimizer), mlp_output, clip);
}

TEST(Models, MlpTrainsWithSgd) {
  expect_same_training(mlp(with<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9))));
  EXPECT_GT(metrics().cache_hits, 0);
}

TEST(Models, MlpTrainsWithAdam) {
  expect_same_training(mlp(with<optim::Adam>(optim::AdamOptions(1e-2).amsgrad(true)), 0.5));
  EXPECT_FALSE(testing::Test::HasFailure());
}

TEST(Models, MlpTrainsWithRmsprop) {
  expect_same_training(mlp(with<optim::RMSprop>(optim::RMSpropOptions(1e-3).momentum(0.5).centered(true))));
  EXPECT_FALSE(testing::Test::HasFailure());
}

TEST(Models, MlpTrainsWithAdagrad) {
  expect_same_training(mlp(with<optim::Adagrad>(optim::AdagradOptions(1e-2).lr_decay(0.1))));
  EXPECT_FALSE(testing::Test::HasFailure());
}

Training mlp_with_lbfgs(const optim::LBFGSOptions& options) {
  Training t = mlp({});
  t.begin = [=](torch::nn::Module& m, torch::Device d) -> Step {
    auto& model = dynamic_cast<MlpImpl&>(m);
    auto o = std::make_shared<optim::LBFGS>(m.parameters(), options);
    return [=, &model](int) {
      return o->step([&] {
        o->zero_grad();
        auto loss = mlp_loss(model, 0, d);
        loss.backward();
        return loss;
      });
    };
  };
  return t;
}

// Its programs grow with its history, which is full in the second step.
TEST(Models, MlpTrainsWithLbfgs) {
  expect_same_training(mlp_with_lbfgs(optim::LBFGSOptions(0.1).max_iter(3).history_size(2)));
  EXPECT_FALSE(testing::Test::HasFailure());
}

class DefaultType {
 public:
  explicit DefaultType(torch::ScalarType t) : before_(torch::get_default_dtype()) {
    torch::set_default_dtype(c10::scalarTypeToTypeMeta(t));
  }
  ~DefaultType() { torch::set_default_dtype(before_); }
  DefaultType(const DefaultType&) = delete;
  DefaultType& operator=(const DefaultType&) = delete;

 private:
  caffe2::TypeMeta before_;
};

// The search reads losses on the host and may take a way that it did not take before: another program. In
// f64: a last bit of f32 can decide which way it takes.
TEST(Models, MlpTrainsWithLbfgsAndItsLineSearch) {
  const DefaultType wide(torch::kDouble);
  Training t =
      mlp_with_lbfgs(optim::LBFGSOptions(0.5).max_iter(2).history_size(3).line_search_fn("strong_wolfe"));
  t.same_programs = false;
  expect_same_training(t);
  EXPECT_FALSE(testing::Test::HasFailure());
}

TEST(Models, GptTrainsWithAdamW) {
  auto next_token = [](GptImpl& m, int step, torch::Device d) {
    const auto x = sentences(200 + step, 4, 17, 32);
    const auto in = x.slice(1, 0, 16).contiguous().to(d), out = x.slice(1, 1, 17).contiguous().to(d);
    return torch::cross_entropy_loss(m.forward(in).view({-1, 32}), out.view({-1}));
  };
  auto output = [](GptImpl& m, torch::Device d) { return m.forward(sentences(199, 2, 16, 32).to(d)); };
  expect_same_training(ordinary<GptImpl>(seeded<GptImpl>(2, GptConfig{}), next_token,
                                         with<optim::AdamW>(optim::AdamWOptions(1e-3)), output));
  EXPECT_FALSE(testing::Test::HasFailure());
}

}  // namespace
}  // namespace tpubridge
