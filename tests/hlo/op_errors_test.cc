// Errors of the ops that have many attributes or regions, and of programs as a whole.
#include <gtest/gtest.h>

#include "tests/hlo/errors.h"
#include "tpubridge/hlo/hlo.h"

namespace tpubridge::hlo {
namespace {

using In = std::span<const Value>;
const Body kKeep = [](In a) -> Values { return {a[0]}; };

class OpErrors : public testing::Test {
 protected:
  Value f32(std::vector<int64_t> dims) { return b.parameter({DType::f32, std::move(dims)}); }
  Value of(DType t, std::vector<int64_t> dims = {}) { return b.parameter({t, std::move(dims)}); }
  Builder b{{.name = "m", .replicas = 4, .partitions = 2, .meshes = {{"mesh", {{"x", 2}, {"y", 4}}}}}};
  Value m = f32({2, 3}), n = f32({3, 2}), v = f32({3}), s = f32({}), i = of(DType::s32), p = of(DType::pred);
};

TEST_F(OpErrors, Reductions) {
  expect_error([&] { (void)reduce(m, i, {0}, Reducer::add); },
               {"stablehlo.reduce", "init=s32[]", "f32[2,3]"});
  expect_error([&] { (void)reduce(m, v, {0}, Reducer::add); }, {"stablehlo.reduce", "init=f32[3]"});
  expect_error([&] { (void)reduce(m, s, {2}, Reducer::add); }, {"stablehlo.reduce", "[2] holds 2"});
  expect_error([&] { (void)reduce(m, s, {0, 0}, Reducer::add); }, {"stablehlo.reduce", "twice"});
  expect_error([&] { (void)reduce(m, s, {0}, Reducer::or_); }, {"stablehlo.reduce", "'or'", "f32"});
  expect_error([&] { (void)reduce({}, {}, {0}, kKeep); }, {"stablehlo.reduce", "at least one"});
  expect_error(
      [&] {
        (void)reduce({m, n}, {s, s}, {0}, kKeep);
      },
      {"stablehlo.reduce", "f32[2,3]", "f32[3,2]"});
  expect_error(
      [&] {
        (void)reduce({m, m}, {s}, {0}, kKeep);
      },
      {"stablehlo.reduce", "1 entries, 2 are needed"});
  expect_error(
      [&] {
        (void)reduce({m, m}, {s, s}, {0}, kKeep);
      },
      {"stablehlo.reduce", "gives 1 values, 2 are needed"});
  expect_error(
      [&] {
        (void)reduce({m}, {s}, {0}, [](In a) -> Values { return {compare(a[0], a[1], Direction::lt)}; });
      },
      {"stablehlo.reduce", "given=pred[]", "needed=f32[]"});
  expect_error([&] { (void)reduce({m}, {s}, {0}, [&](In a) -> Values { return {add(a[0], s)}; }); },
               {"stablehlo.add", "cannot be seen from here"});
  expect_error([&] { (void)reduce_window(m, s, {.size = {2}}, Reducer::add); },
               {"stablehlo.reduce_window", "window_dimensions has 1"});
  expect_error(
      [&] {
        (void)reduce_window(m, s, {.size = {0, 1}}, Reducer::add);
      },
      {"stablehlo.reduce_window", "holds 0"});
  expect_error(
      [&] {
        (void)reduce_window(m, s, {.size = {1, 1}, .strides = {0, 1}}, Reducer::add);
      },
      {"stablehlo.reduce_window", "window_strides", "holds 0"});
  expect_error(
      [&] {
        (void)reduce_window(m, s, {.size = {1, 1}, .window_dilation = {1, -1}}, Reducer::add);
      },
      {"stablehlo.reduce_window", "window_dilations", "-1"});
  expect_error(
      [&] {
        (void)reduce_window(m, s, {.size = {1, 1}, .padding = {{0, 0}}}, Reducer::add);
      },
      {"stablehlo.reduce_window", "padding has 1"});
  expect_error(
      [&] {
        (void)reduce_window(m, s, {.size = {1, 1}, .padding = {{-3, 0}, {0, 0}}}, Reducer::add);
      },
      {"stablehlo.reduce_window", "-3"});
  const Body ge = [](In a) -> Values { return {compare(a[0], a[1], Direction::ge)}; };
  expect_error(
      [&] {
        (void)select_and_scatter(m, n, s, {.size = {1, 1}}, ge, kKeep);
      },
      {"stablehlo.select_and_scatter", "f32[2,3]", "f32[3,2]", "[2,3]"});
  expect_error(
      [&] {
        (void)select_and_scatter(m, m, s, {.size = {1, 1}}, kKeep, kKeep);
      },
      {"stablehlo.select_and_scatter", "selector", "given=f32[]", "needed=pred[]"});
  expect_error(
      [&] {
        (void)select_and_scatter(m, m, s, {.size = {1, 1}, .base_dilation = {1, 1}}, ge, kKeep);
      },
      {"stablehlo.select_and_scatter", "no dilations"});
}

TEST_F(OpErrors, Products) {
  expect_error(
      [&] {
        (void)dot_general(m, m, {{1}, {0}});
      },
      {"stablehlo.dot_general", "size 3", "has 2", "f32[2,3]"});
  expect_error(
      [&] {
        (void)dot_general(m, of(DType::s32, {3, 2}), {{1}, {0}});
      },
      {"stablehlo.dot_general", "f32[2,3]", "s32[3,2]"});
  expect_error(
      [&] {
        (void)dot_general(m, n, {{1}, {}});
      },
      {"stablehlo.dot_general", "1 contracting", "rhs 0"});
  expect_error([&] { (void)dot_general(m, n, {{2}, {0}}); }, {"stablehlo.dot_general", "of lhs", "holds 2"});
  expect_error([&] { (void)dot_general(m, m, {{1}, {1}, {1}, {0}}); }, {"stablehlo.dot_general", "twice"});
  expect_error(
      [&] {
        (void)dot_general(m, n, {{}, {}, {0}, {0}});
      },
      {"stablehlo.dot_general", "batch dimension 0"});
  expect_error(
      [&] {
        (void)dot_general(m, n, {{1}, {0}}, {.result = DType::s32});
      },
      {"stablehlo.dot_general", "cannot be s32"});
  expect_error(
      [&] {
        (void)dot_general(m, n, {{1}, {0}}, {.result = DType::bf16});
      },
      {"stablehlo.dot_general", "cannot be bf16"});
  expect_error(
      [&] {
        (void)dot_general(m, n, {{1}, {0}}, {.algorithm = DotAlgorithm{"f33", "f32", "f32"}});
      },
      {"stablehlo.dot_general", "'f33'"});
  expect_error([&] { (void)cholesky(m, true); }, {"stablehlo.cholesky", "square", "f32[2,3]"});
  expect_error([&] { (void)cholesky(of(DType::s32, {2, 2}), true); }, {"stablehlo.cholesky", "s32[2,2]"});
  const Value square = f32({3, 3});
  expect_error([&] { (void)triangular_solve(square, m, {}); },
               {"stablehlo.triangular_solve", "3 rows", "f32[3,3]", "f32[2,3]"});
  expect_error([&] { (void)triangular_solve(square, n, {.left_side = false}); },
               {"stablehlo.triangular_solve", "3 columns"});
  expect_error([&] { (void)triangular_solve(square, v, {}); }, {"stablehlo.triangular_solve", "rank"});
  expect_error(
      [&] {
        (void)triangular_solve(f32({2, 3, 3}), f32({4, 3, 1}), {});
      },
      {"stablehlo.triangular_solve", "batch dimension 0"});
  expect_error([&] { (void)fft(m, FftType::fft, {3}); }, {"stablehlo.fft", "complex", "f32[2,3]"});
  expect_error([&] { (void)fft(m, FftType::rfft, {4}); }, {"stablehlo.fft", "length 4", "f32[2,3]"});
  expect_error([&] { (void)fft(of(DType::c64, {3}), FftType::irfft, {8}); },
               {"stablehlo.fft", "length 8", "c64[3]"});
  expect_error([&] { (void)fft(m, FftType::rfft, {}); }, {"stablehlo.fft", "1 to 3"});
  expect_error([&] { (void)fft(v, FftType::rfft, {3, 3}); }, {"stablehlo.fft", "not 2"});
}

TEST_F(OpErrors, Convolution) {
  const Value x = f32({2, 4, 5, 5}), k = f32({6, 4, 3, 3});
  expect_error(
      [&] {
        (void)convolution(x, f32({6, 3, 3, 3}), conv_dims(2));
      },
      {"stablehlo.convolution", "4 input features", "f32[2,4,5,5]", "f32[6,3,3,3]"});
  expect_error([&] { (void)convolution(x, v, conv_dims(2)); }, {"stablehlo.convolution", "rank", "f32[3]"});
  expect_error([&] { (void)convolution(x, k, conv_dims(1)); },
               {"stablehlo.convolution", "spatial dimensions of the input"});
  expect_error([&] { (void)convolution(x, k, conv_dims(2), {.strides = {1}}); },
               {"stablehlo.convolution", "window_strides has 1"});
  expect_error(
      [&] {
        (void)convolution(x, k, conv_dims(2), {.strides = {1, 0}});
      },
      {"stablehlo.convolution", "holds 0"});
  expect_error(
      [&] {
        (void)convolution(x, k, conv_dims(2), {.padding = {{0, 0}}});
      },
      {"stablehlo.convolution", "padding has 1"});
  expect_error(
      [&] {
        (void)convolution(x, k, conv_dims(2), {.padding = {{-9, 0}, {0, 0}}});
      },
      {"stablehlo.convolution", "-9"});
  expect_error([&] { (void)convolution(x, k, conv_dims(2), {.reversal = {true}}); },
               {"stablehlo.convolution", "window_reversal has 1"});
  expect_error([&] { (void)convolution(x, k, conv_dims(2), {.feature_groups = 0}); },
               {"stablehlo.convolution", "0 feature"});
  expect_error([&] { (void)convolution(x, k, conv_dims(2), {.feature_groups = 3}); },
               {"stablehlo.convolution", "in 3 groups"});
  expect_error(
      [&] {
        (void)convolution(x, f32({5, 2, 3, 3}), conv_dims(2), {.feature_groups = 2});
      },
      {"stablehlo.convolution", "5 output features"});
  expect_error(
      [&] {
        (void)convolution(f32({3, 4, 5, 5}), k, conv_dims(2), {.batch_groups = 2});
      },
      {"stablehlo.convolution", "batch of 3"});
  ConvDims twice = conv_dims(2);
  twice.output_feature = 0;
  expect_error([&] { (void)convolution(x, k, twice); }, {"stablehlo.convolution", "output", "twice"});
  expect_error(
      [&] {
        (void)convolution(x, of(DType::bf16, {6, 4, 3, 3}), conv_dims(2));
      },
      {"stablehlo.convolution", "bf16[6,4,3,3]"});
}

TEST_F(OpErrors, Indexing) {
  const Value ids = of(DType::s32, {4, 1});
  const GatherDims rows{{1}, {0}, {0}, 1};
  const ScatterDims into{{1}, {0}, {0}, 1};
  expect_error(
      [&] {
        (void)gather(m, s, rows, {1, 3});
      },
      {"stablehlo.gather", "integers", "f32[2,3]", "f32[]"});
  expect_error(
      [&] {
        (void)gather(m, ids, rows, {1, 4});
      },
      {"stablehlo.gather", "size 4", "dimension 1", "f32[2,3]", "s32[4,1]"});
  expect_error([&] { (void)gather(m, ids, rows, {2, 3}); }, {"stablehlo.gather", "size 2", "dimension 0"});
  expect_error([&] { (void)gather(m, ids, rows, {1}); }, {"stablehlo.gather", "slice_sizes has 1"});
  expect_error(
      [&] {
        (void)gather(m, ids, {{1}, {0}, {0, 1}, 1}, {1, 3});
      },
      {"stablehlo.gather", "1 entries", "[0,1]"});
  expect_error(
      [&] {
        (void)gather(m, ids, {{1}, {0}, {0}, 3}, {1, 3});
      },
      {"stablehlo.gather", "index_vector_dim 3"});
  expect_error(
      [&] {
        (void)gather(m, ids, {{5}, {0}, {0}, 1}, {1, 3});
      },
      {"stablehlo.gather", "slice dimensions", "5"});
  expect_error([&] { (void)gather(m, ids, {{0, 1}, {0}, {0}, 1}, {1, 3}); }, {"stablehlo.gather", "rank"});
  expect_error([&] { (void)gather(m, ids, {{1}, {7}, {0}, 1}, {1, 3}); }, {"stablehlo.gather", "holds 7"});
  expect_error(
      [&] {
        (void)gather(m, ids, {{}, {1}, {1}, 1, {0}, {0}}, {1, 1});
      },
      {"stablehlo.gather", "differ in size"});
  expect_error(
      [&] {
        (void)gather(m, of(DType::s32, {2, 1}), {{}, {1}, {1}, 1, {0}, {1}}, {1, 1});
      },
      {"stablehlo.gather", "index_vector_dim"});
  expect_error(
      [&] {
        (void)scatter(m, ids, f32({4, 4}), into, Reducer::add);
      },
      {"stablehlo.scatter", "larger", "f32[2,3]", "f32[4,4]"});
  expect_error(
      [&] {
        (void)scatter(m, ids, f32({5, 3}), into, Reducer::add);
      },
      {"stablehlo.scatter", "[4,3]", "updates=f32[5,3]"});
  expect_error([&] { (void)scatter(m, ids, v, into, Reducer::add); }, {"stablehlo.scatter", "f32[3]"});
  expect_error(
      [&] {
        (void)scatter(m, ids, of(DType::s32, {4, 3}), into, Reducer::add);
      },
      {"stablehlo.scatter", "s32[4,3]"});
  expect_error(
      [&] {
        (void)scatter({m}, ids, {f32({4, 3})}, into, [](In) -> Values { return {}; });
      },
      {"stablehlo.scatter", "0 values"});
  expect_error([&] { (void)scatter({}, ids, {}, into, kKeep); }, {"stablehlo.scatter", "at least one"});
  expect_error(
      [&] {
        (void)scatter(m, ids, f32({4, 3}), into, Reducer::xor_);
      },
      {"stablehlo.scatter", "'xor'"});
  const Body less = [](In a) -> Values { return {compare(a[0], a[1], Direction::lt)}; };
  expect_error([&] { (void)sort({}, 0, false, less); }, {"stablehlo.sort", "at least one"});
  expect_error([&] { (void)sort({m, n}, 0, false, less); }, {"stablehlo.sort", "f32[2,3]", "f32[3,2]"});
  expect_error([&] { (void)sort({m}, -1, false, less); }, {"stablehlo.sort", "dimension -1"});
  expect_error([&] { (void)sort({m}, 0, false, kKeep); },
               {"stablehlo.sort", "comparator", "given=f32[]", "needed=pred[]"});
}

TEST_F(OpErrors, Collectives) {
  expect_error(
      [&] {
        (void)all_reduce(m, Reducer::add, {.groups = {{0, 1}, {1, 2, 3}}});
      },
      {"stablehlo.all_reduce", "name 1 twice"});
  expect_error(
      [&] {
        (void)all_reduce(m, Reducer::add, {.groups = {{0, 1, 2, 4}}});
      },
      {"stablehlo.all_reduce", "names 4", "0 to 3"});
  expect_error(
      [&] {
        (void)all_reduce(m, Reducer::add, {.groups = {{0, 1}}});
      },
      {"stablehlo.all_reduce", "2 of 4"});
  expect_error([&] { (void)all_reduce(m, Reducer::add, {.groups = {{}}}); },
               {"stablehlo.all_reduce", "empty"});
  expect_error([&] { (void)all_reduce(m, Reducer::add, {.channel = -1}); }, {"stablehlo.all_reduce", "-1"});
  expect_error([&] { (void)all_reduce(m, Reducer::add, {.global_ids = true}); },
               {"stablehlo.all_reduce", "channel"});
  expect_error([&] { (void)all_reduce({m, i}, kKeep); }, {"stablehlo.all_reduce", "f32[2,3]", "s32[]"});
  expect_error([&] { (void)all_reduce({}, kKeep); }, {"stablehlo.all_reduce", "at least one"});
  expect_error([&] { (void)all_reduce(m, Reducer::and_); }, {"stablehlo.all_reduce", "'and'"});
  expect_error([&] { (void)all_gather(m, 2); }, {"stablehlo.all_gather", "all_gather_dim 2"});
  expect_error(
      [&] {
        (void)all_gather(m, 0, {.groups = {{0, 1, 2}, {3}}});
      },
      {"stablehlo.all_gather", "groups of 3 and 1"});
  expect_error([&] { (void)reduce_scatter(m, 1, Reducer::add); },
               {"stablehlo.reduce_scatter", "dimension 1", "4 parts", "f32[2,3]"});
  expect_error([&] { (void)all_to_all(m, 0, 1); },
               {"stablehlo.all_to_all", "dimension 0", "4 parts", "f32[2,3]"});
  expect_error([&] { (void)all_to_all(m, 0, 5); }, {"stablehlo.all_to_all", "concat_dimension 5"});
  expect_error([&] { (void)all_to_all(m, 0, 1, {.channel = 1, .global_ids = true}); },
               {"stablehlo.all_to_all", "global"});
  expect_error(
      [&] {
        (void)collective_broadcast(m, {.groups = {{0, 9, 1, 2}}});
      },
      {"stablehlo.collective_broadcast", "names 9"});
  expect_error(
      [&] {
        (void)collective_permute(m, {{0, 4}});
      },
      {"stablehlo.collective_permute", "0 to 4", "0 to 3"});
  expect_error([&] { (void)collective_permute(m, {{0, 2}}, 1); }, {"stablehlo.collective_permute", "0 to 1"});
  expect_error(
      [&] {
        (void)collective_permute(m, {{0, 1}, {0, 2}});
      },
      {"stablehlo.collective_permute", "once"});
}

}  // namespace
}  // namespace tpubridge::hlo
