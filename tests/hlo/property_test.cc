// Random programs, half of whose arguments are wrong: an op is either refused with ProgramError or is one
// that the compiler takes, with the numbers that a plain walk over indices gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "tests/hlo/run.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::hlo {
namespace {

using Dims = std::vector<int64_t>;

// An array on the host, and the value that should equal it.
struct Pair {
  Value value;
  Reference host;
};

int64_t flat(const Dims& dims, const Dims& at) {
  int64_t out = 0;
  for (size_t i = 0; i < dims.size(); ++i) out = out * dims[i] + at[i];
  return out;
}

// An array of `dims` whose element at an index is `f(index)`.
Reference filled(const Dims& dims, const std::function<long double(const Dims&)>& f) {
  Reference out{{DType::s32, dims}, {}};
  Dims at(dims.size(), 0);
  for (int64_t n = out.shape.elements(); n > 0; --n) {
    out.data.push_back(f(at));
    for (size_t d = dims.size(); d-- > 0;) {
      if (++at[d] < dims[d]) break;
      at[d] = 0;
    }
  }
  return out;
}

class Programs {
 public:
  explicit Programs(uint32_t seed) : random_(seed) {
    for (const Dims& dims : {Dims{2, 3}, Dims{4}, Dims{1, 2, 3}, Dims{}, Dims{3, 1, 2}}) {
      Reference r{{DType::s32, dims}, {}};
      for (int64_t i = 0; i < r.shape.elements(); ++i) r.data.push_back(below(100));
      inputs_.push_back(r);
      pool_.push_back({b_.parameter(r.shape), r});
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      const size_t before = b_.text_size();
      try {
        step();
        ++built_;
      } catch (const ProgramError& e) {
        ++refused_;
        EXPECT_EQ(b_.text_size(), before) << e.what();
      }
    }
    Values results;
    for (const Pair& p : pool_) results.push_back(p.value);
    const std::string text = b_.finish(results);
    std::vector<Reference> got;
    ASSERT_NO_THROW(got = run_on_cpu(text, inputs_)) << text;
    for (size_t i = 0; i < got.size(); ++i)
      expect_equal(got[i], pool_[i].host, 0, "%" + std::to_string(pool_[i].value.id()) + " of\n" + text);
  }
  int built_ = 0, refused_ = 0;

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  const Pair& any() { return pool_[static_cast<size_t>(below(static_cast<int64_t>(pool_.size())))]; }
  // Now and then another number than the right one.
  int64_t spoil(int64_t n) { return below(8) == 0 ? n + below(5) - 2 : n; }
  Dims spoil(Dims dims) {
    for (int64_t& d : dims) d = spoil(d);
    if (below(12) == 0) dims.push_back(below(3));
    return dims;
  }
  void keep(Value v, Reference host) {
    if (v.elements() <= 500) pool_.push_back({v, std::move(host)});
  }

  void step() {
    const Pair p = any();
    const Dims& dims = p.value.dims();
    const auto at = [&p](const Dims& index) {
      return p.host.data[static_cast<size_t>(flat(p.value.dims(), index))];
    };
    switch (below(7)) {
      case 0:
        return reshaped(p);
      case 1: {
        Dims order(dims.size());
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        const Dims permutation = spoil(order);
        const Value v = transpose(p.value, permutation);
        return keep(v, filled(v.dims(), [&](const Dims& index) {
                      Dims from(index.size());
                      for (size_t i = 0; i < index.size(); ++i)
                        from[static_cast<size_t>(permutation[i])] = index[i];
                      return at(from);
                    }));
      }
      case 2: {
        Dims starts, limits, strides;
        for (const int64_t d : dims) {
          starts.push_back(spoil(below(d + 1)));
          limits.push_back(spoil(d - below(2)));
          strides.push_back(spoil(1 + below(2)));
        }
        const Value v = slice(p.value, starts, limits, strides);
        return keep(v, filled(v.dims(), [&](Dims index) {
                      for (size_t i = 0; i < index.size(); ++i) index[i] = starts[i] + index[i] * strides[i];
                      return at(index);
                    }));
      }
      case 3:
        return broadcasted(p);
      case 4: {
        Dims turned;
        for (size_t i = 0; i < dims.size(); ++i)
          if (below(2)) turned.push_back(spoil(static_cast<int64_t>(i)));
        const Value v = reverse(p.value, turned);
        return keep(v, filled(dims, [&](Dims index) {
                      for (const int64_t d : turned) {
                        auto& i = index[static_cast<size_t>(d)];
                        i = dims[static_cast<size_t>(d)] - 1 - i;
                      }
                      return at(index);
                    }));
      }
      case 5: {
        const Pair q = any();
        const int64_t dim = spoil(dims.empty() ? 0 : below(static_cast<int64_t>(dims.size())));
        const Value v = concatenate({p.value, q.value}, dim);
        const int64_t first = p.value.dim(dim);
        return keep(v, filled(v.dims(), [&](Dims index) {
                      auto& i = index[static_cast<size_t>(dim)];
                      if (i < first) return at(index);
                      i -= first;
                      return q.host.data[static_cast<size_t>(flat(q.value.dims(), index))];
                    }));
      }
      default:
        return padded(p);
    }
  }

  void reshaped(const Pair& p) {
    Dims dims = p.value.dims();
    if (below(2)) dims.push_back(1);
    std::shuffle(dims.begin(), dims.end(), random_);
    const Value v = reshape(p.value, spoil(dims));
    Reference host = p.host;
    host.shape = v.shape();
    keep(v, host);
  }

  void broadcasted(const Pair& p) {
    Dims result, to;
    for (const int64_t d : p.value.dims()) {
      if (below(3) == 0) result.push_back(below(3) + 1);
      to.push_back(spoil(static_cast<int64_t>(result.size())));
      result.push_back(d == 1 ? below(3) + 1 : spoil(d));
    }
    if (below(3) == 0) result.push_back(2);
    const Value v = broadcast_in_dim(p.value, result, to);
    keep(v, filled(v.dims(), [&](const Dims& index) {
           Dims from;
           for (size_t i = 0; i < to.size(); ++i)
             from.push_back(p.value.dims()[i] == 1 ? 0 : index[static_cast<size_t>(to[i])]);
           return p.host.data[static_cast<size_t>(flat(p.value.dims(), from))];
         }));
  }

  void padded(const Pair& p) {
    Dims low, high, interior;
    for (size_t i = 0; i < p.value.dims().size(); ++i) {
      low.push_back(below(4) - 1);
      high.push_back(below(4) - 1);
      interior.push_back(spoil(below(2)));
    }
    low = spoil(low);
    high = spoil(high);
    const Value v = pad(p.value, fill_, low, high, interior);
    keep(v, filled(v.dims(), [&](Dims index) -> long double {
           for (size_t i = 0; i < index.size(); ++i) {
             const int64_t place = index[i] - low[i], gap = interior[i] + 1;
             if (place < 0 || place % gap || place / gap >= p.value.dims()[i]) return 7;
             index[i] = place / gap;
           }
           return p.host.data[static_cast<size_t>(flat(p.value.dims(), index))];
         }));
  }

  std::mt19937 random_;
  Builder b_;
  Value fill_ = constant(b_, DType::s32, 7);
  std::vector<Reference> inputs_;
  std::vector<Pair> pool_;
};

class Property : public testing::TestWithParam<uint32_t> {};

TEST_P(Property, WhatIsBuiltCompilesAndIsRight) {
  Programs programs(GetParam());
  programs.run(60);
  EXPECT_GT(programs.built_, 10);
  EXPECT_GT(programs.refused_, 5);
}

INSTANTIATE_TEST_SUITE_P(Hlo, Property, testing::Range(1U, 11U));

}  // namespace
}  // namespace tpubridge::hlo
