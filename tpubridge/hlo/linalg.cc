#include "tpubridge/hlo/linalg.h"

#include <fmt/format.h>

#include <array>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/emit.h"
#include "tpubridge/hlo/precision.h"

namespace tpubridge::hlo {
namespace {

void append_dims(std::string& out, std::string_view key, List<int64_t> dims) {
  if (dims.empty()) return;
  if (!out.ends_with('<')) out += ", ";
  append_list(out.append(key).append(" = ["), dims);
  out += ']';
}

std::string dot_text(const DotDims& d) {
  std::string out = "#stablehlo.dot<";
  append_dims(out, "lhs_batching_dimensions", d.lhs_batch);
  append_dims(out, "rhs_batching_dimensions", d.rhs_batch);
  append_dims(out, "lhs_contracting_dimensions", d.lhs_contract);
  append_dims(out, "rhs_contracting_dimensions", d.rhs_contract);
  return out += '>';
}

std::string algorithm_text(std::string_view op, const DotAlgorithm& a) {
  for (const auto& t : {a.lhs_type, a.rhs_type, a.accumulation_type})
    if (t != "tf32" && !dtype_from_mlir(t)) fail(op, fmt::format("'{}' in the algorithm is not a type", t));
  if (a.lhs_components < 1 || a.rhs_components < 1 || a.primitive_operations < 1)
    fail(op, "the counts of the algorithm must be at least 1");
  return fmt::format(
      "#stablehlo.dot_algorithm<lhs_precision_type = {}, rhs_precision_type = {}, accumulation_type = {}, "
      "lhs_component_count = {}, rhs_component_count = {}, num_primitive_operations = {}, "
      "allow_imprecise_accumulation = {}>",
      a.lhs_type, a.rhs_type, a.accumulation_type, a.lhs_components, a.rhs_components, a.primitive_operations,
      a.allow_imprecise_accumulation);
}

void check_pairs(std::string_view op, std::string_view what, const Value& lhs, const Value& rhs,
                 const std::vector<int64_t>& l, const std::vector<int64_t>& r) {
  if (l.size() != r.size())
    fail(op, fmt::format("lhs has {} {} dimensions and rhs {}", l.size(), what, r.size()), lhs, rhs);
  for (size_t i = 0; i < l.size(); ++i)
    if (lhs.dim(l[i]) != rhs.dim(r[i]))
      fail(op,
           fmt::format("{} dimension {} of lhs has size {}, {} of rhs has {}", what, l[i], lhs.dim(l[i]),
                       r[i], rhs.dim(r[i])),
           lhs, rhs);
}

std::vector<int64_t> dot_result(std::string_view op, const Value& lhs, const Value& rhs, const DotDims& d) {
  const auto all = [](const auto& a, const auto& b) {
    std::vector<int64_t> out = a;
    out.insert(out.end(), b.begin(), b.end());
    return out;
  };
  const auto lhs_used = all(d.lhs_batch, d.lhs_contract), rhs_used = all(d.rhs_batch, d.rhs_contract);
  check_dims(op, "batch and contracting dimensions of lhs", lhs_used, lhs.rank());
  check_dims(op, "batch and contracting dimensions of rhs", rhs_used, rhs.rank());
  check_pairs(op, "batch", lhs, rhs, d.lhs_batch, d.rhs_batch);
  check_pairs(op, "contracting", lhs, rhs, d.lhs_contract, d.rhs_contract);
  std::vector<int64_t> out;
  for (const int64_t i : d.lhs_batch) out.push_back(lhs.dim(i));
  for (int64_t i = 0; i < lhs.rank(); ++i)
    if (!contains(lhs_used, i)) out.push_back(lhs.dim(i));
  for (int64_t i = 0; i < rhs.rank(); ++i)
    if (!contains(rhs_used, i)) out.push_back(rhs.dim(i));
  return out;
}

void check_square(std::string_view op, const Value& a) {
  if ((!is_float(a.dtype()) && !is_complex(a.dtype())) || a.rank() < 2 ||
      a.dim(a.rank() - 1) != a.dim(a.rank() - 2))
    fail(op, "takes square matrices [..., n, n] of floats or complex numbers", a);
}

}  // namespace

std::string precision_text(Precision lhs, Precision rhs) {
  static constexpr std::array<std::string_view, 3> names = {"DEFAULT", "HIGH", "HIGHEST"};
  return fmt::format("[#stablehlo<precision {}>, #stablehlo<precision {}>]",
                     names.at(static_cast<size_t>(lhs)), names.at(static_cast<size_t>(rhs)));
}

void check_product_types(std::string_view op, const Value& lhs, const Value& rhs, DType result) {
  const auto kind = [](DType t) { return is_complex(t) ? 2 : is_float(t) ? 1 : t == DType::token ? 3 : 0; };
  // Two kinds of 8-bit floats may meet; other operands are of one type.
  const bool narrow =
      is_float(lhs.dtype()) && is_float(rhs.dtype()) && bits(lhs.dtype()) == 8 && bits(rhs.dtype()) == 8;
  if (lhs.dtype() != rhs.dtype() && !narrow) fail(op, "operands must have the same element type", lhs, rhs);
  if (kind(lhs.dtype()) == 3) fail(op, "takes no token", lhs, rhs);
  if (kind(result) != kind(lhs.dtype()) || bit_width(result) < bit_width(lhs.dtype()))
    fail(op, fmt::format("its result cannot be {}", name(result)), lhs, rhs);
}

Value dot_general(Value lhs, Value rhs, const DotDims& dims, const DotOptions& options) {
  static constexpr std::string_view op = "stablehlo.dot_general";
  const DType result = options.result.value_or(lhs.dtype());
  check_product_types(op, lhs, rhs, result);
  const auto result_dims = dot_result(op, lhs, rhs, dims);
  std::string algorithm;
  if (options.algorithm) algorithm = algorithm_text(op, *options.algorithm);
  Op writer(op, {lhs, rhs});
  writer.attr("dot_dimension_numbers", dot_text(dims));
  if (options.lhs_precision != Precision::default_ || options.rhs_precision != Precision::default_)
    writer.attr("precision_config", precision_text(options.lhs_precision, options.rhs_precision));
  if (!algorithm.empty()) writer.attr("algorithm", algorithm);
  return writer.result(result, result_dims);
}

Value cholesky(Value a, bool lower) {
  static constexpr std::string_view op = "stablehlo.cholesky";
  check_square(op, a);
  return Op(op, {a}).flag("lower", lower).result(a.type());
}

Value triangular_solve(Value a, Value b, const TriangularSolve& o) {
  static constexpr std::string_view op = "stablehlo.triangular_solve";
  static constexpr std::array<std::string_view, 3> names = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  check_square(op, a);
  check_same_dtype(op, a, b);
  if (a.rank() != b.rank()) fail(op, "operands must have the same rank", a, b);
  for (int64_t i = 0; i < a.rank() - 2; ++i)
    if (a.dim(i) != b.dim(i)) fail(op, fmt::format("operands differ in batch dimension {}", i), a, b);
  if (b.dim(b.rank() - (o.left_side ? 2 : 1)) != a.dim(a.rank() - 1))
    fail(op, fmt::format("b must have {} {}", a.dim(a.rank() - 1), o.left_side ? "rows" : "columns"), a, b);
  std::string transpose = "#stablehlo<transpose ";
  transpose.append(names.at(static_cast<size_t>(o.transpose_a))) += '>';
  return Op(op, {a, b})
      .flag("left_side", o.left_side)
      .flag("lower", o.lower)
      .flag("unit_diagonal", o.unit_diagonal)
      .attr("transpose_a", transpose)
      .result(b.type());
}

Value fft(Value x, FftType type, List<int64_t> length) {
  static constexpr std::string_view op = "stablehlo.fft";
  static constexpr std::array<std::string_view, 4> names = {"FFT", "IFFT", "RFFT", "IRFFT"};
  const auto n = static_cast<int64_t>(length.size());
  if (n < 1 || n > 3 || n > x.rank())
    fail(op, fmt::format("transforms 1 to 3 last dimensions, not {}", n), x);
  check_at_least(op, "fft_length", length, 1);
  const bool from_real = type == FftType::rfft, to_real = type == FftType::irfft;
  if (from_real ? x.dtype() != DType::f32 && x.dtype() != DType::f64 : !is_complex(x.dtype()))
    fail(op, from_real ? "rfft takes f32 or f64" : "takes complex numbers", x);
  std::vector<int64_t> dims = x.dims();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t want = length[static_cast<size_t>(i)], have = x.dim(x.rank() - n + i);
    const bool last = i == n - 1;
    if (have != (last && to_real ? want / 2 + 1 : want))
      fail(op, fmt::format("length {} does not fit dimension {} of size {}", want, x.rank() - n + i, have),
           x);
    if (last && from_real) dims.back() = want / 2 + 1;
    if (last && to_real) dims.back() = want;
  }
  DType dtype = to_real ? real_dtype(x.dtype()) : x.dtype();
  if (from_real) dtype = x.dtype() == DType::f32 ? DType::c64 : DType::c128;
  std::string text = "#stablehlo<fft_type ";
  text.append(names.at(static_cast<size_t>(type))) += '>';
  return Op(op, {x}).attr("fft_type", text).list("fft_length", length).result(dtype, dims);
}

}  // namespace tpubridge::hlo
