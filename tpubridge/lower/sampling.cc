// Sampling images and volumes at places given by a grid (linear, nearest or cubic), and the gradients.
#include <limits>

#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/grid_places.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

// Whether a whole number, as a float, is a place of the axis. NaN is none.
Value on_axis(Value at, int64_t size) {
  return hlo::and_(hlo::compare(at, like(at, 0), Direction::ge),
                   hlo::compare(at, like(at, static_cast<double>(size - 1)), Direction::le));
}

// An image [n, c, sizes…] as rows of channels, with all elements that a grid samples of it: [n, places,
// taps], taps being those of every axis.
class Sampler {
 public:
  Sampler(Value x, Value grid, const GridOptions& options) : b_(x.builder()), image_(x.dims()) {
    rank_ = x.rank() - 2, n_ = x.dim(0), channels_ = x.dim(1);
    count_ = grid.elements() / (n_ * rank_);
    const Dims sizes(image_.begin() + 2, image_.end());
    area_ = product(sizes);
    Dims order{0};
    for (int64_t i = 2; i < x.rank(); ++i) order.push_back(i);
    order.push_back(1);
    rows_ = reshaped(transposed(x, order), {n_ * area_, channels_});
    const Value flat = reshaped(grid, {n_, count_, rank_});
    for (int64_t i = 0; i < rank_; ++i) {  // the grid names the last axis first
      const int64_t k = rank_ - 1 - i;
      const Value g = reshaped(hlo::slice(flat, {0, 0, k}, {n_, count_, k + 1}), {n_, count_});
      axes_.push_back(grid_taps(g, sizes[static_cast<size_t>(i)], options));
    }
    find_places(sizes);
    // What lies outside counts as 0 · weight (NaN where the grid has it); linear volumes leave it out.
    leave_out_ = options.volume && options.mode != GridMode::cubic;
  }

  // [n, places, taps]: the weights, or what they change by with the grid's number of one axis.
  [[nodiscard]] Value weights(int64_t by = -1) const {
    Value w;
    for (int64_t i = 0; i < rank_; ++i) {
      const GridTaps& axis = axes_[static_cast<size_t>(i)];
      const Value v = on_all(i == by ? axis.slope : axis.weight, i);
      w = w ? mul(w, v) : v;
    }
    w = merged(w);
    return leave_out_ ? hlo::select(inside_, w, like(w, 0)) : w;
  }
  // [n, places, taps, c], 0 outside.
  [[nodiscard]] Value elements() const {
    hlo::GatherDims d;
    d.offset_dims = {1};
    d.collapsed_slice_dims = d.start_index_map = {0};
    d.index_vector_dim = 1;
    const Value v = reshaped(hlo::gather(rows_, places_, d, {1, channels_}), full());
    return hlo::select(spread(inside_, v.dims(), {0, 1, 2}), v, like(v, 0));
  }
  // [n, places, taps, c] added to an empty image.
  [[nodiscard]] Value scattered(Value v) const {
    hlo::ScatterDims d;
    d.update_window_dims = {1};
    d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
    d.index_vector_dim = 1;
    v = hlo::select(spread(inside_, v.dims(), {0, 1, 2}), v, like(v, 0));
    const Value rows =
        hlo::scatter(like(rows_, 0), places_, reshaped(v, {places_.dim(0), channels_}), d, hlo::Reducer::add);
    Dims dims{n_}, order{0, rank_ + 1};
    for (int64_t i = 0; i < rank_; ++i) {
      dims.push_back(image_[static_cast<size_t>(i) + 2]);
      order.push_back(i + 1);
    }
    dims.push_back(channels_);
    return transposed(reshaped(rows, dims), order);
  }

  [[nodiscard]] Dims full() const { return {n_, count_, inside_.dim(2), channels_}; }
  // [n, places, taps] or [n, places, c] over the other.
  [[nodiscard]] Value over_channels(Value v) const { return spread(v, full(), {0, 1, 2}); }
  [[nodiscard]] Value over_taps(Value v) const { return spread(v, full(), {0, 1, 3}); }
  // [n, c, places…] ↔ [n, places, c]
  [[nodiscard]] Value to_places(Value v) const {
    return transposed(reshaped(v, {n_, channels_, count_}), {0, 2, 1});
  }
  [[nodiscard]] Value from_places(Value v, const Dims& dims) const {
    return reshaped(transposed(v, {0, 2, 1}), dims);
  }

 private:
  // The taps of axis i over those of all axes: [n, places, taps, taps, …].
  [[nodiscard]] Value on_all(Value v, int64_t i) const {
    Dims dims{n_, count_};
    dims.insert(dims.end(), static_cast<size_t>(rank_), v.dim(2));
    return spread(v, dims, {0, 1, i + 2});
  }
  [[nodiscard]] Value merged(Value v) const {
    return reshaped(v, {n_, count_, v.elements() / (n_ * count_)});
  }

  void find_places(const Dims& sizes) {
    const DType t = n_ * area_ > std::numeric_limits<int32_t>::max() ? DType::s64 : DType::s32;
    Value place;
    for (int64_t i = 0; i < rank_; ++i) {
      const int64_t size = sizes[static_cast<size_t>(i)];
      const Value at = axes_[static_cast<size_t>(i)].at, fits = on_axis(at, size);
      const Value whole = on_all(hlo::convert(hlo::select(fits, at, like(at, 0)), t), i);
      inside_ = inside_ ? hlo::and_(inside_, on_all(fits, i)) : on_all(fits, i);
      place = place ? hlo::add(mul(place, like(place, size)), whole) : whole;
    }
    const Value image = hlo::iota(b_, place.shape(), 0);
    place = hlo::add(mul(image, like(image, area_)), place);
    inside_ = merged(inside_);
    places_ = reshaped(place, {place.elements(), 1});
  }

  hlo::Builder& b_;
  Dims image_;
  std::vector<GridTaps> axes_;
  Value rows_, inside_, places_;
  int64_t rank_ = 0, n_ = 0, channels_ = 0, count_ = 0, area_ = 0;
  bool leave_out_ = false;
};

// interpolation_mode, padding_mode, align_corners from argument `at` on
GridOptions options_of(const Call& c, size_t at, size_t input) {
  return {static_cast<GridMode>(c.integer(at)), static_cast<GridPadding>(c.integer(at + 1)), c.flag(at + 2),
          c.dims(input).size() == 5};
}

// input, grid, …
void grid_sampler(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  if (c.out().elements() == 0) return c.result(fill(c.b, t, c.out().dims, 0));
  const Sampler s(c.in(0, t), c.in(1, t), options_of(c, 2, 0));
  const Value weighted = mul(s.elements(), s.over_channels(s.weights()));
  c.result(s.from_places(sum(weighted, {2}), c.out().dims));
}

// grad_output, input, grid, …, output_mask
void grid_sampler_backward(Context& c) {
  const DType t = opmath_of(c.out(1).dtype);
  c.result(fill(c.b, t, c.out(0).dims, 0), 0);
  c.result(fill(c.b, t, c.out(1).dims, 0), 1);
  if (c.shape(0).elements() == 0) return;
  const GridOptions options = options_of(c, 3, 1);
  const Sampler s(c.in(1, t), c.in(2, t), options);
  const Value g = s.over_taps(s.to_places(c.in(0, t)));
  if (c.integers(6)[0]) c.result(s.scattered(mul(g, s.over_channels(s.weights()))), 0);
  if (options.mode == GridMode::nearest) return;
  const Value along = sum(mul(g, s.elements()), {3});
  std::vector<Value> slopes;
  for (auto axis = static_cast<int64_t>(c.dims(1).size()) - 3; axis >= 0; --axis) {
    const Value d = sum(mul(along, s.weights(axis)), {2});
    slopes.push_back(reshaped(d, {d.dim(0), d.dim(1), 1}));
  }
  c.result(reshaped(hlo::concatenate(slopes, 2), c.out(1).dims), 1);
}

bool samples_soundly(const Call& c, size_t input, size_t mode, size_t spatial) {
  const Dims &x = c.dims(input), &g = c.dims(input + 1);
  if (x.size() != spatial + 2 || g.size() != x.size() || g.back() != static_cast<int64_t>(spatial))
    return false;
  if (x[0] != g[0] || product(Dims(x.begin() + 2, x.end())) == 0) return false;
  if (c.shape(input).dtype != c.shape(input + 1).dtype || !is_float(c.shape(input).dtype)) return false;
  auto one_of_three = [&](size_t arg) { return c.integer(arg) >= 0 && c.integer(arg) <= 2; };
  return one_of_three(mode) && one_of_three(mode + 1);
}

Dims sampled_dims(const Dims& x, const Dims& g) {
  Dims out{x[0], x[1]};
  out.insert(out.end(), g.begin() + 1, g.end() - 1);
  return out;
}

template <size_t N>
std::vector<Shape> sampler_shape(const Call& c) {
  if (!samples_soundly(c, 0, 2, N)) return {};
  return {Shape{c.shape(0).dtype, sampled_dims(c.dims(0), c.dims(1))}};
}
template <size_t N>
std::vector<Shape> sampler_backward_shape(const Call& c) {
  if (!samples_soundly(c, 1, 3, N) || c.dims(0) != sampled_dims(c.dims(1), c.dims(2))) return {};
  return {wanted_or_absent(c.integers(6)[0], c.shape(1).dtype, c.dims(1)), c.shape(2)};
}

}  // namespace

std::span<const Row> sampling_rows() {
  static const Row rows[] = {
      {{"grid_sampler_2d"}, grid_sampler, plain, sampler_shape<2>},
      {{"grid_sampler_2d_backward"}, grid_sampler_backward, plain, sampler_backward_shape<2>},
      {{"grid_sampler_3d"}, grid_sampler, plain, sampler_shape<3>},
      {{"grid_sampler_3d_backward"}, grid_sampler_backward, plain, sampler_backward_shape<3>},
  };
  return rows;
}

}  // namespace tpubridge::lower
