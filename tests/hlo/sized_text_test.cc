// One program for many sizes, beside the program of each size. What lies behind the end of an input is
// garbage.
#include "tpubridge/hlo/sized_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "tests/hlo/run.h"
#include "tpubridge/hlo/builder.h"
#include "tpubridge/hlo/constant.h"
#include "tpubridge/hlo/convolution.h"
#include "tpubridge/hlo/elementwise.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/hlo/linalg.h"
#include "tpubridge/hlo/reduction.h"
#include "tpubridge/hlo/shape_ops.h"
#include "tpubridge/hlo/sugar.h"

namespace tpubridge::hlo {
namespace {

using Make = std::function<Values(Builder&, int64_t)>;

std::string text_of(const Make& make, int64_t n) {
  Builder b;
  return b.finish(make(b, n));
}

Value input(Builder& b, std::vector<int64_t> dims, DType t = DType::f32) {
  return b.parameter({t, std::move(dims)});
}

Reference random_of(const Shape& shape, std::mt19937& random) {
  Reference out{shape, {}};
  for (int64_t i = 0; i < shape.elements(); ++i)
    out.data.push_back(is_int(shape.dtype) ? static_cast<long double>(random() % 4)
                                           : static_cast<float>(random() % 2001) / 500.F - 2.F);
  return out;
}

// The elements of `r`, in a larger array; beside them garbage. Or the other way round.
Reference resized(const Reference& r, const Shape& to) {
  const bool is_float_type = is_float(to.dtype);
  Reference out{to, std::vector<long double>(static_cast<size_t>(to.elements()),
                                             is_float_type ? std::numeric_limits<float>::quiet_NaN() : 77)};
  std::vector<int64_t> at(to.dims.size(), 0);
  const auto place = [&](const Shape& s) {
    int64_t n = 0;
    for (size_t i = 0; i < at.size(); ++i) n = n * s.dims[i] + at[i];
    return static_cast<size_t>(n);
  };
  for (bool more = to.elements() > 0 && r.shape.elements() > 0; more;) {
    out.data[place(to)] = r.data[place(r.shape)];
    more = false;
    for (size_t d = at.size(); d-- > 0 && !more;) {
      if (++at[d] < std::min(to.dims[d], r.shape.dims[d]))
        more = true;
      else
        at[d] = 0;
    }
  }
  return out;
}

// As they stand in the text.
std::vector<Shape> parameter_shapes(const std::string& text) {
  std::vector<Shape> out;
  size_t at = text.find("@main(");
  const size_t end = text.find(") -> (", at);
  while ((at = text.find("tensor<", at)) < end) {
    out.push_back(*shape_from_mlir(text.substr(at, text.find('>', at) + 1 - at)));
    ++at;
  }
  return out;
}

struct Named {
  const char* name;
  Make make;
};

const std::vector<Named>& programs() {
  static const std::vector<Named> all = {
      {"elementwise",
       [](Builder& b, int64_t n) {
         const Value x = input(b, {n, 3});
         return Values{multiply(x, tanh(x))};
       }},
      {"sum",
       [](Builder& b, int64_t n) {
         return Values{reduce(input(b, {2, n}), {1}, Reducer::add)};
       }},
      {"sums of both",
       [](Builder& b, int64_t n) {
         const Value x = input(b, {n, n});
         return Values{reduce(x, {0, 1}, Reducer::add), reduce(x, {0}, Reducer::maximum)};
       }},
      {"product and least",
       [](Builder& b, int64_t n) {
         const Value x = input(b, {n});
         return Values{reduce(x, {0}, Reducer::multiply), reduce(x, {0}, Reducer::minimum)};
       }},
      {"ones",
       [](Builder& b, int64_t n) {
         return Values{
             reduce(add(constant_like(input(b, {n}), 1), broadcast_to(constant(b, DType::f32, 1), {n})), {0},
                    Reducer::add)};
       }},
      {"counting",
       [](Builder& b, int64_t n) {
         return Values{
             reduce(add(iota(b, {DType::s32, {n, 2}}, 0), input(b, {n, 2}, DType::s32)), {0}, Reducer::add)};
       }},
      {"mean",
       [](Builder& b, int64_t n) {
         const Value x = reduce(input(b, {n, 2}), {0}, Reducer::add);
         return Values{divide(x, constant_like(x, static_cast<double>(n)))};
       }},
      {"product over it",
       [](Builder& b, int64_t n) {
         return Values{matmul(input(b, {4, n}), input(b, {n, 3}))};
       }},
      {"product beside it",
       [](Builder& b, int64_t n) {
         return Values{matmul(input(b, {n, 4}), input(b, {4, n}))};
       }},
      {"softmax",
       [](Builder& b, int64_t n) {
         const Value x = input(b, {2, n}),
                     e = exponential(
                         subtract(x, broadcast_to(reduce(x, {1}, Reducer::maximum, true), {2, n})));
         return Values{divide(e, broadcast_to(reduce(e, {1}, Reducer::add, true), {2, n}))};
       }},
      {"grown",
       [](Builder& b, int64_t n) {
         const Value x = concatenate({input(b, {2, n, 4}), input(b, {2, 1, 4})}, 1);
         return Values{x, reduce(x, {1}, Reducer::add)};
       }},
      {"grown in front",
       [](Builder& b, int64_t n) {
         return Values{concatenate({input(b, {2}), input(b, {n}), input(b, {n})}, 0)};
       }},
      {"turned",
       [](Builder& b, int64_t n) {
         return Values{transpose(input(b, {2, n, 3}), {2, 1, 0})};
       }},
      {"heads",
       [](Builder& b, int64_t n) {
         return Values{transpose(reshape(input(b, {1, n, 8}), {1, n, 2, 4}), {0, 2, 1, 3})};
       }},
      {"beginning",
       [](Builder& b, int64_t n) {
         return Values{reduce(slice(input(b, {64, 2}), {0, 0}, {n, 2}, {1, 1}), {0}, Reducer::add)};
       }},
      {"a part that is always there",
       [](Builder& b, int64_t n) {
         return Values{slice(input(b, {n, 2}), {0, 0}, {1, 2}, {1, 1})};
       }},
      {"one at a place",
       [](Builder& b, int64_t n) {
         const Value at =
             clamp(constant(b, DType::s32, 0), input(b, {}, DType::s32), constant(b, DType::s32, 0));
         return Values{dynamic_slice(input(b, {n, 2}), {at, at}, {1, 2})};
       }},
      {"part of another dimension",
       [](Builder& b, int64_t n) {
         return Values{slice(input(b, {n, 6}), {0, 1}, {n, 5}, {1, 2})};
       }},
      {"rows",
       [](Builder& b, int64_t n) {
         GatherDims d;
         d.offset_dims = {1}, d.collapsed_slice_dims = {0}, d.start_index_map = {0}, d.index_vector_dim = 1;
         return Values{gather(input(b, {4, 3}), input(b, {n}, DType::s32), d, {1, 3})};
       }},
      {"rows added",
       [](Builder& b, int64_t n) {
         ScatterDims d;
         d.update_window_dims = {1}, d.inserted_window_dims = {0}, d.scatter_dims_to_operand_dims = {0},
         d.index_vector_dim = 1;
         return Values{
             scatter(input(b, {4, 3}), input(b, {n}, DType::s32), input(b, {n, 3}), d, Reducer::add)};
       }},
      {"chosen",
       [](Builder& b, int64_t n) {
         const Value x = input(b, {n, n});
         return Values{select(
             compare(iota(b, {DType::s32, {n, n}}, 0), iota(b, {DType::s32, {n, n}}, 1), Direction::ge), x,
             constant_like(x, 0))};
       }},
  };
  return all;
}

// What XLA's bounded dimensions do not do by themselves: values without ends.
GatherDims row_gather() {
  GatherDims d;
  d.offset_dims = {1}, d.collapsed_slice_dims = {0}, d.start_index_map = {0}, d.index_vector_dim = 1;
  return d;
}
ScatterDims row_scatter() {
  ScatterDims d;
  d.update_window_dims = {1}, d.inserted_window_dims = {0}, d.scatter_dims_to_operand_dims = {0},
  d.index_vector_dim = 1;
  return d;
}
Value place(Builder& b, int64_t n) { return constant(b, DType::s32, n); }

const std::vector<Named>& moves() {
  static const std::vector<Named> all = {
      {"merged in front",
       [](Builder& b, int64_t n) {
         return Values{reshape(input(b, {n, 2, 3}), {n * 6})};
       }},
      {"split in front",
       [](Builder& b, int64_t n) {
         return Values{reshape(input(b, {n * 6}), {n, 3, 2})};
       }},
      {"merged behind",
       [](Builder& b, int64_t n) {
         return Values{reduce(reshape(input(b, {2, n, 3}), {2 * n, 3}), {0}, Reducer::add)};
       }},
      {"split behind",
       [](Builder& b, int64_t n) {
         return Values{reduce(reshape(input(b, {2 * n, 3}), {2, n, 3}), {1}, Reducer::add)};
       }},
      {"merged in the middle",
       [](Builder& b, int64_t n) {
         return Values{reshape(input(b, {2, n, 3, 2}), {2, 3 * n, 2})};
       }},
      {"split in the middle",
       [](Builder& b, int64_t n) {
         return Values{reshape(input(b, {2, 3 * n, 2}), {2, n, 6})};
       }},
      {"flat",
       [](Builder& b, int64_t n) {
         return Values{reshape(input(b, {3, n}), {3 * n})};
       }},
      {"from flat",
       [](Builder& b, int64_t n) {
         return Values{reshape(input(b, {3 * n}), {3, n})};
       }},
      {"flat twice",
       [](Builder& b, int64_t n) {
         return Values{reshape(reshape(input(b, {2, n, 4}), {n * 8}), {4, 2 * n, 1})};
       }},
      {"more than one has a size",
       [](Builder& b, int64_t n) {
         return Values{reshape(input(b, {n, 2, n + 1}), {n, 2 * n + 2}),
                       reshape(input(b, {n, 4, 2}), {4, n, 2})};
       }},
      {"last",
       [](Builder& b, int64_t n) {
         return Values{slice(input(b, {n, 2}), {n - 1, 0}, {n, 2})};
       }},
      {"fixed part",
       [](Builder& b, int64_t n) {
         return Values{slice(input(b, {n, 3}), {0, 1}, {1, 3})};
       }},
      {"all but the first",
       [](Builder& b, int64_t n) {
         return Values{slice(input(b, {n + 1, 2}), {1, 0}, {n + 1, 2})};
       }},
      {"differences",
       [](Builder& b, int64_t n) {
         const Value x = input(b, {n + 2});
         return Values{subtract(slice(x, {2}, {n + 2}), slice(x, {0}, {n})), reduce(x, {0}, Reducer::add)};
       }},
      {"two from the end, turned",
       [](Builder& b, int64_t n) {
         const Value x = input(b, {2, n + 1});
         return Values{slice(x, {0, n - 1}, {2, n + 1}), multiply(x, x)};
       }},
      {"beginning that is long",
       [](Builder& b, int64_t n) {
         return Values{slice(input(b, {32, 2}), {0, 0}, {n + 1, 2})};
       }},
      {"at a place",
       [](Builder& b, int64_t n) {
         return Values{dynamic_slice(input(b, {n + 1, 3}), {input(b, {}, DType::s32), place(b, 0)}, {2, 3})};
       }},
      {"many from a place",
       [](Builder& b, int64_t n) {
         const Value at = input(b, {}, DType::s32);
         return Values{dynamic_slice(input(b, {n + 2, 3}), {at, at}, {n, 2})};
       }},
      {"row written",
       [](Builder& b, int64_t n) {
         return Values{dynamic_update_slice(input(b, {n, 3}), input(b, {1, 2}),
                                            {input(b, {}, DType::s32), place(b, 1)})};
       }},
      {"rows written",
       [](Builder& b, int64_t n) {
         return Values{
             dynamic_update_slice(input(b, {n + 2, 3}), input(b, {n, 3}), {place(b, 1), place(b, 0)})};
       }},
      {"written into a fixed array",
       [](Builder& b, int64_t n) {
         return Values{dynamic_update_slice(input(b, {40, 2}), input(b, {n, 2}), {place(b, 3), place(b, 0)})};
       }},
      {"padded to size",
       [](Builder& b, int64_t n) {
         const Value zero = constant(b, DType::f32, 0.5);
         return Values{pad(input(b, {1, 2}), zero, {n - 1, 0}, {0, 1}),
                       pad(input(b, {1, 2}), zero, {0, 1}, {n, 0})};
       }},
      {"padded on both sides",
       [](Builder& b, int64_t n) {
         return Values{pad(input(b, {n, 2}), constant(b, DType::f32, 3), {2, 0}, {1, 0}),
                       pad(input(b, {n}), constant(b, DType::f32, 3), {n}, {1})};
       }},
      {"rows of it",
       [](Builder& b, int64_t n) {
         return Values{gather(input(b, {n, 3}), input(b, {5}, DType::s32), row_gather(), {1, 3}),
                       gather(input(b, {n, 3}), input(b, {n + 1}, DType::s64), row_gather(), {1, 3})};
       }},
      {"elements of it",
       [](Builder& b, int64_t n) {
         GatherDims d;
         d.collapsed_slice_dims = d.start_index_map = {0, 1}, d.index_vector_dim = 1;
         return Values{gather(input(b, {n, 2}), input(b, {n, 2}, DType::s32), d, {1, 1})};
       }},
      {"added to rows of it",
       [](Builder& b, int64_t n) {
         return Values{scatter(input(b, {n, 3}), input(b, {n + 2}, DType::s32), input(b, {n + 2, 3}),
                               row_scatter(), Reducer::add),
                       scatter(input(b, {n, 3}), input(b, {6}, DType::s64), input(b, {6, 3}), row_scatter(),
                               Reducer::add)};
       }},
      {"added to columns that have a size",
       [](Builder& b, int64_t n) {
         return Values{scatter(input(b, {4, n}), input(b, {3}, DType::s32), input(b, {3, n}), row_scatter(),
                               Reducer::add)};
       }},
      {"pictures of any number",
       [](Builder& b, int64_t n) {
         ConvOptions o;
         o.padding = {{1, 1}};
         const Value x = input(b, {n, 2, 5}), w = input(b, {3, 2, 3});
         const Value y = convolution(x, w, conv_dims(1), o);
         ConvDims of_weights;  // summed over pictures
         of_weights.input_batch = 1, of_weights.input_feature = 0, of_weights.input_spatial = {2};
         of_weights.kernel_output = 1, of_weights.kernel_input = 0, of_weights.kernel_spatial = {2};
         of_weights.output_batch = 1, of_weights.output_feature = 0, of_weights.output_spatial = {2};
         return Values{y, convolution(x, y, of_weights, o)};
       }},
      {"sound of any length",
       [](Builder& b, int64_t n) {
         ConvOptions o;
         o.padding = {{2, 1}};
         const Value y = convolution(input(b, {2, 3, n + 3}), input(b, {4, 3, 3}), conv_dims(1), o);
         return Values{y, reduce(y, {0, 2}, Reducer::add)};
       }},
  };
  return all;
}

TEST(SizedText, TheWidthOfATypeIsNoSize) {
  const auto of = [](DType t) {
    Builder b;
    const Value x = b.parameter({t, {3}});
    return NumberedText(b.finish({add(x, x)}));
  };
  EXPECT_FALSE(of(DType::f32).same_skeleton(of(DType::f64)));
  EXPECT_FALSE(SizedText::make(of(DType::s8), of(DType::s16)));
}

// How many sizes ran by a program that was made of another one.
int expect_one_program(const Named& named, std::mt19937& random) {
  const auto& [name, make] = named;
  int ran = 0;
  const NumberedText one(text_of(make, 5)), other(text_of(make, 7));
  const auto sized = SizedText::make(one, other);
  EXPECT_TRUE(sized) << name;
  if (!sized) return 0;
  for (const int64_t made_of : {7, 20}) {
    const NumberedText first(text_of(make, made_of));
    std::string why;
    const auto bounded = sized->bounded(first, &why);
    EXPECT_TRUE(bounded) << why;
    if (!bounded) return 0;
    for (const int64_t n : {1, 2, 13, 16, 17, 23, 31}) {
      SCOPED_TRACE(n);
      const NumberedText exact(text_of(make, n));
      const auto sizes = sized->sizes_of(exact);
      if (!sizes || !sized->fits(*sizes, *sized->sizes_of(first))) continue;
      std::vector<Reference> inputs, larger;
      const auto shapes = parameter_shapes(exact.text());
      for (size_t i = 0; i < shapes.size(); ++i) {
        inputs.push_back(random_of(shapes[i], random));
        larger.push_back(resized(inputs.back(), bounded->parameters[i]));
      }
      Reference told{bounded->parameters.back(), {}};
      for (const int64_t s : *sizes) told.data.push_back(static_cast<long double>(s));
      larger.push_back(told);
      const auto want = run_on_cpu(exact.text(), inputs), got = run_on_cpu(bounded->text, larger);
      EXPECT_EQ(got.size(), want.size());
      if (got.size() != want.size()) return 0;
      for (size_t i = 0; i < got.size(); ++i)
        expect_equal(resized(got[i], want[i].shape), want[i], 1e-5, name);
      ++ran;
    }
  }
  return ran;
}

TEST(SizedText, OneProgramForManySizes) {
  std::mt19937 random(5);
  for (const auto& p : programs()) {
    SCOPED_TRACE(p.name);
    EXPECT_GT(expect_one_program(p, random), 4);
  }
}

TEST(SizedText, ValuesWithoutEnds) {
  std::mt19937 random(6);
  for (const auto& p : moves()) {
    SCOPED_TRACE(p.name);
    EXPECT_GT(expect_one_program(p, random), 4);
  }
}

}  // namespace
}  // namespace tpubridge::hlo
