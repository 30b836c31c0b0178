// Writes ops of fixed sizes.
#include "tpubridge/hlo/static_text.h"

#include <fmt/format.h>

#include "tpubridge/hlo/sized_reader.h"

namespace tpubridge::hlo {

std::string op_text(std::string_view result, std::string_view name, std::string_view operands,
                    std::string_view attributes, std::string_view types, std::string_view to) {
  return fmt::format("    {} = \"stablehlo.{}\"({}) {}: ({}) -> {}\n", result, name, operands, attributes,
                     types, to);
}

std::string list_text(std::string_view key, const std::vector<int64_t>& items) {
  return fmt::format("{} = array<i64{} {}>", key, items.empty() ? "" : ":", fmt::join(items, ", "));
}

std::string Fixed::type() const {
  std::string out = "tensor<";
  for (const int64_t d : dims) out += std::to_string(d) + "x";
  return out + element + ">";
}

int64_t Fixed::elements() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

std::vector<int64_t> StaticText::bounds_of(const SizedType& t) const {
  std::vector<int64_t> out;
  for (const SizedDim& d : t.dims) out.push_back(bound(d));
  return out;
}

// The value is first told to have ends, so that taking them away is no empty act.
Fixed StaticText::without_ends(const std::string& name, const SizedType& type) {
  Fixed v{name, type.element, bounds_of(type)};
  const auto with_ends = [&](size_t from) {  // the type in which dimensions from there on have one
    std::string dims, bounds;
    bool any = false;
    for (size_t i = 0; i < type.dims.size(); ++i) {
      const bool ended = type.dims[i].size >= 0 && i >= from;
      any |= ended;
      dims += ended ? "?x" : fmt::format("{}x", v.dims[i]);
      bounds += (i ? ", " : "") + (ended ? std::to_string(v.dims[i]) : "?");
    }
    return any ? fmt::format("tensor<{}{}, #stablehlo.bounds<{}>>", dims, type.element, bounds) : v.type();
  };
  std::string from_type = v.type();
  const auto set = [&](size_t dim, const std::string& size, std::string to) {
    const std::string next = fresh();
    out_ += op_text(next, "set_dimension_size", v.name + ", " + size,
                    fmt::format("<{{dimension = {} : i64}}> ", dim), from_type + ", tensor<i32>", to);
    v.name = next;
    from_type = std::move(to);
  };
  for (size_t i = type.dims.size(); i-- > 0;)
    if (type.dims[i].size >= 0) set(i, fmt::format("%size{}", type.dims[i].size), with_ends(i));
  for (size_t i = 0; i < type.dims.size(); ++i)
    if (type.dims[i].size >= 0) set(i, number(v.dims[i], "i32").name, with_ends(i + 1));
  return v;
}

Fixed StaticText::op(std::string_view name, const std::vector<Fixed>& operands, std::string_view attributes,
                     std::string_view element, std::vector<int64_t> dims) {
  Fixed out{fresh(), std::string(element), std::move(dims)};
  std::string names, types;
  for (const Fixed& o : operands) {
    names += (names.empty() ? "" : ", ") + o.name;
    types += (types.empty() ? "" : ", ") + o.type();
  }
  out_ += op_text(out.name, name, names, attributes, types, out.type());
  return out;
}

std::vector<Fixed> StaticText::same_as_operands(std::string_view name, const std::vector<Fixed>& operands,
                                                std::string_view attributes) {
  std::vector<Fixed> out;
  std::string results, names, types;
  for (const Fixed& o : operands) {
    out.push_back({fresh(), o.element, o.dims});
    results += (results.empty() ? "" : ", ") + out.back().name;
    names += (names.empty() ? "" : ", ") + o.name;
    types += (types.empty() ? "" : ", ") + o.type();
  }
  out_ += op_text(results, name, names, attributes, types, out.size() == 1 ? types : "(" + types + ")");
  return out;
}

Fixed StaticText::number(int64_t n, std::string_view element) {
  const auto type = dtype_from_mlir(element);
  if (!type || is_complex(*type)) refuse("a number of another kind");
  const std::string text = *type == DType::pred ? (n ? "true" : "false")
                           : is_float(*type)    ? fmt::format("{}.0", n)
                                                : std::to_string(n);
  return op("constant", {}, fmt::format("<{{value = dense<{}> : tensor<{}>}}> ", text, element), element, {});
}

Fixed StaticText::size(const SizedDim& d, std::string_view element) {
  if (d.size < 0) return number(d.value, element);
  const Fixed out{fmt::format("%size{}", d.size), "i32", {}};
  return element == "i32" ? out : op("convert", {out}, "", element, {});
}

Fixed StaticText::both(std::string_view name, const Fixed& a, const Fixed& b) {
  return op(name, {a, b}, "", a.element, a.dims);
}

Fixed StaticText::less(const Fixed& a, const Fixed& b) {
  return op("compare", {a, b},
            "<{comparison_direction = #stablehlo<comparison_direction LT>, "
            "compare_type = #stablehlo<comparison_type SIGNED>}> ",
            "i1", a.dims);
}

Fixed StaticText::repeated(const Fixed& scalar, std::vector<int64_t> dims) {
  if (dims.empty()) return scalar;
  return op("broadcast_in_dim", {scalar}, "<{broadcast_dimensions = array<i64>}> ", scalar.element,
            std::move(dims));
}

Fixed StaticText::counted(std::vector<int64_t> dims, size_t along) {
  return op("iota", {}, fmt::format("<{{iota_dimension = {} : i64}}> ", along), "i32", std::move(dims));
}

Fixed StaticText::reshaped(const Fixed& v, std::vector<int64_t> dims) {
  return v.dims == dims ? v : op("reshape", {v}, "", v.element, std::move(dims));
}

Fixed StaticText::part(const Fixed& v, size_t dim, int64_t from, int64_t to) {
  if (from == 0 && to == v.dims[dim]) return v;
  std::vector<int64_t> starts(v.dims.size(), 0), ones(v.dims.size(), 1), limits = v.dims, dims = v.dims;
  starts[dim] = from, limits[dim] = to, dims[dim] = to - from;
  return op("slice", {v},
            fmt::format("<{{{}, {}, {}}}> ", list_text("limit_indices", limits),
                        list_text("start_indices", starts), list_text("strides", ones)),
            v.element, std::move(dims));
}

Fixed StaticText::padded(const Fixed& v, const Fixed& with, size_t dim, int64_t low, int64_t high) {
  if (low == 0 && high == 0) return v;
  std::vector<int64_t> lows(v.dims.size(), 0), highs = lows, none = lows, dims = v.dims;
  lows[dim] = low, highs[dim] = high, dims[dim] += low + high;
  return op("pad", {v, with},
            fmt::format("<{{{}, {}, {}}}> ", list_text("edge_padding_high", highs),
                        list_text("edge_padding_low", lows), list_text("interior_padding", none)),
            v.element, std::move(dims));
}

Fixed StaticText::chosen(const Fixed& where, const Fixed& a, const Fixed& b) {
  return op("select", {where, a, b}, "", a.element, a.dims);
}

Fixed StaticText::inside(const Fixed& v, const std::vector<SizedDim>& dims, const Fixed& scalar) {
  std::optional<Fixed> where;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].size < 0) continue;
    const Fixed here = less(counted(v.dims, i), repeated(size(dims[i]), v.dims));
    where = where ? both("and", *where, here) : here;
  }
  return where ? chosen(*where, v, repeated(scalar, v.dims)) : v;
}

std::optional<std::vector<Fixed>> write_static(const SizedOp& op, StaticText& text) {
  const auto one = [](std::optional<Fixed> v) {
    return v ? std::optional(std::vector<Fixed>{std::move(*v)}) : std::nullopt;
  };
  if (op.name == "stablehlo.reshape") return one(static_reshape(op, text));
  if (op.name == "stablehlo.slice") return one(static_slice(op, text));
  if (op.name == "stablehlo.dynamic_slice") return one(static_dynamic_slice(op, text));
  if (op.name == "stablehlo.dynamic_update_slice") return one(static_update(op, text));
  if (op.name == "stablehlo.pad") return one(static_pad(op, text));
  if (op.name == "stablehlo.gather") return one(static_gather(op, text));
  if (op.name == "stablehlo.scatter") return one(static_scatter(op, text));
  if (op.name == "stablehlo.convolution") return one(static_convolution(op, text));
  return std::nullopt;
}

}  // namespace tpubridge::hlo
