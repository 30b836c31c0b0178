#include "tests/hlo/cases.h"

namespace tpubridge::hlo {
namespace {

Case product(std::string name, DotDims dims, DotOptions options = {}) {
  return {std::move(name),
          [=](Builder&, In in) -> Values { return {dot_general(in[0], in[1], dims, options)}; }};
}
Case solve(std::string name, TriangularSolve options) {
  return {std::move(name),
          [=](Builder&, In in) -> Values { return {triangular_solve(in[0], in[1], options)}; }};
}
Case transformed(std::string name, FftType type, std::vector<int64_t> length) {
  return {std::move(name), [=](Builder&, In in) -> Values { return {fft(in[0], type, length)}; }};
}
Case convolved(std::string name, ConvDims dims, ConvOptions options = {}) {
  return {std::move(name),
          [=](Builder&, In in) -> Values { return {convolution(in[0], in[1], dims, options)}; }};
}

// Images [b, y, x, f], kernels [y, x, i, o].
ConvDims channels_last() {
  return {.input_batch = 0,
          .input_feature = 3,
          .input_spatial = {1, 2},
          .kernel_output = 3,
          .kernel_input = 2,
          .kernel_spatial = {0, 1},
          .output_batch = 0,
          .output_feature = 3,
          .output_spatial = {1, 2}};
}

}  // namespace

Family linalg_cases() {
  const DotOptions exact{.lhs_precision = Precision::highest, .rhs_precision = Precision::highest};
  const DotAlgorithm bf16{.lhs_type = "bf16", .rhs_type = "bf16", .accumulation_type = "f32"};
  return {"linalg",
          {product("dot_general", {{1}, {0}}, exact),
           product("dot_general.batch", {{2}, {1}, {0}, {2}}, exact),
           product("dot_general.inner", {{0}, {0}}, {.lhs_precision = Precision::high}),
           product("dot_general.outer", {{}, {}}, exact),
           product("dot_general.s8", {{1}, {0}}, {.result = DType::s32}),
           product("dot_general.algorithm.bf16", {{1}, {0}}, {.algorithm = bf16}),
           {"dot_general.bf16",
            [](Builder&, In in) -> Values {
              return {dot_general(convert(in[0], DType::bf16), convert(in[1], DType::bf16), {{1}, {0}},
                                  {.result = DType::f32})};
            }},
           {"cholesky.lower",
            [](Builder&, In in) -> Values {
              const Value l = cholesky(in[0], true);  // the other triangle may hold anything
              const Value keep = compare(iota(l.builder(), {DType::s32, l.dims()}, 1),
                                         iota(l.builder(), {DType::s32, l.dims()}, 2), Direction::ge);
              return {select(keep, l, constant_like(l, 0))};
            }},
           {"cholesky.upper",
            [](Builder&, In in) -> Values {
              const Value u = cholesky(in[0], false);
              const Value keep = compare(iota(u.builder(), {DType::s32, u.dims()}, 1),
                                         iota(u.builder(), {DType::s32, u.dims()}, 2), Direction::le);
              return {select(keep, u, constant_like(u, 0))};
            }},
           solve("triangular_solve", {}),
           solve("triangular_solve.right", {.left_side = false, .lower = false}),
           solve("triangular_solve.transpose", {.transpose_a = TransposeA::transpose}),
           solve("triangular_solve.unit", {.unit_diagonal = true})}};
}

Family algorithm_cases() {
  const DotAlgorithm f32{.lhs_type = "f32", .rhs_type = "f32", .accumulation_type = "f32"};
  return {"algorithm", {product("dot_general.algorithm", {{1}, {0}}, {.algorithm = f32})}, false};
}

Family complex_linalg_cases() {
  return {"complex_linalg",
          {transformed("fft", FftType::fft, {4}), transformed("ifft", FftType::ifft, {2, 4}),
           transformed("rfft", FftType::rfft, {6}), transformed("irfft", FftType::irfft, {6}),
           product("dot_general.c64", {{1}, {0}}),
           solve("triangular_solve.adjoint", {.transpose_a = TransposeA::adjoint})}};
}

Family convolution_cases() {
  return {"convolution",
          {convolved("convolution", conv_dims(2), {.strides = {2, 1}, .padding = {{1, 1}, {0, 2}}}),
           convolved("convolution.one", conv_dims(1), {.rhs_dilation = {2}}),
           convolved("convolution.three", conv_dims(3)),
           convolved("convolution.transposed", conv_dims(2),
                     {.lhs_dilation = {2, 2}, .padding = {{1, 1}, {1, 1}}, .reversal = {true, true}}),
           convolved("convolution.groups", conv_dims(2), {.feature_groups = 2}),
           convolved("convolution.batch_groups", conv_dims(2), {.batch_groups = 2}),
           convolved("convolution.channels_last", channels_last(),
                     {.lhs_precision = Precision::highest, .rhs_precision = Precision::highest}),
           convolved("convolution.cut", conv_dims(1), {.padding = {{-1, 0}}}),
           {"convolution.bf16", [](Builder&, In in) -> Values {
              return {convolution(convert(in[0], DType::bf16), convert(in[1], DType::bf16), conv_dims(1),
                                  {.result = DType::f32})};
            }}}};
}

}  // namespace tpubridge::hlo
