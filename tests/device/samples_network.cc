// Samples of the ops of networks: convolution, pooling, normalisation, losses; and of indexing.
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

namespace F = torch::nn::functional;
torch::Tensor batch_norm(const Tensors& t, bool training) {
  return torch::batch_norm(t[0], t[1], t[2], t[3].detach(), t[4].detach().abs() + 1, training, 0.1, 1e-5,
                           false);
}
F::CrossEntropyFuncOptions smoothing(const torch::Tensor& weight) {
  return F::CrossEntropyFuncOptions().weight(weight).label_smoothing(0.1);
}

// One layer over a sequence [time, batch, 3], hidden size 4.
Tensors lstm(const Tensors& t) {
  auto r = torch::lstm(t[0], {t[1], t[2]}, {t[3], t[4], t[5], t[6]}, true, 1, 0.0, true, false, false);
  return {std::get<0>(r), std::get<1>(r), std::get<2>(r)};
}
Tensors gru(const Tensors& t) {
  auto r = torch::gru(t[0], t[1], {t[2], t[3], t[4], t[5]}, true, 1, 0.0, true, false, false);
  return {std::get<0>(r), std::get<1>(r)};
}

Tensors lstm_cell(const Tensors& t) {
  auto r = torch::lstm_cell(t[0], {t[1], t[2]}, t[3], t[4], t[5], t[6]);
  return {std::get<0>(r), std::get<1>(r)};
}

}  // namespace

std::vector<Sample> network_samples() {
  return {
      SAMPLE("convolution", torch::conv2d(t[0], t[1], t[2], 1, 1), Sizes{{2, 3, 6, 7}, {4, 3, 3, 3}, {4}},
             "fb"),
      SAMPLE("convolution", torch::conv2d(t[0], t[1], {}, 2, 1), Sizes{{2, 3, 7, 7}, {4, 3, 3, 3}}),
      SAMPLE("convolution", torch::conv2d(t[0], t[1], torch::Tensor(), {2, 2}),
             Sizes{{2, 3, 8, 8}, {4, 3, 1, 1}}),
      SAMPLE("convolution", torch::conv2d(t[0], t[1], t[2], 1, 2, 2, 2),
             Sizes{{2, 4, 7, 6}, {6, 2, 3, 3}, {6}}),
      SAMPLE("convolution", torch::conv2d(t[0], t[1], {}, 2, 1, 1, 4), Sizes{{2, 4, 7, 6}, {4, 1, 3, 3}}),
      SAMPLE("convolution", torch::conv1d(t[0], t[1], t[2], 1, 1), Sizes{{2, 3, 9}, {4, 3, 3}, {4}}),
      SAMPLE("convolution", torch::conv3d(t[0], t[1], {}, 1, 1), Sizes{{1, 2, 4, 4, 4}, {3, 2, 3, 3, 3}}),
      SAMPLE("convolution", torch::conv_transpose2d(t[0], t[1], t[2], 2, 1, 1),
             Sizes{{2, 4, 5, 5}, {4, 3, 3, 3}, {3}}),
      SAMPLE("convolution", torch::conv_transpose2d(t[0], t[1], {}, 2, 0, 0, 2),
             Sizes{{2, 4, 4, 5}, {4, 2, 2, 2}}),
      SAMPLE("max_pool2d_with_indices",
             std::get<0>(torch::max_pool2d_with_indices(t[0], {3, 3}, {2, 2}, {1, 1})), Sizes{{2, 3, 8, 7}}),
      SAMPLE("max_pool2d_with_indices", torch::max_pool2d(t[0], {2, 2}, {2, 2}, 0, 1, true),
             Sizes{{2, 3, 7, 7}}),
      SAMPLE("avg_pool2d", torch::avg_pool2d(t[0], {3, 3}, {2, 2}, {1, 1}), Sizes{{2, 3, 8, 7}}),
      SAMPLE("avg_pool2d", torch::avg_pool2d(t[0], {2, 3}, {2, 2}, {1, 1}, true, false), Sizes{{2, 3, 7, 8}}),
      SAMPLE("_adaptive_avg_pool2d", torch::adaptive_avg_pool2d(t[0], {3, 2}), Sizes{{2, 3, 7, 8}}),
      SAMPLE("mean.dim", torch::adaptive_avg_pool2d(t[0], {1, 1}), Sizes{{2, 3, 7, 8}}),
      SAMPLE("native_layer_norm", torch::layer_norm(t[0], {5}, t[1], t[2]), Sizes{{3, 4, 5}, {5}, {5}}, "fb"),
      SAMPLE("native_layer_norm", torch::layer_norm(t[0], {4, 5}), Sizes{{3, 4, 5}}),
      SAMPLE("_weight_norm_interface", std::get<0>(torch::_weight_norm_interface(t[0], t[1], 0)),
             Sizes{{3, 4, 5}, {3, 1, 1}}),
      SAMPLE("_weight_norm_interface", std::get<0>(torch::_weight_norm_interface(t[0], t[1], 2)),
             Sizes{{3, 4, 5}, {1, 1, 5}}),
      SAMPLE("native_group_norm", torch::group_norm(t[0], 2, t[1], t[2]), Sizes{{3, 4, 5, 2}, {4}, {4}}),
      SAMPLE("tpubridge::batch_norm", batch_norm(t, true), Sizes{{3, 4, 5, 2}, {4}, {4}, {4}, {4}}),
      SAMPLE("tpubridge::batch_norm", batch_norm(t, false), Sizes{{3, 4, 5, 2}, {4}, {4}, {4}, {4}}),
      sample("tpubridge::rnn_layer", lstm,
             Sizes{{5, 2, 3}, {1, 2, 4}, {1, 2, 4}, {16, 3}, {16, 4}, {16}, {16}}, "fd"),
      sample("tpubridge::rnn_layer", gru, Sizes{{5, 2, 3}, {1, 2, 4}, {12, 3}, {12, 4}, {12}, {12}}, "fd"),
      sample("_thnn_fused_lstm_cell", lstm_cell, Sizes{{2, 3}, {2, 4}, {2, 4}, {16, 3}, {16, 4}, {16}, {16}},
             "f"),
      SAMPLE("_thnn_fused_gru_cell", torch::gru_cell(t[0], t[1], t[2], t[3], t[4], t[5]),
             Sizes{{2, 3}, {2, 4}, {12, 3}, {12, 4}, {12}, {12}}, "f"),
      SAMPLE("mse_loss", torch::mse_loss(t[0], t[1]), Sizes{{3, 4}, {3, 4}}, "fb"),
      SAMPLE("mse_loss", torch::mse_loss(t[0], t[1], at::Reduction::None), Sizes{{3, 4}, {3, 4}}),
      SAMPLE("smooth_l1_loss", torch::smooth_l1_loss(t[0], t[1]), Sizes{{3, 4}, {3, 4}}),
      SAMPLE("huber_loss", torch::huber_loss(t[0], t[1], at::Reduction::Sum, 0.7), Sizes{{3, 4}, {3, 4}}),
      SAMPLE("huber_loss", torch::huber_loss(t[0], t[1], at::Reduction::None, INFINITY),
             Sizes{{3, 4}, {3, 4}}),
      SAMPLE("smooth_l1_loss", torch::smooth_l1_loss(t[0], t[1], at::Reduction::None, INFINITY),
             Sizes{{3, 4}, {3, 4}}),
      SAMPLE("binary_cross_entropy",
             torch::binary_cross_entropy(torch::sigmoid(t[0]), torch::sigmoid(t[1]).detach()),
             Sizes{{3, 4}, {3, 4}}),
      SAMPLE("binary_cross_entropy",
             torch::binary_cross_entropy_with_logits(t[0], torch::sigmoid(t[1]).detach()),
             Sizes{{3, 4}, {3, 4}}),
      SAMPLE("sum.dim_IntList", torch::l1_loss(t[0], t[1]), Sizes{{3, 4}, {3, 4}}),
      SAMPLE("sum.dim_IntList", torch::kl_div(torch::log_softmax(t[0], 1), torch::softmax(t[1], 1)),
             Sizes{{3, 4}, {3, 4}}),
      SAMPLE("bmm", torch::cosine_similarity(t[0], t[1]), Sizes{{3, 4}, {3, 4}}),
  };
}

std::vector<Sample> index_samples() {
  return {
      INDEXED("embedding", torch::embedding(t[0], t[1]), {7, 3}, {2, 4}, 7, {}, "fb"),
      INDEXED("embedding", torch::embedding(t[0], t[1], 2, true), {7, 3}, {5}, 7, {}, "f"),
      INDEXED("nll_loss_forward", torch::nll_loss(torch::log_softmax(t[0], 1), t[1]), {4, 5}, {4}, 5, {},
              "fb"),
      INDEXED("nll_loss_forward",
              torch::nll_loss(torch::log_softmax(t[0], 1), t[1], t[2].detach(), at::Reduction::None, 1),
              {4, 5}, {4}, 5, {5}, "f"),
      INDEXED("nll_loss_forward", torch::cross_entropy_loss(t[0], t[1], {}, at::Reduction::Mean, 2), {6, 5},
              {6}, 5, {}, "f"),
      INDEXED("nll_loss_forward", F::cross_entropy(t[0], t[1], smoothing(t[2].detach())), {4, 5}, {4}, 5, {5},
              "f"),
      INDEXED("nll_loss2d_forward", torch::nll_loss2d(torch::log_softmax(t[0], 1), t[1]), {2, 5, 3, 4},
              {2, 3, 4}, 5, {}, "f"),
      INDEXED("index_select", t[0].index_select(1, t[1]), {3, 6, 2}, {4}, 6),
      INDEXED("gather", t[0].gather(1, t[1]), {3, 6}, {3, 4}, 6),
      INDEXED("scatter.src", t[0].scatter(1, torch::argsort(t[0], 1, false), t[2]), {3, 4}, {1}, 1, {3, 4},
              "f"),
      INDEXED("scatter.value", t[0].scatter(1, t[1], 2.5), {3, 6}, {3, 2}, 6, {}, "f"),
      INDEXED("scatter_add", t[0].scatter_add(0, t[1], t[2]), {5, 3}, {4, 3}, 5, {4, 3}),
      INDEXED("index_add", t[0].index_add(1, t[1], t[2], 2), {3, 5}, {4}, 5, {3, 4}),
      INDEXED("index_copy", t[0].index_copy(0, torch::arange(2, t[1].options()), t[2]), {5, 3}, {2}, 5,
              {2, 3}, "fi", false),
      INDEXED("index_copy", t[0].index_copy(1, t[1], t[2]), {3, 5, 2}, {1}, 5, {3, 1, 2}),
      INDEXED("index_copy", t[0].index_copy(0, t[1], t[2]), {5}, {1}, 5, {1}),
      INDEXED("index_fill.int_Scalar", t[0].index_fill(1, t[1], 3), {3, 5, 2}, {4}, 5),
      INDEXED("index_fill.int_Scalar", t[0].index_fill(0, t[1], 3), {5}, {1}, 5),
      INDEXED("index_fill.int_Tensor", t[0].index_fill(0, t[1], t[0].sum()), {5, 3}, {2}, 5, {}, "f"),
      INDEXED("index.Tensor", t[0].index({t[1]}), {6, 3}, {2, 2}, 6),
      INDEXED("index.Tensor", t[0].index({torch::indexing::Slice(), t[1], t[1]}), {2, 4, 4, 3}, {5}, 4),
      INDEXED("index.Tensor", t[0].index({t[1], torch::indexing::Slice(), t[1] - 4}), {4, 3, 4}, {5}, 4, {},
              "f"),
      INDEXED("_index_put_impl", t[0].index_put({torch::arange(3, t[1].options()), t[1]}, t[2]), {3, 4}, {3},
              4, {3}, "f"),
      INDEXED("_index_put_impl", t[0].index_put({t[1]}, t[2], true), {4, 3}, {6}, 4, {6, 3}, "f"),
      INDEXED("eq.Tensor", torch::one_hot(t[1], 5), {1}, {4}, 5, {}, "f", false),
  };
}

}  // namespace tpubridge
