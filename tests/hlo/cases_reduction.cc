#include "tests/hlo/cases.h"

namespace tpubridge::hlo {
namespace {

Case reduced(std::string name, Reducer reducer, std::vector<int64_t> dims) {
  return {std::move(name),
          [=](Builder&, In in) -> Values { return {hlo::reduce(in[0], in[1], dims, reducer)}; }};
}

// Value and place of the largest; of equal ones the first.
Values argmax(Builder& b, In in) {
  const Value places = iota(b, {DType::s32, in[0].dims()}, 1);
  return reduce({in[0], places}, {constant(b, DType::f32, -INFINITY), constant(b, DType::s32, 0)}, {1},
                [](In a) -> Values {
                  const Value better =
                      or_(compare(a[0], a[2], Direction::gt),
                          and_(compare(a[0], a[2], Direction::eq), compare(a[1], a[3], Direction::lt)));
                  return {select(better, a[0], a[2]), select(better, a[1], a[3])};
                });
}

Value zero(Builder& b) { return constant(b, DType::f32, 0); }

}  // namespace

Family reduction_cases() {
  return {
      "reduction",
      {reduced("reduce.add", Reducer::add, {1}),
       reduced("reduce.add.all", Reducer::add, {0, 1, 2}),
       reduced("reduce.multiply", Reducer::multiply, {0}),
       reduced("reduce.minimum", Reducer::minimum, {0, 2}),
       reduced("reduce.maximum.s32", Reducer::maximum, {1}),
       reduced("reduce.and.pred", Reducer::and_, {0}),
       reduced("reduce.or.pred", Reducer::or_, {0}),
       reduced("reduce.xor.s32", Reducer::xor_, {0}),
       reduced("reduce.empty", Reducer::add, {0}),
       {"reduce.argmax", argmax},
       {"reduce.nothing",
        [](Builder& b, In in) -> Values { return {hlo::reduce(in[0], zero(b), {}, Reducer::add)}; }},
       {"reduce_window.maximum",
        [](Builder& b, In in) -> Values {
          return {reduce_window(
              in[0], constant(b, DType::f32, -INFINITY),
              {.size = {1, 1, 3, 3}, .strides = {1, 1, 2, 2}, .padding = {{0, 0}, {0, 0}, {1, 1}, {1, 1}}},
              Reducer::maximum)};
        }},
       {"reduce_window.add",
        [](Builder& b, In in) -> Values {
          return {reduce_window(in[0], zero(b),
                                {.size = {2, 2}, .base_dilation = {2, 1}, .window_dilation = {1, 2}},
                                Reducer::add)};
        }},
       {"reduce_window.cumsum",
        [](Builder& b, In in) -> Values {
          return {reduce_window(in[0], zero(b), {.size = {5}, .padding = {{4, 0}}}, Reducer::add)};
        }},
       {"reduce_window.two",
        [](Builder& b, In in) -> Values {
          return reduce_window({in[0], in[0]}, {zero(b), zero(b)}, {.size = {2}}, [](In a) -> Values {
            return {add(a[0], a[2]), maximum(a[1], a[3])};
          });
        }},
       {"select_and_scatter",
        [](Builder& b, In in) -> Values {
          return {select_and_scatter(
              in[0], in[1], zero(b), {.size = {1, 1, 2, 2}, .strides = {1, 1, 2, 2}},
              [](In a) -> Values { return {compare(a[0], a[1], Direction::ge)}; },
              [](In a) -> Values { return {add(a[0], a[1])}; })};
        }},
       {"select_and_scatter.overlap", [](Builder& b, In in) -> Values {
          return {select_and_scatter(
              in[0], in[1], zero(b), {.size = {1, 1, 3}, .padding = {{0, 0}, {0, 0}, {1, 1}}},
              [](In a) -> Values { return {compare(a[0], a[1], Direction::ge)}; },
              [](In a) -> Values { return {add(a[0], a[1])}; })};
        }}}};
}

}  // namespace tpubridge::hlo
