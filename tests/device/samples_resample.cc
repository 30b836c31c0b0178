// Samples of ops that change sizes, of bags of embeddings, and of losses of margins.
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

using Dims = std::vector<int64_t>;

// One picture of the given sizes; the call says to which.
Sample picture(std::string row, Tensors (*f)(const Tensors&), Dims sizes, std::string dtypes = "f") {
  return {std::move(row),    f,    [sizes](torch::Dtype d) {
            return Tensors{make(sizes, d)}; },
          std::move(dtypes), true, 4};
}
#define PICTURE(row, expr, ...) \
  picture(                      \
      row, [](const Tensors& t) -> Tensors { return {expr}; }, __VA_ARGS__)

enum Mode { sum = 0, mean = 1, max = 2 };

// t: table, sample weights, indices, where bags begin (the third of them is empty).
template <int M>
Tensors bags(const Tensors& t) {
  return {std::get<0>(torch::embedding_bag(t[0], t[2], t[3], false, M))};
}
template <int M>
Tensors padded_bags(const Tensors& t) {
  return {std::get<0>(torch::embedding_bag(t[0], t[2], t[3], false, M, false, {}, true, 2))};
}
Tensors weighted_bags(const Tensors& t) {
  return {std::get<0>(torch::embedding_bag(t[0], t[2], t[3], false, sum, false, t[1]))};
}
Tensors frequent_bags(const Tensors& t) {
  return {std::get<0>(torch::embedding_bag(t[0], t[2], t[3], true, mean))};
}
Tensors bags_without_gradient(const Tensors& t) {
  return {std::get<0>(torch::embedding_bag(t[0].detach(), t[2], t[3], false, max))};
}
Sample bag(std::string row, Tensors (*f)(const Tensors&), std::string dtypes = "f", bool gradient = true) {
  return {std::move(row),
          f,
          [](torch::Dtype d) {
            return Tensors{make({6, 3}, d), make({9}, d), places({9}, 6),
                           torch::tensor({0, 2, 5, 5, 9}, torch::kLong)};
          },
          std::move(dtypes),
          gradient,
          2};
}

// t: scores [4, 5], weights of the 5 classes, the right classes.
template <int P, at::Reduction::Reduction R>
Tensors multi_margin(const Tensors& t) {
  return {torch::multi_margin_loss(t[0], t[2], P, 0.7, t[1].detach(), R)};
}
Tensors multi_margin_of_one(const Tensors& t) { return {torch::multi_margin_loss(t[0][1], t[2][1])}; }
template <at::Reduction::Reduction R>
Tensors multi_margin_of_one_class(const Tensors& t) {
  const auto right = torch::zeros({}, t[2].options()), weight = t[1].detach().slice(0, 0, 1);
  return {torch::multi_margin_loss(t[0][1][2], right, 1, 0.7, weight, R),
          torch::multi_margin_loss(t[0][1].slice(0, 0, 1), right.view({1}), 2, 0.7, {}, R)};
}
// t: scores [3, 4], lists of right classes that end at −1.
template <at::Reduction::Reduction R>
Tensors multilabel_margin(const Tensors& t) {
  return {torch::multilabel_margin_loss(t[0], t[1], R)};
}
Sample multi(Tensors (*f)(const Tensors&), std::string dtypes = "f") {
  return {"multi_margin_loss", f,
          [](torch::Dtype d) {
            return Tensors{make({4, 5}, d), make({5}, d, 0.5, 2), places({4}, 5)};
          },
          std::move(dtypes)};
}
Sample multilabel(Tensors (*f)(const Tensors&), std::string dtypes = "f") {
  return {"multilabel_margin_loss_forward", f,
          [](torch::Dtype d) {
            const auto y = torch::tensor({1, 3, -1, 0, 0, -1, 2, 1, 3, 2, 1, 0}, torch::kLong).view({3, 4});
            return Tensors{make({3, 4}, d), y};
          },
          std::move(dtypes)};
}

}  // namespace

std::vector<Sample> resample_samples() {
  return {
      PICTURE("upsample_nearest1d", torch::upsample_nearest1d(t[0], {8}), Dims({2, 3, 4}), "fb"),
      PICTURE("upsample_nearest1d",
              torch::upsample_nearest1d(t[0], torch::IntArrayRef({7}), std::optional<double>(1.6)),
              Dims({2, 3, 5})),
      PICTURE("upsample_nearest2d", torch::upsample_nearest2d(t[0], {8, 9}), Dims({2, 3, 4, 3}), "fb"),
      PICTURE("upsample_nearest2d", torch::upsample_nearest2d(t[0], {3, 7}), Dims({2, 3, 7, 5})),
      PICTURE("upsample_nearest3d", torch::upsample_nearest3d(t[0], {4, 6, 3}), Dims({1, 2, 2, 3, 4})),
      PICTURE("_upsample_nearest_exact1d", torch::_upsample_nearest_exact1d(t[0], {7}), Dims({2, 3, 5})),
      PICTURE("_upsample_nearest_exact2d", torch::_upsample_nearest_exact2d(t[0], {3, 7}),
              Dims({2, 3, 7, 5})),
      PICTURE("_upsample_nearest_exact3d", torch::_upsample_nearest_exact3d(t[0], {4, 6, 3}),
              Dims({1, 2, 2, 3, 4})),
      PICTURE("upsample_linear1d", torch::upsample_linear1d(t[0], {9}, false), Dims({2, 3, 4}), "fd"),
      PICTURE("upsample_linear1d", torch::upsample_linear1d(t[0], {3}, true), Dims({2, 3, 7})),
      PICTURE("upsample_bilinear2d", torch::upsample_bilinear2d(t[0], {8, 6}, false), Dims({2, 3, 4, 3}),
              "fb"),
      PICTURE("upsample_bilinear2d", torch::upsample_bilinear2d(t[0], {5, 1}, true), Dims({2, 3, 4, 3})),
      PICTURE("upsample_bilinear2d", torch::upsample_bilinear2d(t[0], {6, 10}, false, 1.7, 2.1),
              Dims({2, 3, 4, 5})),
      PICTURE("upsample_trilinear3d", torch::upsample_trilinear3d(t[0], {3, 5, 3}, false),
              Dims({1, 2, 2, 3, 4})),
      PICTURE("upsample_trilinear3d", torch::upsample_trilinear3d(t[0], {3, 2, 4}, true),
              Dims({1, 2, 2, 3, 4})),
      PICTURE("upsample_bicubic2d", torch::upsample_bicubic2d(t[0], {8, 5}, false), Dims({2, 3, 4, 7})),
      PICTURE("upsample_bicubic2d", torch::upsample_bicubic2d(t[0], {7, 9}, true), Dims({2, 3, 4, 5})),
      bag("_embedding_bag", bags<sum>, "fb"),
      bag("_embedding_bag", bags<mean>),
      bag("_embedding_bag", bags<max>),
      bag("_embedding_bag", padded_bags<sum>),
      bag("_embedding_bag", padded_bags<mean>),
      bag("_embedding_bag", padded_bags<max>),
      bag("_embedding_bag", weighted_bags),
      bag("_embedding_bag", frequent_bags),
      bag("_embedding_bag_forward_only", bags_without_gradient, "f", false),
      multi(multi_margin<1, at::Reduction::Mean>),
      multi(multi_margin<2, at::Reduction::Sum>),
      multi(multi_margin<2, at::Reduction::None>),
      multi(multi_margin_of_one),
      multi(multi_margin_of_one_class<at::Reduction::Mean>),
      multi(multi_margin_of_one_class<at::Reduction::None>),
      multilabel(multilabel_margin<at::Reduction::Mean>),
      multilabel(multilabel_margin<at::Reduction::None>),
  };
}

}  // namespace tpubridge
