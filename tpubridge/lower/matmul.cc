// Matrix products.
#include "tpubridge/hlo/chlo.h"
#include "tpubridge/hlo/definition.h"
#include "tpubridge/hlo/linalg.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/padded.h"
#include "tpubridge/lower/precision.h"
#include "tpubridge/lower/quantized.h"

namespace tpubridge::lower {
namespace {

// Reads what was transposed in its own order instead: a product can contract any dimension, and for one row
// XLA would write the transposed matrix out. At most one dimension of v is neither contracted nor a batch.
Value without_transposition(Value v, Dims& contract, Dims& batch) {
  const hlo::Definition* how = hlo::definition_of(v);
  if (!hlo::made_by(how, "transpose")) return v;
  for (Dims* dims : {&contract, &batch})
    for (int64_t& d : *dims) d = how->numbers[static_cast<size_t>(d)];
  return how->operands[0];
}

bool is_narrow(DType t) { return t == DType::bf16 || t == DType::f16; }

// XLA's CPU compiler puts a row times a matrix and the addition after it (of a bias, say) into one kernel for
// one thread, where the product alone runs on all: decoding took 2.85 ms a token, and 2.3 since the product
// is taken with the other sign and subtracted from zero, which changes no bit of it.
bool one_row(const Context& c, Value a, const hlo::DotDims& dims) {
  return c.platform == Platform::cpu && is_float(a.dtype()) && a.rank() == 2 && dims.lhs_batch.empty() &&
         a.dim(1 - dims.lhs_contract[0]) == 1;
}

// Narrow floats are summed in f32, and come as f32 where `sums` is asked for; integers wrap around, as
// torch's do. On CUDA the product rounds its sums itself: cuBLAS then needs no pass over an f32 result, and
// XLA need not take a slower kernel that can round.
Value product_of(const Context& c, Value a, Value b, hlo::DotDims dims, bool sums = false) {
  a = without_transposition(a, dims.lhs_contract, dims.lhs_batch);
  b = without_transposition(b, dims.rhs_contract, dims.rhs_batch);
  hlo::DotOptions options;
  options.lhs_precision = options.rhs_precision = precision_of(c, a.dtype());
  if (is_narrow(a.dtype()) && (sums || c.platform != Platform::cuda)) options.result = DType::f32;
  if (one_row(c, a, dims)) {
    const Value y = hlo::dot_general(hlo::negate(a), b, dims, options);
    return hlo::subtract(like(y, 0), y);  // negated, a sum of zero would become −0
  }
  return hlo::dot_general(a, b, dims, options);
}

// Tensor cores load rows of whole 16 bytes: a product with a size like GPT-2's 50,257 words took twice as
// long as one with zeros added (H200, 2026-11-15).
int64_t aligned(int64_t size) {
  if (size % 8 == 0 || size < 64) return size;
  const int64_t step = size < 1024 ? 8 : 64;
  return (size + step - 1) / step * step;
}
Value padded(Value v) { return with_zeros(v, {aligned(v.dim(0)), aligned(v.dim(1))}); }

// With a weight whose groups lie apart: their dimensions stay two, so that XLA makes the weight's numbers
// inside of the product. Over one matrix it would write them all out first (v6e, 64×8192·8192², int4: 253 µs
// instead of 25).
Value product_with_groups(const Context& c, Value a, const QuantizedWeight& w, bool sums) {
  const Value groups = numbers_of(w);  // [groups, out, in a group]
  hlo::DotOptions options;
  options.lhs_precision = options.rhs_precision = precision_of(c, a.dtype());
  if (is_narrow(a.dtype()) && (sums || c.platform != Platform::cuda)) options.result = DType::f32;
  const int64_t rows = a.dim(0), count = groups.dim(0), size = groups.dim(2);
  if (w.turned)
    return hlo::dot_general(reshaped(a, {rows, count, size}), groups,
                            {.lhs_contract = {1, 2}, .rhs_contract = {0, 2}}, options);
  return reshaped(hlo::dot_general(a, groups, {.lhs_contract = {1}, .rhs_contract = {1}}, options),
                  {rows, count * size});
}

Value matrix_product(const Context& c, Value a, Value b, bool sums = false) {
  if (const auto w = quantized_weight(b); w && w->apart) return product_with_groups(c, a, *w, sums);
  const hlo::DotDims dims{.lhs_contract = {1}, .rhs_contract = {0}};
  if (c.platform != Platform::cuda || !is_narrow(a.dtype())) return product_of(c, a, b, dims, sums);
  const Value y = product_of(c, padded(a), padded(b), dims, sums);
  const Dims want{a.dim(0), b.dim(1)};
  return y.dims() == want ? y : hlo::slice(y, {0, 0}, want);
}
Value batched_product(const Context& c, Value a, Value b, bool sums = false) {
  return product_of(c, a, b, {.lhs_contract = {2}, .rhs_contract = {1}, .lhs_batch = {0}, .rhs_batch = {0}},
                    sums);
}

void mm(Context& c) { c.result(matrix_product(c, c.in(0), c.in(1))); }
void bmm(Context& c) { c.result(batched_product(c, c.in(0), c.in(1))); }
void mv(Context& c) { c.result(product_of(c, c.in(0), c.in(1), {.lhs_contract = {1}, .rhs_contract = {0}})); }
void dot(Context& c) {
  c.result(product_of(c, c.in(0), c.in(1), {.lhs_contract = {0}, .rhs_contract = {0}}));
}

// beta · self + alpha · product; where beta is 0, self is not looked at (it may hold NaN).
void plus_scaled(Context& c, Value product) {
  const DType t = opmath_of(product.dtype());
  Value y = to(product, t);
  auto scaled = [&](Value v, size_t arg) {
    return !c.is_tensor(arg) && c.number(arg) == 1 ? v : hlo::multiply(v, expand(c.in(arg, t), v.dims()));
  };
  y = scaled(y, 4);
  if (c.is_tensor(3) || c.number(3) != 0) y = hlo::add(scaled(expand(c.in(0, t), c.out().dims), 3), y);
  c.result(y);
}
void addmm(Context& c) { plus_scaled(c, matrix_product(c, c.in(1), c.in(2), true)); }
void baddbmm(Context& c) { plus_scaled(c, batched_product(c, c.in(1), c.in(2), true)); }
void addmv(Context& c) {
  plus_scaled(c, product_of(c, c.in(1), c.in(2), {.lhs_contract = {1}, .rhs_contract = {0}}, true));
}

void vdot(Context& c) {
  const Value a = c.in(0);
  c.result(product_of(c, is_complex(a.dtype()) ? hlo::conj(a) : a, c.in(1),
                      {.lhs_contract = {0}, .rhs_contract = {0}}));
}
// Summed over the batch.
void addbmm(Context& c) {
  plus_scaled(c, product_of(c, c.in(1), c.in(2), {.lhs_contract = {0, 2}, .rhs_contract = {0, 1}}, true));
}
std::vector<Shape> addbmm_shape(const Call& c) {
  const Dims &x = c.dims(0), &a = c.dims(1), &b = c.dims(2);
  const DType t = c.shape(0).dtype;
  if (a.size() != 3 || b.size() != 3 || a[0] != b[0] || a[2] != b[1] || !is_float(t)) return {};
  if (c.shape(1).dtype != t || c.shape(2).dtype != t) return {};
  const Dims out{a[1], b[2]};
  if (broadcast({&x, &out}) != out) return {};
  return {Shape{t, out}};
}

// self, other, dim: of three, each of the next times the other's after next, less the other way round.
void cross(Context& c) {
  const DType t = c.opmath();
  const Value a = expand(c.in(0, t), c.out().dims), b = expand(c.in(1, t), c.out().dims);
  const int64_t axis = wrapped({c.integer(2)}, a.rank())[0];
  auto turned = [&](Value v, int64_t by) {
    Dims zero(static_cast<size_t>(v.rank()), 0), low = zero, high = v.dims();
    low[static_cast<size_t>(axis)] = high[static_cast<size_t>(axis)] = by;
    return hlo::concatenate({hlo::slice(v, low, v.dims()), hlo::slice(v, zero, high)}, axis);
  };
  c.result(hlo::subtract(mul(turned(a, 1), turned(b, 2)), mul(turned(a, 2), turned(b, 1))));
}

}  // namespace

std::span<const Row> matmul_rows() {
  static const Row rows[] = {
      {{"mm"}, mm, precise},
      {{"bmm"}, bmm, precise},
      {{"mv"},
       mv,
       composite | precise,
       [](const Call& c) -> std::vector<Shape> {
         if (c.dims(0).size() != 2 || c.dims(1).size() != 1 || c.dims(0)[1] != c.dims(1)[0]) return {};
         return {Shape{c.shape(0).dtype, {c.dims(0)[0]}}};
       }},
      {{"dot"},
       dot,
       precise,
       [](const Call& c) -> std::vector<Shape> {
         if (c.dims(0).size() != 1 || c.dims(0) != c.dims(1) || c.shape(0).dtype != c.shape(1).dtype)
           return {};
         return {Shape{c.shape(0).dtype, {}}};
       }},
      {{"vdot"},
       vdot,
       precise,
       [](const Call& c) -> std::vector<Shape> {
         if (c.dims(0).size() != 1 || c.dims(0) != c.dims(1) || c.shape(0).dtype != c.shape(1).dtype)
           return {};
         return {Shape{c.shape(0).dtype, {}}};
       }},
      {{"linalg_cross"}, cross, promote},
      {{"addbmm"}, addbmm, precise, addbmm_shape},
      {{"addmm"}, addmm, precise},
      {{"baddbmm"}, baddbmm, precise},
      {{"addmv"}, addmv, precise},
  };
  return rows;
}

}  // namespace tpubridge::lower
