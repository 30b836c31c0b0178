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

TEST(SizedText, TheWidthOfATypeIsNoSize) {
  const auto of = [](DType t) {
    Builder b;
    const Value x = b.parameter({t, {3}});
    return NumberedText(b.finish({add(x, x)}));
  };
  EXPECT_FALSE(of(DType::f32).same_skeleton(of(DType::f64)));
  EXPECT_FALSE(SizedText::make(of(DType::s8), of(DType::s16)));
}

TEST(SizedText, OneProgramForManySizes) {
  std::mt19937 random(5);
  for (const auto& [name, make] : programs()) {
    SCOPED_TRACE(name);
    const NumberedText one(text_of(make, 5)), other(text_of(make, 7));
    const auto sized = SizedText::make(one, other);
    ASSERT_TRUE(sized);
    for (const int64_t made_of : {7, 20}) {
      const NumberedText first(text_of(make, made_of));
      const auto bounded = sized->bounded(first);
      ASSERT_TRUE(bounded);
      for (int64_t n : {1, 2, 9, 13, 14, 15, 16, 17, 23, 31}) {
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
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i)
          expect_equal(resized(got[i], want[i].shape), want[i], 1e-5, name);
      }
    }
  }
}

}  // namespace
}  // namespace tpubridge::hlo
