// Gather, scatter and convolution of values without ends.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "tpubridge/hlo/static_text.h"

namespace tpubridge::hlo {
namespace {

using Dims = std::vector<SizedDim>;

// The numbers of "key = [0, 2]"; none where it is not there.
std::vector<size_t> numbers_of(std::string_view attributes, std::string_view key) {
  std::vector<size_t> out;
  const std::string begin = fmt::format("{} = [", key);
  size_t at = attributes.find(begin);
  if (at == std::string_view::npos) return out;
  for (at += begin.size(); at < attributes.size() && attributes[at] != ']';) {
    size_t n = 0;
    const auto [end, error] =
        std::from_chars(attributes.data() + at, attributes.data() + attributes.size(), n);
    if (error == std::errc())
      out.push_back(n), at = static_cast<size_t>(end - attributes.data());
    else
      ++at;
  }
  return out;
}

// Of "key = 1".
std::optional<size_t> number_of(std::string_view attributes, std::string_view key) {
  const std::string begin = fmt::format("{} = ", key);
  const size_t at = attributes.find(begin);
  if (at == std::string_view::npos) return std::nullopt;
  size_t n = 0;
  const char* from = attributes.data() + at + begin.size();
  const auto [end, error] = std::from_chars(from, attributes.data() + attributes.size(), n);
  return error == std::errc() ? std::optional(n) : std::nullopt;
}

bool is_signed_index(const std::string& element) { return element == "i32" || element == "i64"; }

bool is_sized(const SizedDim& d) { return d.size >= 0; }

// Indices no larger than what each of their entries may be.
Fixed limited(StaticText& text, const Fixed& indices, size_t vector_dim,
              const std::vector<std::optional<Fixed>>& last) {
  const Fixed any = text.number(
      indices.element == "i32" ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max(),
      indices.element);
  if (vector_dim == indices.dims.size())
    return last[0] ? text.both("minimum", indices, text.repeated(*last[0], indices.dims)) : indices;
  std::vector<Fixed> each;
  for (const auto& l : last) each.push_back(text.reshaped(l ? *l : any, {1}));
  const auto n = static_cast<int64_t>(each.size());
  const Fixed row =
      n == 1 ? each[0] : text.op("concatenate", each, "<{dimension = 0 : i64}> ", indices.element, {n});
  const Fixed all = text.op("broadcast_in_dim", {row},
                            fmt::format("<{{broadcast_dimensions = array<i64: {}>}}> ", vector_dim),
                            indices.element, indices.dims);
  return text.both("minimum", indices, all);
}

}  // namespace

// XLA takes places outside of what is indexed as the nearest inside; so they are kept inside before their
// end.
std::optional<Fixed> static_gather(const SizedOp& op, StaticText& text) {
  const auto* sizes = op.list("slice_sizes");
  const Dims &dims = op.operand_types[0].dims, &index_dims = op.operand_types[1].dims;
  const auto vector_dim = number_of(op.attributes, "index_vector_dim");
  const auto mapped = numbers_of(op.attributes, "start_index_map");
  if (!sizes || !vector_dim || mapped.empty() ||
      op.attributes.find("batching_dims") != std::string_view::npos ||
      op.attributes.find("indices_are_sorted = false") == std::string_view::npos)
    return std::nullopt;
  if (*vector_dim < index_dims.size() && is_sized(index_dims[*vector_dim])) return std::nullopt;
  Fixed indices = text.without_ends(op.operands[1], op.operand_types[1]);
  std::vector<std::optional<Fixed>> last(mapped.size());
  std::vector<int64_t> cut;
  for (size_t i = 0; i < dims.size(); ++i) {
    const SizedDim part = (*sizes)[i];
    cut.push_back(text.bound(part));
    if (part == dims[i] || (!is_sized(part) && !is_sized(dims[i]))) continue;
    const auto entry = std::ranges::find(mapped, i);
    if (is_sized(part) || !is_signed_index(indices.element)) return std::nullopt;
    if (entry == mapped.end()) continue;  // begins at 0
    last[static_cast<size_t>(entry - mapped.begin())] =
        text.both("subtract", text.size(dims[i], indices.element), text.number(part.value, indices.element));
  }
  if (std::ranges::any_of(last, [](const auto& l) { return l.has_value(); }))
    indices = limited(text, indices, *vector_dim, last);
  const size_t at = op.attributes.find("slice_sizes = "), end = op.attributes.find('>', at);
  if (at == std::string_view::npos || end == std::string_view::npos) return std::nullopt;
  std::string attributes(op.attributes.substr(0, at));
  attributes += list_text("slice_sizes", cut);
  attributes += op.attributes.substr(end + 1);
  return text.op("gather", {text.without_ends(op.operands[0], op.operand_types[0]), indices},
                 attributes + " ", op.result_types[0].element, text.bounds_of(op.result_types[0]));
}

// What lies behind the end of the indices is written to no place.
std::optional<Fixed> static_scatter(const SizedOp& op, StaticText& text) {
  const std::string_view a = op.attributes;
  if (op.operands.size() != 3 || op.sized_attributes > 0 || a.find("batching_dims") != a.npos ||
      a.find("indices_are_sorted = false") == a.npos || a.find("unique_indices = false") == a.npos)
    return std::nullopt;
  const auto vector_dim = number_of(a, "index_vector_dim");
  const auto window = numbers_of(a, "update_window_dims"), dropped = numbers_of(a, "inserted_window_dims");
  const Dims &dims = op.operand_types[0].dims, &index_dims = op.operand_types[1].dims,
             &update_dims = op.operand_types[2].dims;
  if (!vector_dim || (*vector_dim < index_dims.size() && is_sized(index_dims[*vector_dim])))
    return std::nullopt;
  size_t next = 0;
  for (size_t i = 0; i < dims.size(); ++i) {  // slices are whole along dimensions with a size
    if (std::ranges::find(dropped, i) != dropped.end()) continue;
    if (next >= window.size() || window[next] >= update_dims.size()) return std::nullopt;
    const SizedDim part = update_dims[window[next++]];
    if ((is_sized(part) || is_sized(dims[i])) && part != dims[i]) return std::nullopt;
  }
  if (next != window.size() || !is_signed_index(op.operand_types[1].element)) return std::nullopt;
  Fixed indices = text.without_ends(op.operands[1], op.operand_types[1]);
  indices =
      text.inside(indices, index_dims, text.number(std::numeric_limits<int32_t>::max(), indices.element));
  return text.op("scatter",
                 {text.without_ends(op.operands[0], op.operand_types[0]), indices,
                  text.without_ends(op.operands[2], op.operand_types[2])},
                 std::string(a) + " ", op.result_types[0].element, text.bounds_of(op.result_types[0]));
}

// Along a sized dimension of pictures what lies behind the end counts as padding does: zero. So it does where
// both sides are summed over such a dimension. Windows of a changing size are not taken.
std::optional<Fixed> static_convolution(const SizedOp& op, StaticText& text) {
  const std::string_view a = op.attributes;
  const size_t at = a.find("#stablehlo.conv<[");
  if (op.sized_attributes > 0 || at == a.npos || a.find("batch_group_count = 1 ") == a.npos)
    return std::nullopt;
  // The name of each dimension: b and f, o and i, or a digit.
  const auto names = [&](size_t from) {
    std::string out;
    for (; a[from] != ']'; ++from)
      if (a[from] != '[' && a[from] != ',' && a[from] != ' ') out += a[from];
    return std::make_pair(out, from);
  };
  const auto [left, end] = names(at + 16);
  const auto [right, right_end] = names(end + 2);
  const Dims &pictures = op.operand_types[0].dims, &kernel = op.operand_types[1].dims;
  if (left.size() != pictures.size() || right.size() != kernel.size()) return std::nullopt;
  const bool groups = a.find("feature_group_count = 1 ") == a.npos;
  Dims empty(pictures.size()), outer = empty;
  bool summed = false;
  for (size_t i = 0; i < pictures.size(); ++i) {
    if (is_sized(kernel[i]) && (right[i] != 'o' && right[i] != 'i')) return std::nullopt;
    if (groups && ((is_sized(pictures[i]) && left[i] == 'f') || is_sized(kernel[i]))) return std::nullopt;
    summed |= is_sized(pictures[i]) && left[i] == 'f';
    summed |= is_sized(kernel[i]) && right[i] == 'i';
    if (is_sized(pictures[i]) && left[i] != 'b') outer[i] = pictures[i];
  }
  Fixed x = text.without_ends(op.operands[0], op.operand_types[0]),
        w = text.without_ends(op.operands[1], op.operand_types[1]);
  x = text.inside(x, outer, text.number(0, x.element));
  if (summed) {
    Dims inner = empty;
    for (size_t i = 0; i < kernel.size(); ++i)
      if (is_sized(kernel[i]) && right[i] == 'i') inner[i] = kernel[i];
    w = text.inside(w, inner, text.number(0, w.element));
  }
  return text.op("convolution", {x, w}, std::string(a) + " ", op.result_types[0].element,
                 text.bounds_of(op.result_types[0]));
}

}  // namespace tpubridge::hlo
