// Models that choose by index: DLRM (bags of embeddings) and a mixture of experts.
#include "tests/device/training.h"

namespace tpubridge {
namespace {

namespace nn = torch::nn;

constexpr int64_t batch = 8, dense = 5, kWidth = 6;

// One sum and one mean of embeddings per sample, and the products of all pairs of features.
struct Dlrm : nn::Module {
  Dlrm() {
    bottom =
        register_module("bottom", nn::Sequential(nn::Linear(dense, 12), nn::ReLU(), nn::Linear(12, kWidth)));
    sums = register_module("sums", nn::EmbeddingBag(nn::EmbeddingBagOptions(30, kWidth).mode(torch::kSum)));
    means =
        register_module("means", nn::EmbeddingBag(nn::EmbeddingBagOptions(20, kWidth).mode(torch::kMean)));
    top = register_module("top", nn::Sequential(nn::Linear(kWidth + 3, 12), nn::ReLU(), nn::Linear(12, 1)));
    pairs = register_buffer("pairs", torch::tensor({3, 6, 7}));  // below the diagonal of 3×3
  }
  // Bags of different lengths: `places` says where each begins. The means' bags are rows of a matrix.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& some, const torch::Tensor& places,
                        const torch::Tensor& rows) {
    const auto d = bottom->forward(x);
    const auto features = torch::stack({d, sums->forward(some, places), means->forward(rows)}, 1);
    const auto products = torch::bmm(features, features.transpose(1, 2)).flatten(1).index_select(1, pairs);
    return top->forward(torch::cat({d, products}, 1)).squeeze(1);
  }
  nn::Sequential bottom{nullptr}, top{nullptr};
  nn::EmbeddingBag sums{nullptr}, means{nullptr};
  torch::Tensor pairs;
};

struct Clicks {
  torch::Tensor x, some, places, rows, y;
};
// As many indices in every batch, differently spread over its bags (some of them empty): one program.
Clicks clicks(uint64_t seed, torch::Device d) {
  torch::manual_seed(seed);
  const auto x = torch::randn({batch, dense});
  const auto some = torch::randint(0, 30, {20}, torch::kLong),
             rows = torch::randint(0, 20, {batch, 3}, torch::kLong);
  auto places = std::get<0>(torch::randint(0, 21, {batch}, torch::kLong).sort());
  places.index_put_({0}, 0);
  const auto y = (x.sum(1) + rows.sum(1) * 0.1 > 3).to(torch::kFloat);
  return {x.to(d), some.to(d), places.to(d), rows.to(d), y.to(d)};
}

TEST(Models, DlrmTrainsWithAdagrad) {
  auto loss = [](Dlrm& m, int step, torch::Device d) {
    const auto c = clicks(1400 + step, d);
    return torch::binary_cross_entropy_with_logits(m.forward(c.x, c.some, c.places, c.rows), c.y);
  };
  auto output = [](Dlrm& m, torch::Device d) {
    const auto c = clicks(1399, d);
    return torch::sigmoid(m.forward(c.x, c.some, c.places, c.rows));
  };
  const auto adagrad = with<torch::optim::Adagrad>(torch::optim::AdagradOptions(2e-2));
  expect_same_training(ordinary<Dlrm>(seeded<Dlrm>(16), loss, adagrad, output));
  EXPECT_FALSE(testing::Test::HasFailure());
}

constexpr int64_t experts = 4, chosen = 2, room = 10;

// Each token goes to its two best experts; an expert takes the first `room` that come, others pass by.
struct Moe : nn::Module {
  Moe() {
    in = register_module("in", nn::Linear(dense, kWidth));
    router = register_module("router", nn::Linear(nn::LinearOptions(kWidth, experts).bias(false)));
    up = register_parameter("up", torch::randn({experts, kWidth, 12}) * 0.3);
    down = register_parameter("down", torch::randn({experts, 12, kWidth}) * 0.3);
    head = register_module("head", nn::Linear(kWidth, 3));
  }
  // The logits, and the loss that keeps experts evenly busy.
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
    const auto h = in(x);
    const auto n = h.size(0);
    const auto p = router(h).softmax(-1);
    const auto [weight, expert] = p.topk(chosen, -1);
    const auto share = weight / weight.sum(-1, true);
    const auto hot = torch::one_hot(expert.flatten(), experts);  // [n·chosen, experts]
    const auto queue = (hot.cumsum(0) - 1).gather(1, expert.flatten().unsqueeze(1)).squeeze(1);
    const auto fits = queue < room;
    // Slot `experts · room` takes those that found no room.
    const auto slot =
        torch::where(fits, expert.flatten() * room + queue, torch::full_like(queue, experts * room));
    const auto sent = h.unsqueeze(1).expand({n, chosen, kWidth}).reshape({n * chosen, kWidth});
    const auto wide = slot.unsqueeze(1).expand({n * chosen, kWidth});
    const auto boxes = torch::zeros({experts * room + 1, kWidth}, h.options()).scatter_add(0, wide, sent);
    const auto work = boxes.slice(0, 0, experts * room).view({experts, room, kWidth});
    const auto done = torch::bmm(torch::gelu(torch::bmm(work, up)), down).view({experts * room, kWidth});
    const auto back = torch::constant_pad_nd(done, {0, 0, 0, 1}).gather(0, wide).view({n, chosen, kWidth});
    const auto y = h + (back * share.unsqueeze(-1)).sum(1);
    const auto load = hot.to(torch::kFloat).mean(0) * static_cast<double>(chosen);
    return {head(y), static_cast<double>(experts) * (load * p.mean(0)).sum()};
  }
  nn::Linear in{nullptr}, router{nullptr}, head{nullptr};
  torch::Tensor up, down;
};

torch::Tensor points(uint64_t seed, int64_t n) {
  torch::manual_seed(seed);
  return torch::randn({n, dense});
}

TEST(Models, MixtureOfExpertsTrainsWithAdam) {
  auto loss = [](Moe& m, int step, torch::Device d) {
    const auto x = points(1500 + step, 16);
    const auto [y, balance] = m.forward(x.to(d));
    return torch::cross_entropy_loss(y, labels(x, 3).to(d)) + 0.01 * balance;
  };
  auto output = [](Moe& m, torch::Device d) { return m.forward(points(1499, 12).to(d)).first; };
  const auto adam = with<torch::optim::Adam>(torch::optim::AdamOptions(5e-3).weight_decay(1e-4));
  expect_same_training(ordinary<Moe>(seeded<Moe>(17), loss, adam, output));
  EXPECT_FALSE(testing::Test::HasFailure());
}

}  // namespace
}  // namespace tpubridge
