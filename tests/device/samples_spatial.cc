// Samples of padding, pooling in three dimensions, patches, sampling by a grid, distances, scatter_reduce.
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

const Sizes kVolume{{2, 3, 5, 6, 4}};
const Sizes kImageAndGrid{{2, 3, 5, 6}, {2, 4, 3, 2}};

torch::Tensor sampled(const Tensors& t, int64_t mode, int64_t padding, bool align) {
  return torch::grid_sampler_2d(t[0], t[1], mode, padding, align);
}

// x, places, source: both that arrive at each place and with what stands there.
torch::Tensor reduced(const Tensors& t, const char* how, bool include_self) {
  return t[0].scatter_reduce(0, t[1], t[2], how, include_self);
}
#define REDUCED(how, include, dtypes, gradient) \
  INDEXED("scatter_reduce.two", reduced(t, how, include), {5, 3}, {4, 3}, 5, {4, 3}, dtypes, gradient)

}  // namespace

std::vector<Sample> spatial_samples() {
  return {
      SAMPLE("reflection_pad1d", torch::reflection_pad1d(t[0], {2, 1}), Sizes({{2, 3, 5}}), "fb"),
      SAMPLE("reflection_pad2d", torch::reflection_pad2d(t[0], {2, 1, 0, 3}), Sizes({{2, 3, 4, 5}})),
      SAMPLE("reflection_pad2d", torch::reflection_pad2d(t[0], {-1, 2, 1, -2}), Sizes({{3, 4, 5}})),
      SAMPLE("reflection_pad3d", torch::reflection_pad3d(t[0], {1, 2, 0, 1, 2, 1}), kVolume),
      SAMPLE("replication_pad1d", torch::replication_pad1d(t[0], {2, 4}), Sizes({{2, 3, 3}})),
      SAMPLE("replication_pad2d", torch::replication_pad2d(t[0], {2, -1, 0, 3}), Sizes({{2, 3, 4, 5}}), "fb"),
      SAMPLE("replication_pad3d", torch::replication_pad3d(t[0], {1, 2, 0, 1, 2, 1}), kVolume),
      SAMPLE("max_pool3d_with_indices", torch::max_pool3d(t[0], {2, 3, 2}, {2, 2, 1}, {1, 1, 0}), kVolume),
      SAMPLE("max_pool3d_with_indices", torch::max_pool3d(t[0], 2, 2, 0, 1, true), kVolume),
      SAMPLE("avg_pool3d", torch::avg_pool3d(t[0], {2, 3, 2}, {2, 2, 1}, {1, 1, 0}), kVolume),
      SAMPLE("avg_pool3d", torch::avg_pool3d(t[0], 2, 2, 1, true, false), kVolume),
      SAMPLE("_adaptive_avg_pool3d", torch::adaptive_avg_pool3d(t[0], {3, 2, 4}), kVolume),
      SAMPLE("im2col", torch::im2col(t[0], {2, 3}, {1, 2}, {1, 2}, {2, 1}), Sizes({{2, 3, 5, 6}}), "fb"),
      SAMPLE("col2im", torch::col2im(t[0], {5, 6}, {2, 3}, {1, 2}, {1, 2}, {2, 1}), Sizes({{2, 18, 18}})),
      SAMPLE("grid_sampler_2d", sampled(t, 0, 0, false), kImageAndGrid),
      SAMPLE("grid_sampler_2d", sampled(t, 0, 1, true), kImageAndGrid),
      SAMPLE("grid_sampler_2d", sampled(t, 0, 2, false), kImageAndGrid),
      SAMPLE("grid_sampler_2d", sampled(t, 0, 2, true), kImageAndGrid),
      SAMPLE("grid_sampler_2d", sampled(t, 1, 0, false), kImageAndGrid),
      SAMPLE("_cdist_forward", torch::cdist(t[0], t[1], 2), Sizes({{2, 4, 3}, {2, 5, 3}}), "f"),
      SAMPLE("_cdist_forward", torch::cdist(t[0], t[1], 1), Sizes({{4, 3}, {5, 3}})),
      SAMPLE("_cdist_forward", torch::cdist(t[0], t[1], 3), Sizes({{2, 4, 3}, {1, 5, 3}})),
      SAMPLE("_cdist_forward", torch::cdist(t[0], t[1], 1.5), Sizes({{4, 3}, {5, 3}})),
      SAMPLE("_cdist_forward", torch::cdist(t[0], t[1], INFINITY), Sizes({{4, 3}, {5, 3}})),
      SAMPLE("_pdist_forward", torch::pdist(t[0], 2), Sizes({{5, 3}})),
      SAMPLE("_pdist_forward", torch::pdist(t[0], 1.5), Sizes({{5, 3}})),
      SAMPLE("_pdist_forward", torch::pdist(t[0], 2), Sizes({{1, 3}})),
      SAMPLE("_pdist_forward", torch::pdist(t[0], 2), Sizes({{4, 0}}), "f", 1, false),
      SAMPLE("copy", torch::copy(t[0], t[1]), Sizes({{2, 3}, {3}}), "fb", 1, false),
      INDEXED("scatter_reduce.two", reduced(t, "sum", true), {5, 3}, {4, 2}, 5, {6, 3}, "f", false),
      REDUCED("sum", true, "fbi", true),
      REDUCED("sum", false, "f", true),
      REDUCED("prod", true, "fi", true),
      REDUCED("mean", true, "fi", true),
      REDUCED("mean", false, "f", true),
      REDUCED("amax", true, "fi", true),
      REDUCED("amin", false, "fi", true),
  };
}

}  // namespace tpubridge
