// Wrong calls: the error is the CPU's, word for word, and comes at the call. Unasked gradients are undefined.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

struct Wrong {
  std::string name;
  std::function<void(torch::Device)> call;
};

Tensor ones(torch::IntArrayRef sizes, torch::Device d, torch::Dtype t = torch::kFloat) {
  return torch::ones(sizes, torch::TensorOptions().device(d).dtype(t));
}
#define WRONG(name, expr)                       \
  Wrong {                                       \
    name, [](torch::Device d) { (void)(expr); } \
  }

std::vector<Wrong> wrong_calls() {
  using namespace torch;
  return {
      WRONG("add", ones({2, 3}, d) + ones({4}, d)),
      WRONG("mm", ones({2, 3}, d).mm(ones({2, 3}, d))),
      WRONG("mm_ranks", ones({2, 3}, d).mm(ones({3}, d))),
      WRONG("mm_types", ones({2, 3}, d).mm(ones({3, 2}, d, kLong))),
      WRONG("bmm", ones({2, 3, 4}, d).bmm(ones({3, 4, 5}, d))),
      WRONG("mv", ones({2, 3}, d).mv(ones({2}, d))),
      WRONG("dot", ones({3}, d).dot(ones({4}, d))),
      WRONG("addmm", addmm(ones({4}, d), ones({2, 3}, d), ones({3, 5}, d))),
      WRONG("cat", cat({ones({2, 3}, d), ones({3, 2}, d)}, 0)),
      WRONG("conv2d_channels", conv2d(ones({1, 3, 5, 5}, d), ones({4, 5, 3, 3}, d))),
      WRONG("conv2d_kernel", conv2d(ones({1, 3, 2, 2}, d), ones({4, 3, 3, 3}, d))),
      WRONG("conv2d_stride", conv2d(ones({1, 3, 5, 5}, d), ones({4, 3, 3, 3}, d), {}, 0)),
      WRONG("conv1d_stride", conv1d(ones({1, 3, 5}, d), ones({4, 3, 3}, d), {}, -1)),
      WRONG("conv2d_padding",
            conv2d(ones({1, 3, 5, 5}, d), ones({4, 3, 3, 3}, d), {}, {1, 1}, IntArrayRef{-1, -1})),
      WRONG("conv2d_dilation",
            conv2d(ones({1, 3, 5, 5}, d), ones({4, 3, 3, 3}, d), {}, {1, 1}, IntArrayRef{0, 0}, {0, 0})),
      WRONG("conv2d_groups",
            conv2d(ones({1, 3, 5, 5}, d), ones({4, 3, 3, 3}, d), {}, {1, 1}, IntArrayRef{0, 0}, {1, 1}, 0)),
      WRONG("conv2d_groups_of_outputs",
            conv2d(ones({1, 6, 5, 5}, d), ones({3, 3, 3, 3}, d), {}, {1, 1}, IntArrayRef{0, 0}, {1, 1}, 2)),
      WRONG("conv_transpose2d_groups",
            conv_transpose2d(ones({1, 4, 5, 5}, d), ones({4, 3, 3, 3}, d), {}, 1, 0, 0, 0)),
      WRONG("conv_transpose2d_stride", conv_transpose2d(ones({1, 4, 5, 5}, d), ones({4, 3, 3, 3}, d), {}, 0)),
      WRONG("conv_transpose2d_padding",
            conv_transpose2d(ones({1, 4, 5, 5}, d), ones({4, 3, 3, 3}, d), {}, 1, -1)),
      WRONG("conv_transpose2d_output_padding",
            conv_transpose2d(ones({1, 4, 5, 5}, d), ones({4, 3, 3, 3}, d), {}, 1, 0, 1)),
      WRONG("conv2d_bias", conv2d(ones({1, 3, 5, 5}, d), ones({4, 3, 3, 3}, d), ones({3}, d))),
      WRONG("max_pool2d_stride", max_pool2d(ones({1, 1, 4, 4}, d), 2, 0)),
      WRONG("max_pool2d_kernel", max_pool2d(ones({1, 1, 4, 4}, d), 0)),
      WRONG("max_pool2d_padding", max_pool2d(ones({1, 1, 4, 4}, d), 2, 2, -1)),
      WRONG("avg_pool2d_stride", avg_pool2d(ones({1, 1, 4, 4}, d), 2, 0)),
      WRONG("avg_pool2d_padding", avg_pool2d(ones({1, 1, 4, 4}, d), 2, 2, -1)),
      WRONG("avg_pool3d_padding", avg_pool3d(ones({1, 1, 4, 4, 4}, d), 2, 2, -1)),
      WRONG("im2col_stride", im2col(ones({1, 1, 4, 4}, d), 2, 1, 0, 0)),
      WRONG("im2col_padding", im2col(ones({1, 1, 4, 4}, d), 2, 1, -1, 1)),
      WRONG("randint", torch::randint(0, -1, {3}, TensorOptions().device(d))),
      WRONG("randint_high", torch::randint(0, {3}, TensorOptions().device(d))),
      WRONG("normal", torch::normal(0, -1, {3}, std::nullopt, TensorOptions().device(d))),
      WRONG("normal_", ones({3}, d).normal_(0, -1)),
      WRONG("normal_tensor", at::normal(ones({3}, d), -1.0)),
      WRONG("exponential", ones({3}, d).exponential_(-1)),
      WRONG("geometric", ones({3}, d).geometric_(0)),
      WRONG("log_normal", ones({3}, d).log_normal_(0, -1)),
      WRONG("cauchy", ones({3}, d).cauchy_(0, -1)),
      WRONG("uniform", ones({3}, d).uniform_(2, 1)),
      WRONG("bernoulli", ones({3}, d).bernoulli_(2)),
      WRONG("dropout", torch::dropout(ones({3}, d), -0.5, true)),
      WRONG("multinomial", multinomial(ones({3}, d), 0)),
      WRONG("kthvalue", ones({3}, d).kthvalue(4)),
      WRONG("median_dim", ones({3}, d).median(1)),
      WRONG("index_reduce",
            index_reduce(ones({3}, d), 0, tensor({0}).to(d), ones({1}, d).to(kDouble), "prod")),
      WRONG("index_reduce_size", index_reduce(ones({3}, d), 0, tensor({0}).to(d), ones({2}, d), "prod")),
      WRONG("index_reduce_kind", index_reduce(ones({3}, d), 0, tensor({0}).to(d), ones({1}, d), "sum")),
      WRONG("trace", torch::trace(ones({3}, d))),
      WRONG("take", take(ones({3}, d), ones({1}, d))),
      WRONG("put", put(ones({3}, d), tensor({0}).to(d), ones({2}, d))),
      WRONG("glu", glu(ones({3}, d))),
      WRONG("softshrink", softshrink(ones({3}, d), -1)),
      WRONG("prelu", prelu(ones({3, 4}, d), ones({3}, d))),
      WRONG("histc", histc(ones({3}, d), 0, 0, 1)),
      WRONG("nansum", nansum(ones({3}, d), 1)),
      WRONG("count_nonzero", count_nonzero(ones({3}, d), std::optional<int64_t>(2))),
      WRONG("linalg_solve", linalg_solve(ones({3, 3}, d), ones({3}, d))),
      WRONG("linalg_inv", linalg_inv(ones({3, 4}, d))),
      WRONG("linalg_cholesky", linalg_cholesky(-ones({3, 3}, d))),
      WRONG("linalg_qr", linalg_qr(ones({3}, d))),
      WRONG("channel_shuffle", channel_shuffle(ones({1, 3, 2}, d), 2)),
      WRONG("pixel_shuffle", pixel_shuffle(ones({1, 3, 2, 2}, d), 2)),
      WRONG("roll_none", ones({5}, d).roll(IntArrayRef{})),
      WRONG("roll_count", ones({5, 5}, d).roll({2, 1}, {0})),
      WRONG("roll_dim", ones({5}, d).roll({1}, {2})),
      WRONG("roll_scalar", ones({}, d).roll({1}, {0})),
      WRONG("flip_dim", ones({5}, d).flip({1})),
      WRONG("flip_twice", ones({5, 5}, d).flip({0, -2})),
      WRONG("index_fill_dim", index_fill(ones({5}, d), 3, tensor({0}).to(d), 1)),
      WRONG("index_fill_index", index_fill(ones({5}, d), 0, ones({1}, d), 1)),
      WRONG("huber_loss", huber_loss(ones({5}, d), ones({5}, d), 1, 0)),
      WRONG("layer_norm_over_nothing", native_layer_norm(ones({}, d), IntArrayRef{}, {}, {}, 1e-5)),
      WRONG("var_dim", var(ones({3, 4}, d), IntArrayRef{-7})),
      WRONG("std_dim", torch::std(ones({3, 4}, d), IntArrayRef{2})),
      WRONG("var_mean_dim", var_mean(ones({3, 4}, d), IntArrayRef{7})),
      WRONG("std_mean_twice", std_mean(ones({3, 4}, d), IntArrayRef{0, -2})),
      WRONG("logsumexp_dim", logsumexp(ones({3, 4}, d), -7)),
      WRONG("logsumexp_scalar", logsumexp(ones({}, d), 1)),
      WRONG("softmax_scalar", softmax(ones({}, d), 3)),
      WRONG("softmax_dim", softmax(ones({3}, d), 3)),
      WRONG("index_select_scalar", index_select(ones({}, d), 3, tensor({0}).to(d))),
      WRONG("index_select_dim", index_select(ones({3}, d), -7, tensor({0}).to(d))),
      WRONG("cdist", cdist(ones({3, 2}, d), ones({3, 2}, d), NAN)),
      WRONG("native_group_norm", native_group_norm(ones({1, 6, 3}, d), {}, {}, 1, 6, 3, 0, 1e-5)),
      WRONG("native_group_norm_channels", native_group_norm(ones({1, 6, 3}, d), {}, {}, 1, 7, 3, 2, 1e-5)),
      WRONG("upsample_to_nothing", upsample_bilinear2d(ones({1, 1, 3, 3}, d), {0, 3}, false)),
      WRONG("sum_dim", sum(ones({3, 4}, d), IntArrayRef{-7})),
      WRONG("amax_dim", amax(ones({3, 4}, d), IntArrayRef{-7})),
      WRONG("prod_dim", prod(ones({3, 4}, d), -7)),
      WRONG("cumsum_dim", cumsum(ones({3, 4}, d), -7)),
      WRONG("argmax_dim", argmax(ones({3, 4}, d), -7)),
      WRONG("sort_dim", sort(ones({3, 4}, d), -7)),
      WRONG("topk_dim", topk(ones({3, 4}, d), 1, -7)),
      WRONG("any_dim", torch::any(ones({3, 4}, d), -7)),
      WRONG("norm_dim", linalg_vector_norm(ones({3, 4}, d), 2, IntArrayRef{-7})),
      WRONG("logcumsumexp_dim", logcumsumexp(ones({3, 4}, d), -7)),
      WRONG("renorm_dim", renorm(ones({3, 4}, d), 2, -7, 1)),
      WRONG("cummax_dim", cummax(ones({3, 4}, d), -7)),
      WRONG("gather_dim",
            gather(ones({3, 4}, d), -7, torch::zeros({1, 1}, torch::TensorOptions(d).dtype(kLong)))),
      WRONG("cat_dim", cat({ones({3, 4}, d), ones({3, 4}, d)}, -7)),
      WRONG("glu_dim", glu(ones({4}, d), 7)),
      WRONG("repeat_count", ones({3, 4}, d).repeat({2})),
      WRONG("logcumsumexp_scalar", logcumsumexp(ones({}, d), 3)),
      WRONG("smooth_l1_loss", smooth_l1_loss(ones({3}, d), ones({3}, d), 1, -1)),
      WRONG("cross", linalg_cross(ones({4}, d), ones({4}, d))),
      WRONG("linspace", torch::linspace(0, 1, -1, TensorOptions().device(d))),
      WRONG("bucketize", bucketize(ones({3}, d), ones({3, 2}, d))),
      WRONG("vdot", vdot(ones({3}, d), ones({4}, d))),
      WRONG("addbmm", addbmm(ones({3, 3}, d), ones({2, 3, 4}, d), ones({2, 3, 4}, d))),
      WRONG("heaviside_types", heaviside(ones({3}, d), ones({3}, d, kLong))),
      WRONG("aminmax_empty", ones({0}, d).aminmax()),
      WRONG("masked_scatter_types", ones({3}, d).masked_scatter(ones({3}, d, kBool), ones({3}, d, kLong))),
      WRONG("layer_norm", layer_norm(ones({2, 5}, d), {4})),
      WRONG("layer_norm_weight", layer_norm(ones({2, 5}, d), {5}, ones({4}, d))),
      WRONG("group_norm", group_norm(ones({2, 5, 3}, d), 2)),
      WRONG("batch_norm", batch_norm(ones({2, 5, 3}, d), ones({4}, d), {}, {}, {}, true, 0.1, 1e-5, false)),
      WRONG("embedding", embedding(ones({5, 3}, d), ones({2}, d))),
      WRONG("embedding_weight", embedding(ones({5}, d), ones({2}, d, kLong))),
      WRONG("index_select_dim_2", ones({2, 3}, d).index_select(2, ones({1}, d, kLong))),
      WRONG("index_select_index", ones({2, 3}, d).index_select(0, ones({1, 1}, d, kLong))),
      WRONG("gather", ones({2, 3}, d).gather(0, ones({2}, d, kLong))),
      WRONG("gather_type", ones({2, 3}, d).gather(0, ones({2, 2}, d))),
      WRONG("scatter", ones({2, 3}, d).scatter(0, ones({2, 3}, d, kLong), ones({1, 3}, d))),
      WRONG("index_count", ones({2}, d).index({ones({1}, d, kLong), ones({1}, d, kLong)})),
      WRONG("index_shapes", ones({4, 4}, d).index({ones({2}, d, kLong), ones({3}, d, kLong)})),
      WRONG("softmax_dim_2", softmax(ones({2, 3}, d), 2)),
      WRONG("sum_dim_2", ones({2, 3}, d).sum(IntArrayRef{3})),
      WRONG("cumsum_dim_2", ones({2, 3}, d).cumsum(-3)),
      WRONG("nll_loss", nll_loss(ones({2, 3}, d), ones({3}, d, kLong))),
      WRONG("mse_loss", mse_loss(ones({2, 3}, d), ones({2, 4}, d))),
      WRONG("bce", binary_cross_entropy(ones({2, 3}, d), ones({3, 2}, d))),
      WRONG("max_pool2d", max_pool2d(ones({1, 1, 4, 4}, d), 2, 2, 2)),
      WRONG("max_pool3d", max_pool3d(ones({1, 1, 4, 4, 4}, d), 2, 2, 2)),
      WRONG("view", ones({2, 3}, d).view({4, 2})),
      WRONG("topk", ones({3}, d).topk(4)),
      WRONG("max_empty", ones({0}, d).max()),
      WRONG("masked_fill", ones({2}, d).masked_fill(ones({2}, d), 1)),
      WRONG("repeat", ones({2, 3}, d).repeat({2})),
      WRONG("flip", ones({2, 3}, d).flip({2})),
      WRONG("reflection_pad", reflection_pad2d(ones({1, 3, 3}, d), {3, 0, 0, 0})),
      WRONG("bitwise_and", ones({2}, d) & ones({2}, d)),
      WRONG("bitwise_not", bitwise_not(ones({2}, d))),
      WRONG("gelu_type", gelu(ones({2}, d, kLong))),
      WRONG("softmax_type", softmax(ones({2, 3}, d, kLong), 1)),
      WRONG("in_place", ones({3}, d).add_(ones({2, 3}, d))),
      WRONG("in_place_type", ones({3}, d, kLong).add_(1.5)),
      WRONG("fill", ones({3}, d, kByte).fill_(1000)),
      WRONG("full", torch::full({3}, 1e6, TensorOptions(d).dtype(kHalf))),
      WRONG("masked_fill_number", ones({3}, d, kChar).masked_fill(ones({3}, d, kBool), -129)),
      WRONG("complex_out",
            [&] {
              auto o = ones({3}, d);
              torch::complex_out(o, ones({3}, d), ones({3}, d));
            }()),
      WRONG("polar_out",
            [&] {
              auto o = ones({3}, d, kComplexDouble);
              polar_out(o, ones({3}, d), ones({3}, d));
            }()),
      WRONG("complex_types", torch::complex(ones({3}, d), ones({3}, d, kDouble))),
      WRONG("renorm_dims", ones({3}, d).renorm(2, 0, 1)),
      WRONG("renorm_p", ones({3, 3}, d).renorm(-1, 0, 1)),
      WRONG("renorm_maxnorm", ones({3, 3}, d).renorm(2, 0, -1)),
      WRONG("renorm_dim_2", ones({3, 3}, d).renorm(2, 2, 1)),
      WRONG("renorm_type", ones({3, 3}, d, kLong).renorm(2, 0, 1)),
      WRONG("igamma", igamma(ones({3}, d), ones({4}, d))),
      WRONG("igamma_type", igamma(ones({3}, d, kComplexFloat), ones({3}, d))),
      WRONG("igamma_whole", igamma(ones({3}, d, kLong), ones({3}, d, kLong))),
      WRONG("polynomial", special_legendre_polynomial_p(ones({3}, d), ones({4}, d))),
      WRONG("polynomial_type", special_hermite_polynomial_h(ones({3}, d, kHalf), ones({3}, d, kHalf))),
      WRONG("polynomial_complex", special_laguerre_polynomial_l(ones({3}, d, kComplexFloat), ones({3}, d))),
      WRONG("mode_dim", ones({3}, d).mode(1)),
      WRONG("mode_empty", ones({0}, d).mode()),
      WRONG("mode_type", ones({3}, d, kComplexFloat).mode()),
      WRONG("multi_margin_none", multi_margin_loss(ones({0}, d), ones({1}, d, kLong))),
      WRONG("multi_margin_target", multi_margin_loss(ones({}, d), ones({2}, d, kLong))),
      WRONG("multi_margin_p", multi_margin_loss(ones({3}, d), ones({}, d, kLong), 3)),
      WRONG("multi_margin_weight", multi_margin_loss(ones({3}, d), ones({}, d, kLong), 1, 1, ones({2}, d))),
      WRONG("pdist_rank", pdist(ones({3}, d))),
      WRONG("pdist_p", pdist(ones({1, 3}, d), -1)),
      WRONG("nonzero_static", nonzero_static(ones({3}, d), -1)),
  };
}

std::string message(const Wrong& w, torch::Device d) {
  try {
    w.call(d);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  } catch (const std::exception& e) {
    return std::string("not torch's: ") + e.what();
  }
  return "no error";
}

TEST(Errors, WrongCallsHaveTheCpusMessage) {
  for (const Wrong& w : wrong_calls()) {
    const std::string want = message(w, torch::kCPU);
    EXPECT_NE(want, "no error") << w.name;
    EXPECT_EQ(message(w, tpu()), want) << w.name;
  }
}

TEST(Errors, ARefusedCallIsTheCpusErrorAlsoWhereNothingMayRunThere) {
  FallbackScope native(Fallback::error);
  const Wrong w{"layer_norm", [](torch::Device d) { (void)torch::layer_norm(ones({2, 5}, d), {4}); }};
  EXPECT_EQ(message(w, tpu()), message(w, torch::kCPU));
}

TEST(Errors, AnAddressIsRefusedWithWhatToDo) {
  const auto t = ones({2, 3}, tpu()), part = t.slice(1, 1);
  const std::vector<std::function<void()>> calls{[&] { (void)t.data_ptr(); },
                                                 [&] { (void)part.data_ptr(); },
                                                 [&] { (void)t.mutable_data_ptr(); },
                                                 [&] { (void)t.data_ptr<float>(); },
                                                 [&] { (void)t.storage().mutable_data(); },
                                                 [&] { (void)t.clone().relu().data_ptr(); }};
  for (const auto& call : calls) {
    const std::string text = message({"", [&](torch::Device) { call(); }}, tpu());
    EXPECT_NE(text.find("has no address on the host"), std::string::npos) << text;
    EXPECT_NE(text.find("tensor.cpu()"), std::string::npos) << text;
  }
  EXPECT_EQ(ones({0}, tpu()).data_ptr(), nullptr);
  EXPECT_FALSE(t.is_alias_of(t.clone()));
  EXPECT_TRUE(t.is_alias_of(part));
}

TEST(Errors, TensorsOfTwoDevicesAreNamed) {
  const auto here = ones({2, 3}, tpu()), there = ones({2, 3}, torch::kCPU);
  const std::vector<std::function<void()>> calls{[&] { (void)(here + there); },
                                                 [&] { (void)here.mm(there.t()); },
                                                 [&] {
                                                   (void)torch::cat({here, there});
                                                 },
                                                 [&] { (void)torch::where(here > 0, here, there); }};
  for (const auto& call : calls) {
    const std::string text = message({"", [&](torch::Device) { call(); }}, tpu());
    EXPECT_NE(text.find("Expected all tensors to be on the same device"), std::string::npos) << text;
    EXPECT_NE(text.find("tpu:0 and cpu"), std::string::npos) << text;
  }
  const std::string product = message({"", [&](torch::Device) { (void)here.mm(there.t()); }}, tpu());
  EXPECT_NE(product.find("Argument 'mat2' of aten::mm is on cpu"), std::string::npos) << product;
}

TEST(Errors, AnUnaskedGradientIsUndefined) {
  const auto x = torch::rand({2, 3, 4, 4}, tpu()), w = torch::rand({5, 3, 3, 3}, tpu()),
             g = torch::rand({2, 5, 2, 2}, tpu());
  const auto conv = torch::convolution_backward(g, x, w, at::OptionalIntArrayRef(), {1, 1}, {0, 0}, {1, 1},
                                                false, {0, 0}, 1, {true, false, false});
  EXPECT_TRUE(std::get<0>(conv).defined());
  EXPECT_FALSE(std::get<1>(conv).defined());
  EXPECT_FALSE(std::get<2>(conv).defined());

  const auto rows = torch::rand({4, 6}, tpu());
  const auto norm = torch::native_layer_norm(rows, {6}, {}, {}, 1e-5);
  const auto back = torch::native_layer_norm_backward(rows, rows, {6}, std::get<1>(norm), std::get<2>(norm),
                                                      {}, {}, {false, true, false});
  EXPECT_FALSE(std::get<0>(back).defined());
  EXPECT_TRUE(std::get<1>(back).defined());
  EXPECT_FALSE(std::get<2>(back).defined());
  exec::set_eager(true);
  const auto eager = torch::native_layer_norm_backward(rows, rows, {6}, std::get<1>(norm), std::get<2>(norm),
                                                       {}, {}, {false, true, false});
  exec::set_eager(false);
  EXPECT_FALSE(std::get<0>(eager).defined());
  expect_close(std::get<1>(eager), std::get<1>(back));
}

}  // namespace
}  // namespace tpubridge
