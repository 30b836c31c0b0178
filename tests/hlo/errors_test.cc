// What is wrong throws ProgramError when the op is built, with the op's name and what was given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/hlo/errors.h"
#include "tpubridge/hlo/hlo.h"

namespace tpubridge::hlo {
namespace {

using In = std::span<const Value>;

class Errors : public testing::Test {
 protected:
  Value f32(std::vector<int64_t> dims) { return b.parameter({DType::f32, std::move(dims)}); }
  Value of(DType t, std::vector<int64_t> dims = {}) { return b.parameter({t, std::move(dims)}); }
  Builder b;
  Value m = f32({2, 3}), n = f32({3, 2}), v = f32({3}), s = f32({}), i = of(DType::s32), p = of(DType::pred);
};

TEST_F(Errors, Elementwise) {
  expect_error([&] { (void)add(m, n); }, {"stablehlo.add", "same shape", "f32[2,3]", "f32[3,2]"});
  expect_error(
      [&] {
        (void)multiply(m, of(DType::s32, {2, 3}));
      },
      {"stablehlo.multiply", "same element type", "f32[2,3]", "s32[2,3]"});
  expect_error([&] { (void)tanh(i); }, {"stablehlo.tanh", "takes no s32", "float, complex", "s32[]"});
  expect_error([&] { (void)and_(m, m); }, {"stablehlo.and", "takes no f32", "f32[2,3]"});
  expect_error([&] { (void)not_(s); }, {"stablehlo.not", "takes no f32"});
  expect_error([&] { (void)abs(of(DType::u8)); }, {"stablehlo.abs", "takes no u8"});
  expect_error([&] { (void)popcnt(p); }, {"stablehlo.popcnt", "takes no pred"});
  expect_error([&] { (void)floor(of(DType::c64)); }, {"stablehlo.floor", "takes no c64"});
  expect_error([&] { (void)subtract(p, p); }, {"stablehlo.subtract", "takes no pred", "pred[]"});
  expect_error([&] { (void)shift_left(s, s); }, {"stablehlo.shift_left", "takes no f32"});
  expect_error([&] { (void)complex(i, i); }, {"stablehlo.complex", "f32 and f64", "s32[]"});
  expect_error([&] { (void)complex(m, n); }, {"stablehlo.complex", "f32[2,3]", "f32[3,2]"});
  const Value c = of(DType::c64);
  expect_error([&] { (void)compare(c, c, Direction::lt); }, {"stablehlo.compare", "no order", "c64[]"});
  expect_error([&] { (void)compare(i, i, Direction::lt, Order::total); },
               {"stablehlo.compare", "total order"});
  expect_error([&] { (void)compare(m, n, Direction::eq); }, {"stablehlo.compare", "f32[2,3]", "f32[3,2]"});
  expect_error([&] { (void)select(s, m, m); }, {"stablehlo.select", "predicate", "pred=f32[]", "f32[2,3]"});
  expect_error([&] { (void)select(of(DType::pred, {3}), m, m); },
               {"stablehlo.select", "pred[3]", "f32[2,3]"});
  expect_error([&] { (void)select(p, m, n); }, {"stablehlo.select", "f32[2,3]", "f32[3,2]"});
  expect_error([&] { (void)clamp(i, m, s); }, {"stablehlo.clamp", "min=s32[]", "f32[2,3]"});
  expect_error([&] { (void)clamp(s, m, v); }, {"stablehlo.clamp", "max=f32[3]"});
  expect_error([&] { (void)convert(m, DType::token); }, {"stablehlo.convert", "token", "f32[2,3]"});
  expect_error([&] { (void)bitcast_convert(m, DType::f64); },
               {"stablehlo.bitcast_convert", "64", "f32[2,3]"});
  expect_error([&] { (void)bitcast_convert(m, DType::c64); }, {"stablehlo.bitcast_convert", "c64"});
  expect_error([&] { (void)reduce_precision(m, 0, 3); }, {"stablehlo.reduce_precision", "0 exponent"});
  expect_error([&] { (void)reduce_precision(m, 5, -1); }, {"stablehlo.reduce_precision", "-1 mantissa"});
  expect_error([&] { (void)reduce_precision(i, 5, 3); }, {"stablehlo.reduce_precision", "takes no s32"});
  expect_error([&] { (void)erf(i); }, {"chlo.erf", "bf16", "s32[]"});
  expect_error([&] { (void)conj(s); }, {"chlo.conj", "complex", "f32[]"});
  expect_error([&] { (void)is_inf(i); }, {"chlo.is_inf", "s32[]"});
  expect_error([&] { (void)asin(i); }, {"chlo.asin", "s32[]"});
  expect_error([&] { (void)next_after(m, n); }, {"chlo.next_after", "f32[2,3]", "f32[3,2]"});
  expect_error([&] { (void)zeta(i, i); }, {"chlo.zeta", "s32[]"});
  expect_error([&] { (void)top_k(m, 4); }, {"chlo.top_k", "k is 4", "f32[2,3]"});
  expect_error([&] { (void)top_k(s, 0); }, {"chlo.top_k", "scalar"});
  expect_error([&] { (void)top_k(p, 0); }, {"chlo.top_k", "pred[]"});
}

TEST_F(Errors, Constants) {
  expect_error([&] { (void)constant(b, DType::s8, 300); }, {"stablehlo.constant", "s8 cannot hold 300"});
  expect_error([&] { (void)constant(b, DType::s8, -129); }, {"stablehlo.constant", "s8 cannot hold -129"});
  expect_error([&] { (void)constant(b, DType::u8, -1); }, {"u8 cannot hold -1"});
  expect_error([&] { (void)constant(b, DType::s32, 0.5); }, {"s32 cannot hold 0.5"});
  expect_error([&] { (void)constant(b, DType::s64, 1e30); }, {"s64 cannot hold 1e+30"});
  expect_error([&] { (void)constant(b, DType::s64, UINT64_MAX); }, {"s64 cannot hold 18446744073709551615"});
  expect_error([&] { (void)constant(b, DType::s32, NAN); }, {"s32 cannot hold nan"});
  expect_error([&] { (void)constant(b, DType::pred, 2); }, {"pred cannot hold 2"});
  expect_error([&] { (void)constant(b, DType::pred, -1); }, {"stablehlo.constant", "pred cannot hold -1"});
  expect_error([&] { (void)constant(b, DType::f32, std::complex<double>(1, 2)); },
               {"f32 cannot hold (1, 2)"});
  expect_error([&] { (void)constant(b, DType::f8e4m3fn, INFINITY); }, {"f8e4m3fn cannot hold inf"});
  expect_error([&] { (void)constant(b, DType::f4e2m1fn, NAN); }, {"f4e2m1fn cannot hold nan"});
  expect_error([&] { (void)constant(b, DType::f8e8m0fnu, 0); }, {"f8e8m0fnu cannot hold 0"});
  expect_error([&] { (void)constant(b, DType::token, 0); }, {"stablehlo.constant", "token"});
  const std::vector<float> three = {1, 2, 3};
  expect_error(
      [&] {
        (void)dense<float>(b, {DType::f32, {2}}, three);
      },
      {"12 bytes given, 8 needed", "f32[2]"});
  expect_error(
      [&] {
        (void)dense(b, {DType::token, {}}, std::span<const std::byte>());
      },
      {"stablehlo.constant", "token"});
  expect_error([&] { (void)dense(b, DType::f32, {1}); }, {"stablehlo.constant", "f32"});
  expect_error([&] { (void)dense(b, DType::u8, {256}); }, {"u8 cannot hold 256"});
  expect_error([&] { (void)iota(b, {DType::pred, {2}}, 0); }, {"stablehlo.iota", "pred[2]"});
  expect_error([&] { (void)iota(b, {DType::s32, {2}}, 1); }, {"stablehlo.iota", "dimension 1", "rank 1"});
  expect_error([&] { (void)constant(b, {DType::f32, {-1}}, 0); }, {"tensor", "negative", "f32[-1]"});
  expect_error([&] { (void)constant(b, {DType::f32, {1LL << 40, 1LL << 40}}, 0); }, {"tensor", "counted"});
  expect_error([] { (void)lowest(DType::c64); }, {"c64 has no lowest"});
  expect_error([] { (void)identity(Reducer::maximum, DType::token); }, {"token"});
}

TEST_F(Errors, Shapes) {
  expect_error(
      [&] {
        (void)broadcast_in_dim(v, {2, 4}, {1});
      },
      {"stablehlo.broadcast_in_dim", "size 3", "f32[3]", "[2,4]"});
  expect_error([&] { (void)broadcast_in_dim(v, {3}, {1}); }, {"stablehlo.broadcast_in_dim", "holds 1"});
  expect_error(
      [&] {
        (void)broadcast_in_dim(m, {2, 3}, {1});
      },
      {"stablehlo.broadcast_in_dim", "1 entries, 2 are needed"});
  expect_error([&] { (void)broadcast_in_dim(m, {2, 3}, {1, 1}); }, {"stablehlo.broadcast_in_dim", "twice"});
  expect_error(
      [&] {
        (void)reshape(m, {4, 2});
      },
      {"stablehlo.reshape", "6 elements cannot become 8", "f32[2,3]", "f32[4,2]"});
  expect_error([&] { (void)transpose(m, {0}); }, {"stablehlo.transpose", "1 entries, 2 are needed"});
  expect_error([&] { (void)transpose(m, {0, 2}); }, {"stablehlo.transpose", "[0,2] holds 2", "rank 2"});
  expect_error([&] { (void)reverse(m, {0, 0}); }, {"stablehlo.reverse", "twice"});
  expect_error(
      [&] {
        (void)slice(m, {0, 0}, {2, 4});
      },
      {"stablehlo.slice", "0 to 4", "dimension 1", "f32[2,3]"});
  expect_error([&] { (void)slice(m, {1, 0}, {0, 3}); }, {"stablehlo.slice", "1 to 0"});
  expect_error([&] { (void)slice(m, {-1, 0}, {0, 3}); }, {"stablehlo.slice", "-1 to 0"});
  expect_error([&] { (void)slice(m, {0, 0}, {2, 3}, {1, 0}); }, {"stablehlo.slice", "stride", "0"});
  expect_error([&] { (void)slice(m, {0}, {2, 3}); }, {"stablehlo.slice", "start_indices has 1"});
  expect_error([&] { (void)concatenate({}, 0); }, {"stablehlo.concatenate", "at least one"});
  expect_error(
      [&] {
        (void)concatenate({m, n}, 0);
      },
      {"stablehlo.concatenate", "dimension 0 alone", "f32[2,3]", "f32[3,2]"});
  expect_error([&] { (void)concatenate({m, v}, 0); }, {"stablehlo.concatenate", "rank", "f32[3]"});
  expect_error(
      [&] {
        (void)concatenate({m, of(DType::s32, {2, 3})}, 0);
      },
      {"stablehlo.concatenate", "element type"});
  expect_error([&] { (void)concatenate({m, m}, 2); }, {"stablehlo.concatenate", "dimension 2"});
  expect_error([&] { (void)concatenate({s}, 0); }, {"stablehlo.concatenate", "dimension 0"});
  expect_error([&] { (void)pad(m, i, {0, 0}, {0, 0}); }, {"stablehlo.pad", "padding=s32[]", "f32[2,3]"});
  expect_error([&] { (void)pad(m, s, {0, -4}, {0, 0}); }, {"stablehlo.pad", "dimension 1 of size 3", "-4"});
  expect_error(
      [&] {
        (void)pad(m, s, {0, 0}, {0, 0}, {0, -1});
      },
      {"stablehlo.pad", "interior_padding", "-1"});
  expect_error([&] { (void)pad(m, s, {0}, {0, 0}); }, {"stablehlo.pad", "edge_padding_low has 1"});
  expect_error([&] { (void)pad(m, s, {INT64_MAX, 0}, {1, 0}); }, {"stablehlo.pad", "cannot be padded"});
  expect_error(
      [&] {
        (void)dynamic_slice(m, {i}, {1, 1});
      },
      {"stablehlo.dynamic_slice", "1 entries, 2 are needed"});
  expect_error(
      [&] {
        (void)dynamic_slice(m, {i, s}, {1, 1});
      },
      {"stablehlo.dynamic_slice", "integer scalar", "f32[]"});
  expect_error(
      [&] {
        (void)dynamic_slice(m, {i, of(DType::s64)}, {1, 1});
      },
      {"stablehlo.dynamic_slice", "s32[]", "s64[]"});
  expect_error(
      [&] {
        (void)dynamic_slice(m, {i, i}, {1, 4});
      },
      {"stablehlo.dynamic_slice", "size 4", "f32[2,3]"});
  expect_error(
      [&] {
        (void)dynamic_update_slice(m, n, {i, i});
      },
      {"stablehlo.dynamic_update_slice", "f32[2,3]", "f32[3,2]"});
  expect_error([&] { (void)dynamic_update_slice(m, v, {i, i}); }, {"stablehlo.dynamic_update_slice", "rank"});
  expect_error(
      [&] {
        (void)dynamic_update_slice(m, of(DType::s32, {1, 1}), {i, i});
      },
      {"stablehlo.dynamic_update_slice", "element type"});
}

TEST_F(Errors, Sugar) {
  expect_error([&] { (void)(m + n); }, {"broadcast", "[2,3]", "[3,2]"});
  expect_error([&] { (void)broadcast_to(m, {3}); }, {"broadcast_to", "f32[2,3]", "[3]"});
  expect_error([&] { (void)expand_dims(m, {3}); }, {"expand_dims", "holds 3", "rank 3"});
  expect_error([&] { (void)drop_dims(m, {1}); }, {"drop_dims", "size 1", "f32[2,3]"});
  expect_error([&] { (void)slice_dim(m, 2, 0, 1); }, {"slice_dim", "dim 2"});
  expect_error([&] { (void)matmul(m, v); }, {"matmul", "f32[2,3]", "f32[3]"});
  expect_error([&] { (void)matmul(m, m); }, {"stablehlo.dot_general", "contracting", "f32[2,3]"});
  expect_error([&] { (void)(i + 0.5); }, {"s32 cannot hold 0.5"});
}

}  // namespace
}  // namespace tpubridge::hlo
