// Reshapes, slices, updates and padding of values without ends.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tpubridge/hlo/static_text.h"

namespace tpubridge::hlo {
namespace {

using Dims = std::vector<SizedDim>;
constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();

Dims without_ones(const Dims& dims) {
  Dims out;
  std::ranges::copy_if(dims, std::back_inserter(out),
                       [](const SizedDim& d) { return d.size >= 0 || d.value != 1; });
  return out;
}

// Elements in order of memory stand in the same places whatever the sizes are: only the first may have one.
bool is_in_order(const Dims& dims) {
  return std::ranges::none_of(dims.begin() + std::min<std::ptrdiff_t>(1, std::ssize(dims)), dims.end(),
                              [](const SizedDim& d) { return d.size >= 0; });
}

int64_t product_of(const StaticText& text, const Dims& dims) {
  int64_t n = 1;
  for (const SizedDim& d : dims)
    if (__builtin_mul_overflow(n, text.bound(d), &n)) return kMostElements;
  return n;
}

// Of each place in an array of `dims` as large as they may become, which element it is in order of memory.
Fixed order_of_places(StaticText& text, const Dims& dims, int64_t total) {
  const Fixed place = text.counted({total}, 0);
  if (is_in_order(dims)) return place;
  Fixed stride = text.number(1, "i32"), sum = text.repeated(text.number(0, "i32"), {total});
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const Fixed digit =
        text.both("remainder", text.both("divide", place, text.repeated(text.number(step, "i32"), {total})),
                  text.repeated(text.number(text.bound(dims[i]), "i32"), {total}));
    sum = text.both("add", sum, text.both("multiply", digit, text.repeated(stride, {total})));
    stride = text.both("multiply", stride, text.size(dims[i]));
    step *= text.bound(dims[i]);
  }
  return sum;
}

// And back: where these elements stand.
Fixed places_of_order(StaticText& text, const Dims& dims, Fixed order) {
  if (is_in_order(dims)) return order;
  const auto all = [&](const Fixed& scalar) { return text.repeated(scalar, order.dims); };
  Fixed sum = all(text.number(0, "i32"));
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const Fixed size = all(text.size(dims[i]));
    const Fixed digit = i == 0 ? order : text.both("remainder", order, size);
    sum = text.both("add", sum, text.both("multiply", digit, all(text.number(step, "i32"))));
    order = text.both("divide", order, size);
    step *= text.bound(dims[i]);
  }
  return sum;
}

// As `start` is taken: so that what begins there lies inside.
Fixed clamped(StaticText& text, const Fixed& start, const SizedDim& of, const SizedDim& part) {
  const Fixed last = text.both("subtract", text.size(of, start.element), text.size(part, start.element));
  return text.op("clamp", {text.number(0, start.element), start, last}, "", start.element, {});
}

std::optional<std::vector<Fixed>> starts_of(const SizedOp& op, size_t first) {
  std::vector<Fixed> out;
  for (size_t i = first; i < op.operands.size(); ++i) {
    const std::string& element = op.operand_types[i].element;
    if (element != "i32" && element != "i64") return std::nullopt;
    out.push_back({op.operands[i], element, {}});
  }
  return out;
}

Fixed cut_at(StaticText& text, const Fixed& v, const std::vector<Fixed>& starts,
             const std::vector<int64_t>& sizes) {
  std::vector<Fixed> operands{v};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return text.op("dynamic_slice", operands, fmt::format("<{{{}}}> ", list_text("slice_sizes", sizes)),
                 v.element, sizes);
}

}  // namespace

// What stands in front and behind on both sides stays; of the rest each element is found by its order.
std::optional<Fixed> static_reshape(const SizedOp& op, StaticText& text) {
  Dims from = without_ones(op.operand_types[0].dims), to = without_ones(op.result_types[0].dims), front, back;
  while (!from.empty() && !to.empty() && from.front() == to.front()) {
    front.push_back(from.front());
    from.erase(from.begin()), to.erase(to.begin());
  }
  while (!from.empty() && !to.empty() && from.back() == to.back()) {
    back.push_back(from.back());
    from.pop_back(), to.pop_back();
  }
  const int64_t before = product_of(text, front), behind = product_of(text, back),
                had = product_of(text, from), has = product_of(text, to);
  if (std::max({had, has, before, behind}) >= kMostElements || before * behind * had * has == 0)
    return std::nullopt;
  Fixed v = text.reshaped(text.without_ends(op.operands[0], op.operand_types[0]), {before, had, behind});
  if (is_in_order(from) && is_in_order(to)) {
    if (had < has) v = text.padded(v, text.number(0, v.element), 1, 0, has - had);
    v = text.part(v, 1, 0, has);
  } else {
    const Fixed at = places_of_order(text, from, order_of_places(text, to, has));
    v = text.op(
        "gather", {v, text.reshaped(at, {has, 1})},
        fmt::format(
            "<{{dimension_numbers = #stablehlo.gather<offset_dims = [0, 2], collapsed_slice_dims = [1], "
            "start_index_map = [1], index_vector_dim = 1>, {}, indices_are_sorted = false}}> ",
            list_text("slice_sizes", {before, 1, behind})),
        v.element, {before, has, behind});
  }
  return text.reshaped(v, text.bounds_of(op.result_types[0]));
}

std::optional<Fixed> static_slice(const SizedOp& op, StaticText& text) {
  const auto *starts = op.list("start_indices"), *strides = op.list("strides");
  if (!starts || !strides) return std::nullopt;
  Fixed v = text.without_ends(op.operands[0], op.operand_types[0]);
  std::vector<Fixed> later;
  bool any_later = false;
  const std::vector<int64_t> sizes = text.bounds_of(op.result_types[0]);
  for (size_t i = 0; i < starts->size(); ++i) {
    const SizedDim start = (*starts)[i], stride = (*strides)[i];
    if (stride.size >= 0 || (start.size >= 0 && stride.value != 1)) return std::nullopt;
    const int64_t needs = text.bound(start) + (sizes[i] - 1) * stride.value + 1;
    if (needs > v.dims[i]) v = text.padded(v, text.number(0, v.element), i, 0, needs - v.dims[i]);
    any_later |= start.size >= 0;
    later.push_back(text.size(start));
    if (start.size >= 0) continue;
    later.back() = text.number(0, "i32");
    v = text.part(v, i, start.value, needs);
    if (stride.value == 1) continue;
    std::vector<int64_t> none(v.dims.size(), 0), steps(v.dims.size(), 1), dims = v.dims;
    steps[i] = stride.value, dims[i] = sizes[i];
    v = text.op("slice", {v},
                fmt::format("<{{{}, {}, {}}}> ", list_text("limit_indices", v.dims),
                            list_text("start_indices", none), list_text("strides", steps)),
                v.element, dims);
  }
  return any_later ? cut_at(text, v, later, sizes) : v;
}

std::optional<Fixed> static_dynamic_slice(const SizedOp& op, StaticText& text) {
  const auto* sizes = op.list("slice_sizes");
  auto starts = starts_of(op, 1);
  if (!sizes || !starts) return std::nullopt;
  const Dims& dims = op.operand_types[0].dims;
  Fixed v = text.without_ends(op.operands[0], op.operand_types[0]);
  std::vector<int64_t> cut;
  for (size_t i = 0; i < dims.size(); ++i) {
    const SizedDim part = (*sizes)[i];
    cut.push_back(text.bound(part));
    if (part == dims[i] || (part.size < 0 && dims[i].size < 0)) continue;  // XLA itself keeps it inside
    (*starts)[i] = clamped(text, (*starts)[i], dims[i], part);
    if (part.size >= 0) v = text.padded(v, text.number(0, v.element), i, 0, cut[i]);
  }
  return cut_at(text, v, *starts, cut);
}

std::optional<Fixed> static_update(const SizedOp& op, StaticText& text) {
  auto starts = starts_of(op, 2);
  if (!starts || op.sized_attributes > 0) return std::nullopt;
  const Dims &dims = op.operand_types[0].dims, &parts = op.operand_types[1].dims;
  Fixed v = text.without_ends(op.operands[0], op.operand_types[0]);
  const Fixed part = text.without_ends(op.operands[1], op.operand_types[1]);
  std::vector<size_t> masked;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (parts[i] == dims[i] || (parts[i].size < 0 && dims[i].size < 0)) continue;
    (*starts)[i] = clamped(text, (*starts)[i], dims[i], parts[i]);
    if (parts[i].size < 0) continue;
    v = text.padded(v, text.number(0, v.element), i, 0, part.dims[i]);
    masked.push_back(i);
  }
  std::vector<Fixed> operands{v, part};
  operands.insert(operands.end(), starts->begin(), starts->end());
  Fixed written = text.op("dynamic_update_slice", operands, "", v.element, v.dims);
  for (const size_t i : masked) {  // what lies behind the end of the part is not written
    const auto whole = [&](const Fixed& s) {
      return s.element == "i32" ? s : text.op("convert", {s}, "", "i32", {});
    };
    const Fixed start = whole((*starts)[i]), end = text.both("add", start, text.size(parts[i])),
                place = text.counted(v.dims, i);
    written = text.chosen(text.less(place, text.repeated(end, v.dims)), written, v);
  }
  for (size_t i = 0; i < dims.size(); ++i) written = text.part(written, i, 0, text.bound(dims[i]));
  return written;
}

std::optional<Fixed> static_pad(const SizedOp& op, StaticText& text) {
  const auto *lows = op.list("edge_padding_low"), *highs = op.list("edge_padding_high"),
             *gaps = op.list("interior_padding");
  if (!lows || !highs || !gaps) return std::nullopt;
  const Dims& dims = op.operand_types[0].dims;
  const std::vector<int64_t> sizes = text.bounds_of(op.result_types[0]);
  const Fixed with{op.operands[1], op.operand_types[1].element, {}};
  Fixed v = text.without_ends(op.operands[0], op.operand_types[0]);
  for (size_t i = 0; i < dims.size(); ++i) {
    const SizedDim low = (*lows)[i], high = (*highs)[i], gap = (*gaps)[i];
    const bool sized = dims[i].size >= 0 || low.size >= 0 || high.size >= 0;
    if (gap.size >= 0 || (sized && gap.value != 0)) return std::nullopt;
    if (!sized) {
      if (gap.value != 0) return std::nullopt;
      v = text.padded(v, with, i, low.value, high.value);
      continue;
    }
    Dims only(dims.size());
    only[i] = dims[i];
    v = text.inside(v, only, with);
    // What comes in front, as much of it as there may be; then the result is cut out where it begins.
    const int64_t front = low.size < 0 ? low.value : sizes[i], end = front + sizes[i];
    v = text.padded(v, with, i, front, std::max<int64_t>(0, end - front - v.dims[i]));
    v = text.part(v, i, 0, end);
    if (low.size < 0) {
      v = text.part(v, i, 0, sizes[i]);
      continue;
    }
    std::vector<Fixed> at(dims.size(), text.number(0, "i32"));
    at[i] = text.both("subtract", text.number(front, "i32"), text.size(low));
    std::vector<int64_t> cut = v.dims;
    cut[i] = sizes[i];
    v = cut_at(text, v, at, cut);
  }
  return v;
}

}  // namespace tpubridge::hlo
