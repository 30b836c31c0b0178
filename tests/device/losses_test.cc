// The losses of torch::nn: value and gradients on the device as on the CPU, natively.
#include <cmath>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

namespace F = torch::nn::functional;
using Tensors = std::vector<torch::Tensor>;

struct Loss {
  std::string name;
  std::function<Tensors()> inputs;                       // on the CPU; gradients of the floating-point ones
  std::function<torch::Tensor(const Tensors&)> forward;  // reduced to a number
};

Tensors two() { return {torch::randn({5, 4}), torch::randn({5, 4})}; }
Tensors with_classes() { return {torch::randn({5, 4}), torch::tensor({1, 0, 3, 3, 2})}; }
torch::Tensor class_weights(const torch::Tensor& like) {
  return torch::tensor({0.5, 1.0, 2.0, 0.25}, torch::kFloat).to(like.device());
}
Tensors with_bits() { return {torch::randn({5, 4}), torch::randint(0, 2, {5, 4}, torch::kLong)}; }
// 1 or −1, for each of the rows.
Tensors with_signs() {
  return {torch::randn({5, 4}), torch::randn({5, 4}), torch::tensor({1, -1, 1, 1, -1})};
}
torch::Tensor soft(const torch::Tensor& t) { return torch::sigmoid(t).detach(); }

std::vector<Loss> losses() {
  return {
      {"mse", two, [](const Tensors& t) { return F::mse_loss(t[0], t[1]); }},
      {"l1", two, [](const Tensors& t) { return F::l1_loss(t[0], t[1]); }},
      {"smooth_l1", two, [](const Tensors& t) { return F::smooth_l1_loss(t[0], t[1], torch::kMean, 0.5); }},
      {"huber", two,
       [](const Tensors& t) { return F::huber_loss(t[0], t[1], F::HuberLossFuncOptions().delta(0.7)); }},
      {"huber_without_bound", two,
       [](const Tensors& t) { return F::huber_loss(t[0], t[1], F::HuberLossFuncOptions().delta(INFINITY)); }},
      {"cross_entropy", with_classes, [](const Tensors& t) { return F::cross_entropy(t[0], t[1]); }},
      {"cross_entropy_weighted", with_classes,
       [](const Tensors& t) {
         return F::cross_entropy(t[0], t[1], F::CrossEntropyFuncOptions().weight(class_weights(t[0])));
       }},
      {"cross_entropy_ignoring", with_classes,
       [](const Tensors& t) {
         return F::cross_entropy(t[0], t[1], F::CrossEntropyFuncOptions().ignore_index(3));
       }},
      {"cross_entropy_smoothed", with_classes,
       [](const Tensors& t) {
         return F::cross_entropy(
             t[0], t[1],
             F::CrossEntropyFuncOptions().weight(class_weights(t[0])).ignore_index(3).label_smoothing(0.2));
       }},
      {"cross_entropy_of_probabilities", two,
       [](const Tensors& t) { return F::cross_entropy(t[0], t[1].softmax(1)); }},
      {"nll", with_classes,
       [](const Tensors& t) {
         return F::nll_loss(F::log_softmax(t[0], 1), t[1],
                            F::NLLLossFuncOptions().weight(class_weights(t[0])).reduction(torch::kSum));
       }},
      {"bce", two,
       [](const Tensors& t) { return F::binary_cross_entropy(torch::sigmoid(t[0]), soft(t[1])); }},
      {"bce_with_logits", two,
       [](const Tensors& t) {
         return F::binary_cross_entropy_with_logits(
             t[0], soft(t[1]), F::BinaryCrossEntropyWithLogitsFuncOptions().pos_weight(class_weights(t[0])));
       }},
      {"kl_div", two,
       [](const Tensors& t) {
         return F::kl_div(t[0].log_softmax(1), t[1].softmax(1),
                          F::KLDivFuncOptions().reduction(torch::kBatchMean));
       }},
      {"kl_div_log_target", two,
       [](const Tensors& t) {
         return F::kl_div(t[0].log_softmax(1), t[1].log_softmax(1), F::KLDivFuncOptions().log_target(true));
       }},
      {"hinge_embedding", with_bits,
       [](const Tensors& t) { return F::hinge_embedding_loss(t[0], t[1] * 2 - 1); }},
      {"cosine_embedding", with_signs,
       [](const Tensors& t) {
         return F::cosine_embedding_loss(t[0], t[1], t[2], F::CosineEmbeddingLossFuncOptions().margin(0.1));
       }},
      {"margin_ranking", with_signs,
       [](const Tensors& t) {
         return F::margin_ranking_loss(t[0], t[1], t[2].unsqueeze(1),
                                       F::MarginRankingLossFuncOptions().margin(0.3));
       }},
      {"triplet_margin", with_signs,
       [](const Tensors& t) { return F::triplet_margin_loss(t[0], t[1], t[0].flip(0) * 0.5); }},
      {"triplet_margin_with_swap", with_signs,
       [](const Tensors& t) {
         return F::triplet_margin_loss(t[0], t[1], t[0].flip(0) * 0.5,
                                       F::TripletMarginLossFuncOptions().margin(2).swap(true));
       }},
      {"multi_margin", with_classes,
       [](const Tensors& t) {
         return F::multi_margin_loss(t[0], t[1], F::MultiMarginLossFuncOptions().p(2).margin(0.8));
       }},
      {"multilabel_margin",
       [] {
         const auto y = torch::tensor({3, 0, -1, 1, 1, 2, -1, -1}).view({2, 4});
         return Tensors{torch::randn({2, 4}), y};
       },
       [](const Tensors& t) { return F::multilabel_margin_loss(t[0], t[1]); }},
      {"multilabel_soft_margin", with_bits,
       [](const Tensors& t) { return F::multilabel_soft_margin_loss(t[0], t[1].to(torch::kFloat)); }},
      {"soft_margin", with_bits,
       [](const Tensors& t) { return F::soft_margin_loss(t[0], (t[1] * 2 - 1).to(torch::kFloat)); }},
      {"poisson_nll", two,
       [](const Tensors& t) {
         return F::poisson_nll_loss(t[0], t[1].abs() * 3, F::PoissonNLLLossFuncOptions().full(true));
       }},
      {"gaussian_nll", two,
       [](const Tensors& t) {
         const auto variance = F::softplus(t[1]).clamp_min(1e-6), d = t[0] - 1;
         return (0.5 * (variance.log() + d.square() / variance + std::log(2 * M_PI))).mean();
       }},
  };
}

class Losses : public testing::TestWithParam<Loss> {};

TEST_P(Losses, LikeTheCpu) {
  FallbackScope native(Fallback::error);
  const auto fallbacks = metrics().fallback_count();
  torch::manual_seed(21);
  Tensors host = GetParam().inputs(), there, host_leaves, leaves;
  for (auto& t : host) {
    there.push_back(t.to(tpu()));
    if (!t.is_floating_point()) continue;
    host_leaves.push_back(t.requires_grad_());
    leaves.push_back(there.back().requires_grad_());
  }
  const auto want = GetParam().forward(host), got = GetParam().forward(there);
  ASSERT_EQ(want.dim(), 0);
  EXPECT_TRUE(std::isfinite(want.item<double>()));
  expect_close(got, want);
  const auto want_grad = torch::autograd::grad({want}, host_leaves, {}, false, false, /*allow_unused=*/true);
  const auto got_grad = torch::autograd::grad({got}, leaves, {}, false, false, /*allow_unused=*/true);
  EXPECT_GT(want_grad[0].abs().sum().item<double>(), 0);
  for (size_t i = 0; i < want_grad.size(); ++i) {
    ASSERT_EQ(got_grad[i].defined(), want_grad[i].defined());
    if (want_grad[i].defined()) expect_close(got_grad[i], want_grad[i]);
  }
  EXPECT_EQ(metrics().fallback_count(), fallbacks);
}

INSTANTIATE_TEST_SUITE_P(TorchNn, Losses, testing::ValuesIn(losses()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tpubridge
