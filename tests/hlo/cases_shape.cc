#include <bit>
#include <cmath>
#include <cstring>

#include "tests/hlo/cases.h"

namespace tpubridge::hlo {
namespace {

template <class T>
Value dense_of(Builder& b, DType dtype, std::vector<int64_t> dims, const std::vector<T>& items) {
  return dense(b, {dtype, std::move(dims)}, std::span<const T>(items));
}

}  // namespace

Family constant_cases() {
  return {"constant",
          {{"constant.f32",
            [](Builder& b, In) -> Values {
              return {constant(b, {DType::f32, {2}}, 0.1), constant(b, DType::f32, INFINITY),
                      constant(b, DType::f32, -INFINITY),  constant(b, DType::f32, NAN),
                      constant(b, DType::f32, 1e-30),      constant(b, DType::f32, 7)};
            }},
           {"constant.int",
            [](Builder& b, In) -> Values {
              return {constant(b, DType::s8, -128), constant(b, DType::u8, 255),
                      constant(b, DType::s64, INT64_MIN), constant(b, DType::u64, UINT64_MAX),
                      constant(b, DType::s32, 3.0)};
            }},
           {"constant.pred",
            [](Builder& b, In) -> Values {
              return {constant(b, {DType::pred, {2}}, true), constant(b, DType::pred, 0)};
            }},
           {"constant.minus_zero",
            [](Builder& b, In) -> Values {
              return {divide(constant(b, DType::f32, 1), constant(b, DType::f32, -0.0))};
            }},
           {"constant.half",
            [](Builder& b, In) -> Values {
              return {convert(constant(b, DType::bf16, 0.1), DType::f32),
                      convert(constant(b, DType::f16, 0.1), DType::f32),
                      convert(constant(b, DType::bf16, -INFINITY), DType::f32),
                      convert(constant(b, DType::f8e5m2, 3.3), DType::f32),
                      convert(constant(b, DType::f8e4m3fn, NAN), DType::f32)};
            }},
           {"constant.lowest",
            [](Builder& b, In) -> Values {
              return {constant(b, DType::s32, lowest(DType::s32)),
                      constant(b, DType::u16, max_finite(DType::u16)),
                      convert(constant(b, DType::bf16, max_finite(DType::bf16)), DType::f32),
                      convert(constant(b, DType::f16, max_finite(DType::f16)), DType::f32),
                      convert(constant(b, DType::f8e4m3fn, lowest(DType::f8e4m3fn)), DType::f32)};
            }},
           {"constant.empty",
            [](Builder& b, In) -> Values {
              return {constant(b, {DType::f32, {0, 3}}, 1)};
            }},
           {"dense.f32",
            [](Builder& b, In) -> Values {
              return {dense_of<float>(b, DType::f32, {2, 2}, {1, -2.5, 3, 1e30F})};
            }},
           {"dense.splat",
            [](Builder& b, In) -> Values {
              return {dense_of<int32_t>(b, DType::s32, {3}, {7, 7, 7})};
            }},
           {"dense.pred",
            [](Builder& b, In) -> Values {
              return {dense_of<uint8_t>(b, DType::pred, {3, 3}, {1, 0, 1, 1, 0, 0, 0, 1, 1})};
            }},
           {"dense.s4",
            [](Builder& b, In) -> Values {
              return {convert(dense_of<int8_t>(b, DType::s4, {4}, {-8, -1, 0, 7}), DType::s32)};
            }},
           {"dense.bf16",
            [](Builder& b, In) -> Values {
              return {convert(dense_of<uint16_t>(b, DType::bf16, {2}, {0x3F80, 0xC000}), DType::f32)};
            }},
           {"dense.list",
            [](Builder& b, In) -> Values {
              return {dense(b, DType::s64, {1, -2, 3}), dense(b, DType::u8, {255}), dense(b, DType::s32, {})};
            }},
           {"iota", [](Builder& b, In) -> Values {
              return {iota(b, {DType::s32, {2, 3}}, 0), iota(b, {DType::f32, {2, 3}}, 1),
                      iota(b, {DType::u8, {4}}, 0)};
            }}}};
}

Family shape_cases() {
  return {"shape",
          {{"broadcast_in_dim",
            [](Builder&, In in) -> Values {
              return {broadcast_in_dim(in[0], {2, 3, 2}, {2, 1})};
            }},
           {"broadcast_in_dim.scalar",
            [](Builder&, In in) -> Values {
              return {broadcast_in_dim(in[0], {2, 2}, {})};
            }},
           {"reshape",
            [](Builder&, In in) -> Values {
              return {reshape(in[0], {3, 1, 2})};
            }},
           {"transpose",
            [](Builder&, In in) -> Values {
              return {transpose(in[0], {2, 0, 1})};
            }},
           {"reverse",
            [](Builder&, In in) -> Values {
              return {reverse(in[0], {0, 2})};
            }},
           {"slice",
            [](Builder&, In in) -> Values {
              return {slice(in[0], {1, 0}, {4, 5}, {1, 2}), slice(in[0], {0, 2}, {0, 5})};
            }},
           {"concatenate",
            [](Builder&, In in) -> Values {
              return {concatenate({in[0], in[1], in[0]}, 1)};
            }},
           {"pad",
            [](Builder&, In in) -> Values {
              return {pad(in[0], in[1], {1, -1}, {0, 2}, {2, 0})};
            }},
           {"dynamic_slice",
            [](Builder&, In in) -> Values {
              return {dynamic_slice(in[0], {in[1], in[2]}, {2, 3})};
            }},
           {"dynamic_update_slice", [](Builder&, In in) -> Values {
              return {dynamic_update_slice(in[0], in[1], {in[2], in[3]})};
            }}}};
}

Family sugar_cases() {
  return {"sugar",
          {{"sugar.arithmetic",
            [](Builder&, In in) -> Values {
              return {in[0] + in[1], in[0] - in[1],     in[0] * in[1],     in[0] / in[1], -in[0],
                      2 * in[0] + 1, 1 / (in[0] - 0.5), (in[0] - 3) / 2.0, 1.5 - in[0]};
            }},
           {"sugar.compare",
            [](Builder&, In in) -> Values {
              return {eq(in[0], in[1]), ne(in[0], in[1]), lt(in[0], in[1]),
                      le(in[0], in[1]), gt(in[0], in[1]), ge(in[0], in[1])};
            }},
           {"sugar.where", [](Builder&, In in) -> Values { return {where(in[0], in[1], in[2])}; }},
           {"sugar.dims",
            [](Builder&, In in) -> Values {
              return {expand_dims(in[0], {0, 3}), drop_dims(expand_dims(in[0], {1}), {1}),
                      slice_dim(in[0], 1, 1, 3),  broadcast_to(in[0], {2, 2, 3}),
                      to_dims(in[0], {6}),        permute(in[0], {1, 0})};
            }},
           {"sugar.reduce",
            [](Builder&, In in) -> Values {
              return {reduce(in[0], {0}, Reducer::add), reduce(in[0], {1}, Reducer::multiply, true),
                      reduce(in[0], {0, 1}, Reducer::minimum), reduce(in[0], {1}, Reducer::maximum)};
            }},
           {"sugar.reduce.int",
            [](Builder&, In in) -> Values {
              return {reduce(in[0], {0}, Reducer::minimum), reduce(in[0], {0}, Reducer::maximum),
                      reduce(in[0], {0}, Reducer::and_), reduce(in[0], {0}, Reducer::or_),
                      reduce(in[0], {0}, Reducer::xor_)};
            }},
           {"sugar.reduce_window",
            [](Builder&, In in) -> Values {
              return {reduce_window(in[0], {.size = {2, 2}, .strides = {2, 1}}, Reducer::maximum)};
            }},
           {"sugar.matmul", [](Builder&, In in) -> Values { return {matmul(in[0], in[1])}; }}}};
}

}  // namespace tpubridge::hlo
