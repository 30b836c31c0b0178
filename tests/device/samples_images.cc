// Samples of pooling to a size that is asked for, of sampling by a grid, and of smooth changes of size.
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

const Sizes kOneImage{{2, 3, 7, 5}};
const Sizes kOneVolume{{2, 3, 4, 5, 6}};
const Sizes kTransposed{{2, 4, 5, 6}, {4, 3, 2, 3}};  // in two groups

// An image or a volume, and a grid of places, some of them outside.
const Sizes kImageGrid{{2, 3, 5, 6}, {2, 4, 3, 2}};
const Sizes kVolumeGrid{{2, 3, 4, 5, 6}, {2, 2, 4, 3, 3}};

template <int Mode, int Padding, bool Align>
Tensors by_grid(const Tensors& t) {
  if (t[0].dim() == 4) return {torch::grid_sampler_2d(t[0], t[1], Mode, Padding, Align)};
  return {torch::grid_sampler_3d(t[0], t[1], Mode, Padding, Align)};
}

// Every padding, with corners aligned and not.
template <int Mode>
void add_grids(std::vector<Sample>& out, const std::string& row, const Sizes& sizes) {
  for (Call f : {Call(by_grid<Mode, 0, false>), Call(by_grid<Mode, 0, true>), Call(by_grid<Mode, 1, false>),
                 Call(by_grid<Mode, 1, true>), Call(by_grid<Mode, 2, false>), Call(by_grid<Mode, 2, true>)})
    out.push_back(sample(row, f, sizes, "f", 20));
}

// Several elements of a window that are no number: the last of them is its largest.
Tensors spotted(torch::Dtype d) {
  auto x = make({2, 3, 7, 5}, d);
  x.view(-1).slice(0, 0, std::nullopt, 4).fill_(NAN);
  return {x};
}
Tensors places_of_nan(const Tensors& t) {
  return {std::get<1>(torch::adaptive_max_pool2d(t[0], {3, 2})),
          std::get<1>(torch::max_pool2d_with_indices(t[0], 3))};
}

}  // namespace

std::vector<Sample> image_samples() {
  std::vector<Sample> all{
      SAMPLE("adaptive_max_pool2d", std::get<0>(torch::adaptive_max_pool2d(t[0], {3, 4})), kOneImage, "fdbh"),
      SAMPLE("adaptive_max_pool2d", std::get<1>(torch::adaptive_max_pool2d(t[0], {3, 9})), kOneImage, "fd", 1,
             false),
      SAMPLE("adaptive_max_pool2d", std::get<0>(torch::adaptive_max_pool2d(t[0], {2, 3})), Sizes({{3, 4, 9}}),
             "f"),
      SAMPLE("adaptive_max_pool2d", std::get<0>(torch::adaptive_max_pool1d(t[0], 3)), Sizes({{2, 3, 7}}),
             "f"),
      SAMPLE("adaptive_max_pool3d", std::get<0>(torch::adaptive_max_pool3d(t[0], {3, 2, 4})), kOneVolume,
             "fdb"),
      SAMPLE("adaptive_max_pool3d", std::get<1>(torch::adaptive_max_pool3d(t[0], {1, 5, 4})), kOneVolume, "f",
             1, false),
      SAMPLE("_adaptive_avg_pool2d", torch::_adaptive_avg_pool2d(t[0], {3, 8}), kOneImage, "fdbh"),
      SAMPLE("_adaptive_avg_pool2d", torch::_adaptive_avg_pool2d(t[0], {3, 2}), Sizes({{0, 3, 7, 5}}), "f"),
      SAMPLE("_adaptive_avg_pool3d", torch::_adaptive_avg_pool3d(t[0], {3, 2, 4}), kOneVolume, "fdb"),
      SAMPLE("im2col", torch::im2col(t[0], {2, 3}, {1, 2}, {1, 2}, {2, 1}), Sizes({{0, 3, 5, 6}}), "f"),
      SAMPLE("col2im", torch::col2im(t[0], {5, 6}, {2, 3}, {1, 2}, {1, 2}, {2, 1}), Sizes({{0, 18, 18}}),
             "f"),
      // Windows apart, side by side, over each other, and over each other many times.
      SAMPLE("unfold_backward", torch::unfold_backward(t[0], {2, 8, 3}, 1, 2, 3), Sizes({{2, 3, 3, 2}}),
             "fdb"),
      SAMPLE("unfold_backward", torch::unfold_backward(t[0], {7, 4}, 0, 3, 3), Sizes({{2, 4, 3}}), "f"),
      SAMPLE("unfold_backward", torch::unfold_backward(t[0], {3, 8}, -1, 5, 2), Sizes({{3, 2, 5}}), "f"),
      SAMPLE("unfold_backward", torch::unfold_backward(t[0], {24, 2}, 0, 20, 1), Sizes({{5, 2, 20}}), "f"),
      SAMPLE("unfold_backward", torch::unfold_backward(t[0], {}, 0, 1, 1), Sizes({{1}}), "f"),
      SAMPLE("_upsample_bilinear2d_aa", torch::_upsample_bilinear2d_aa(t[0], {3, 4}, false), kOneImage, "fd"),
      SAMPLE("_upsample_bilinear2d_aa", torch::_upsample_bilinear2d_aa(t[0], {9, 2}, true), kOneImage, "f"),
      SAMPLE("_upsample_bilinear2d_aa", torch::_upsample_bilinear2d_aa(t[0], {5, 8}, false, 0.7, 1.7),
             kOneImage, "f"),
      SAMPLE("_upsample_bicubic2d_aa", torch::_upsample_bicubic2d_aa(t[0], {3, 8}, false), kOneImage, "fd"),
      SAMPLE("_upsample_bicubic2d_aa", torch::_upsample_bicubic2d_aa(t[0], {3, 2}, true), kOneImage, "f"),
      SAMPLE("_upsample_lanczos2d_aa", torch::_upsample_lanczos2d_aa(t[0], {3, 8}, false), kOneImage, "fd"),
      SAMPLE("convolution", torch::conv_transpose2d(t[0], t[1], {}, {2, 3}, {1, 0}, {3, 2}, 2, {4, 4}),
             kTransposed, "f"),
  };
  all.push_back({"adaptive_max_pool2d", places_of_nan, spotted, "fb", false});
  all.push_back(sample("grid_sampler_2d", by_grid<2, 2, false>, kImageGrid, "d", 20));
  all.push_back(sample("grid_sampler_3d", by_grid<0, 2, false>, kVolumeGrid, "d", 20));
  add_grids<0>(all, "grid_sampler_2d", kImageGrid);
  add_grids<1>(all, "grid_sampler_2d", kImageGrid);
  add_grids<2>(all, "grid_sampler_2d", kImageGrid);
  add_grids<0>(all, "grid_sampler_3d", kVolumeGrid);
  add_grids<1>(all, "grid_sampler_3d", kVolumeGrid);
  add_grids<2>(all, "grid_sampler_3d", kVolumeGrid);
  return all;
}

}  // namespace tpubridge
