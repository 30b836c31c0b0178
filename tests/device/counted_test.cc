// Ops whose results are as large as their data says: beside the CPU, a program for a bucket of counts and not
// one for each, and what a compiled step says of them.
#include <gmock/gmock.h>

#include <random>

#include "tests/device/check.h"
#include "tpubridge/device/counted.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {
namespace {

using ::testing::HasSubstr;
using torch::Tensor;
using torch::indexing::Slice;
using Tensors = std::vector<Tensor>;

// Of any number of sizes of input.
class AnySizes : public ::testing::Test {
 protected:
  AnySizes() : before_(device::set_counted_sizes(1 << 20)) {}
  ~AnySizes() override { device::set_counted_sizes(before_); }

 private:
  size_t before_;
};

class Counted : public AnySizes, public ::testing::WithParamInterface<uint64_t> {};

class Source {
 public:
  explicit Source(uint64_t seed) : random_(seed) { torch::manual_seed(seed); }
  int64_t upto(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  std::vector<int64_t> sizes() {
    std::vector<int64_t> out;
    for (int64_t i = upto(4); i >= 0; --i) out.push_back(upto(12) ? 1 + upto(6) : 0);
    return out;
  }
  torch::Dtype type() {
    const torch::Dtype all[] = {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf,
                                torch::kLong,  torch::kInt,    torch::kByte,     torch::kBool};
    return all[upto(8)];
  }
  // Few kinds of numbers, many zeros; some NaN; views of several kinds.
  Tensor values(torch::Dtype type) {
    Tensor t = torch::randint(0, 4, sizes()).to(type);
    if (torch::isFloatingType(type) && upto(3) == 0)
      t = t.masked_fill(torch::rand(t.sizes()) < 0.2, std::numeric_limits<double>::quiet_NaN());
    if (upto(3) == 0) t = t.transpose(0, -1);
    if (upto(4) == 0 && t.size(0) > 1) t = t.slice(0, 1, t.size(0), 2);
    return t;
  }
  Tensor mask(torch::IntArrayRef sizes) {
    const double share[] = {0, 0.1, 0.5, 1};
    return torch::rand(sizes) < share[upto(4)];
  }

 private:
  std::mt19937_64 random_;
};

int64_t on_the_cpu() { return metrics().fallback_count(); }

void expect_all(const Tensors& got, const Tensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    if (want[i].sizes() == got[i].sizes() && want[i].scalar_type() == got[i].scalar_type() &&
        want[i].numel() == 0)
      continue;
    expect_close(got[i], want[i]);
  }
}

TEST_P(Counted, IsTheCpus) {
  for (uint64_t seed = GetParam() * 4; seed < GetParam() * 4 + 4; ++seed) {
    SCOPED_TRACE(seed);
    Source source(seed);
    const Tensor x = source.values(source.type()), there = x.to(tpu()), mask = source.mask(x.sizes());
    expect_close(there.nonzero(), x.nonzero());
    expect_close(there.masked_select(mask.to(tpu())), x.masked_select(mask));
    expect_close(there.index({mask.to(tpu())}), x.index({mask}));
    const Tensor first = source.mask({x.size(0)});
    expect_close(there.index({first.to(tpu())}), x.index({first}));
    expect_close(there.index({first}), x.index({first}));
    if (x.dim() > 1) {
      const Tensor last = source.mask({x.size(1)});
      expect_close(there.index({Slice(), last.to(tpu())}), x.index({Slice(), last}));
      Tensor written = there.clone(), host = x.clone();
      const Tensor values = torch::ones({}, x.options());
      written.index_put_({Slice(), last.to(tpu())}, values.to(tpu()));
      host.index_put_({Slice(), last}, values);
      expect_close(written, host);
    }
    const auto wheres = torch::where(x != 0), there_wheres = torch::where(there != 0);
    for (size_t i = 0; i < wheres.size(); ++i) expect_close(there_wheres[i], wheres[i]);
    // Which of several NaN is which torch leaves to how it sorts.
    const bool inverse = source.upto(2), counts = source.upto(2);
    const auto list = [](const std::tuple<Tensor, Tensor, Tensor>& t) {
      return Tensors{std::get<0>(t), std::get<1>(t), std::get<2>(t)};
    };
    const bool places = inverse && !x.ne(x).any().item<bool>();
    expect_all(list(torch::_unique2(there, true, places, counts)),
               list(torch::_unique2(x, true, places, counts)));
    expect_all(list(torch::unique_consecutive(there, inverse, counts)),
               list(torch::unique_consecutive(x, inverse, counts)));
    const int64_t dim = source.upto(x.dim());
    const Tensor whole = x.nan_to_num(), there_whole = whole.to(tpu());
    if (x.numel() > 0) {
      expect_all(list(torch::unique_dim(there_whole, dim, true, inverse, counts)),
                 list(torch::unique_dim(whole, dim, true, inverse, counts)));
      expect_all(list(torch::unique_consecutive(there_whole, inverse, counts, dim)),
                 list(torch::unique_consecutive(whole, inverse, counts, dim)));
    }
    const Tensor n = torch::randint(0, 4, {source.upto(20)}, source.upto(2) ? torch::kLong : torch::kInt);
    expect_close(torch::repeat_interleave(n.to(tpu())), torch::repeat_interleave(n));
    const int64_t least = source.upto(8);
    expect_close(torch::bincount(n.to(tpu()), {}, least), torch::bincount(n, {}, least));
    const Tensor weights = torch::rand(n.sizes(), source.upto(2) ? torch::kFloat : torch::kDouble);
    if (n.numel() > 0)
      expect_close(torch::bincount(n.to(tpu()), weights.to(tpu()), least),
                   torch::bincount(n, weights, least));
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, Counted, ::testing::Range<uint64_t>(0, 3));

TEST_F(AnySizes, NothingIsComputedOnTheCpu) {
  const Tensor x = torch::tensor({{3.f, 0.f, 1.f}, {0.f, 3.f, 3.f}}), there = x.to(tpu()), mask = x > 1;
  const auto moved = [](auto f) {
    const auto before = metrics().host_to_device_bytes;
    (void)f();
    return metrics().host_to_device_bytes - before;
  };
  const Tensor there_mask = mask.to(tpu());
  const int64_t fallbacks = on_the_cpu();
  // Nothing comes back from the host: the results are where the input is.
  EXPECT_EQ(moved([&] { return there.nonzero(); }), 0);
  EXPECT_EQ(moved([&] { return there.masked_select(there_mask); }), 0);
  EXPECT_EQ(moved([&] { return there.index({there_mask}); }), 0);
  EXPECT_EQ(moved([&] { return torch::_unique2(there, true, true, true); }), 0);
  EXPECT_EQ(moved([&] { return torch::unique_dim(there, 0); }), 0);
  EXPECT_EQ(moved([&] { return torch::bincount(there.flatten().to(torch::kLong)); }), 0);
  EXPECT_EQ(on_the_cpu(), fallbacks);
}

// Of what a mask chooses the gradient, with what was chosen used in several ways.
TEST_F(AnySizes, Gradients) {
  torch::manual_seed(6);
  for (int round = 0; round < 6; ++round) {
    const Tensor x = torch::randn({5, 4, 2}), mask = torch::rand({5, 4}) < 0.2 * round;
    const auto gradient = [&](torch::Device device) {
      const Tensor leaf = x.to(device).detach().requires_grad_(), there = mask.to(device);
      const Tensor rows = leaf.index({there}), all = (leaf * leaf).masked_select(there.unsqueeze(-1));
      const Tensor loss = (rows * rows).sum() + all.exp().sum() + rows.logsumexp(0).sum();
      loss.backward();
      return Tensors{loss.detach(), leaf.grad()};
    };
    expect_all(gradient(tpu()), gradient(torch::kCPU));
  }
}

// 300 counts: as many programs as there are powers of two among them.
TEST_F(AnySizes, CountsOfOneBucketShareAProgram) {
  const Tensor x = torch::randn({400}), there = x.to(tpu());
  const auto chosen = [&](int64_t n) {
    const Tensor places = torch::arange(400, tpu());
    expect_close(there.index({places < n}), x.slice(0, 0, n));
    expect_close((places < n).nonzero(), torch::arange(n).unsqueeze(1));
  };
  const int64_t before = metrics().compiles;
  for (int64_t n = 300; n > 0; --n) chosen(n);
  EXPECT_LE(metrics().compiles - before, 6 + 4 * 6);
}

// What comes after it, too: its sums and products have one program for a bucket.
TEST_F(AnySizes, WhatUsesThemSharesPrograms) {
  const Tensor x = torch::randn({200, 3}), there = x.to(tpu()), w = torch::randn({3, 4}),
               w_there = w.to(tpu());
  const auto used = [](const Tensor& rows, const Tensor& w) { return (rows.mm(w).relu() + 1).mean(0); };
  for (int64_t n = 100; n > 64; --n) {
    const Tensor mask = torch::arange(200) < n;
    const int64_t before = metrics().compiles;
    expect_close(used(there.index({mask.to(tpu())}), w_there), used(x.index({mask}), w), 4);
    EXPECT_TRUE(n >= 95 || metrics().compiles == before) << n;
  }
}

// Sizes that change all the time: the CPU is cheaper than a program for each.
TEST(CountedSizes, TooManySizesGoToTheCpu) {
  const size_t before = device::set_counted_sizes(3);
  for (int64_t n = 40; n < 60; ++n) {
    const Tensor x = torch::arange(n).remainder(3), there = x.to(tpu());
    const int64_t compiles = metrics().compiles;
    expect_close(std::get<0>(torch::unique_consecutive(there)), x);
    EXPECT_TRUE(n <= 43 || metrics().compiles == compiles) << n;
  }
  device::set_counted_sizes(before);
}

TEST(CountedSteps, ReadACount) {
  const Tensor x = torch::tensor({1.f, -2.f, 3.f, -4.f}), there = x.to(tpu());
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> all[] = {
      {"nonzero", [](const Tensor& t) { return (t > 0).nonzero(); }},
      {"masked_select", [](const Tensor& t) { return t.masked_select(t > 0); }},
      {"index", [](const Tensor& t) { return t.index({t > 0}); }},
      {"unique2", [](const Tensor& t) { return std::get<0>(torch::_unique2(t)); }},
      {"bincount", [](const Tensor& t) { return torch::bincount(t.abs().to(torch::kLong)); }},
  };
  for (const auto& [name, f] : all) {
    SCOPED_TRACE(name);
    auto refused = compile(f);
    try {
      (void)refused(there);
      ADD_FAILURE() << "it was recorded";
    } catch (const UnsupportedError& e) {
      EXPECT_THAT(e.what(), HasSubstr(name));
    }
    auto traced = compile(f, {.host_reads = HostReads::trace});
    for (int call = 0; call < 4; ++call) {
      const Tensor now = x + call;
      expect_close(traced(now.to(tpu())), f(now));
    }
    EXPECT_EQ(traced.report().replayed, 0);
    EXPECT_THAT(traced.report().why_traced, HasSubstr(name));
    // Whoever promises that nothing hangs on what is read is not believed where a size does.
    auto unused = compile(f, {.host_reads = HostReads::unused});
    for (int call = 0; call < 4; ++call) {
      const Tensor now = x + call;
      expect_close(unused(now.to(tpu())), f(now));
    }
  }
}

// A mask whose count nobody needs is written to within a step.
TEST(CountedSteps, MasksThatAreWrittenToAreReplayed) {
  auto step = compile([](const Tensor& x) {
    Tensor y = x * 1;
    y.index_put_({y < 0}, torch::zeros({}, y.options()));
    return torch::where(y > 1, y, -y).sum();
  });
  for (int call = 0; call < 5; ++call) {
    const Tensor x = torch::randn({6, 5});
    Tensor y = x.clone();
    y.index_put_({y < 0}, torch::zeros({}));
    expect_close(step(x.to(tpu())), torch::where(y > 1, y, -y).sum());
  }
  EXPECT_GE(step.report().replayed, 3) << step.report().why_traced;
}

TEST(CountedWrong, IsRefusedInTheCpusWords) {
  const std::pair<const char*, std::function<void(torch::Device)>> all[] = {
      {"a mask of other sizes",
       [](torch::Device d) {
         (void)torch::ones({3, 4}, d).index({torch::ones({4}, torch::TensorOptions(d).dtype(torch::kBool))});
       }},
      {"a mask of more dimensions",
       [](torch::Device d) {
         (void)torch::ones({3}, d).index({torch::ones({3, 1}, torch::TensorOptions(d).dtype(torch::kBool))});
       }},
      {"a mask of numbers",
       [](torch::Device d) { (void)torch::ones({3}, d).masked_select(torch::ones({3}, d)); }},
      {"masks that do not fit",
       [](torch::Device d) {
         (void)torch::ones({3}, d).masked_select(
             torch::ones({4}, torch::TensorOptions(d).dtype(torch::kBool)));
       }},
      {"too few values",
       [](torch::Device d) {
         (void)torch::ones({3}, d).index_put_({torch::ones({3}, torch::TensorOptions(d).dtype(torch::kBool))},
                                              torch::ones({2}, d));
       }},
      {"repeats below zero",
       [](torch::Device d) {
         (void)torch::repeat_interleave(torch::tensor({1, -1}).to(d));
       }},
      {"repeats of floats", [](torch::Device d) { (void)torch::repeat_interleave(torch::ones({2}, d)); }},
      {"repeats of two dimensions",
       [](torch::Device d) {
         (void)torch::repeat_interleave(torch::ones({2, 2}, torch::TensorOptions(d).dtype(torch::kLong)));
       }},
      {"counts below zero",
       [](torch::Device d) {
         (void)torch::bincount(torch::tensor({1, -1}).to(d));
       }},
      {"counts of floats", [](torch::Device d) { (void)torch::bincount(torch::ones({2}, d)); }},
      {"weights of another size",
       [](torch::Device d) {
         (void)torch::bincount(torch::tensor({1, 2}).to(d), torch::ones({3}, d));
       }},
      {"minlength below zero",
       [](torch::Device d) {
         (void)torch::bincount(torch::tensor({1, 2}).to(d), {}, -1);
       }},
      {"no such dimension",
       [](torch::Device d) {
         (void)torch::unique_dim(torch::ones({2, 2}, d), 2);
       }},
      {"rows of nothing",
       [](torch::Device d) {
         (void)torch::unique_dim(torch::ones({0, 2}, d), 1);
       }},
      {"complex numbers",
       [](torch::Device d) {
         (void)torch::_unique2(torch::ones({2}, torch::TensorOptions(d).dtype(torch::kComplexFloat)));
       }},
  };
  const auto words = [](const std::function<void(torch::Device)>& f, torch::Device d) -> std::string {
    try {
      f(d);
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    } catch (const std::exception& e) {
      return e.what();
    }
    return "";
  };
  for (const auto& [name, f] : all) EXPECT_EQ(words(f, tpu()), words(f, torch::kCPU)) << name;
}

// Products by groups, whose sizes are data; one program for all sizes of groups. Torch's composition reads
// the ends on the host, and wants rows of 16 bytes.
TEST(CountedProducts, ByGroups) {
  const FallbackScope strict(Fallback::error);
  torch::manual_seed(7);
  const int64_t groups = 3, n = 8, m = 12;
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& ends) {
    const Tensor y = torch::_grouped_mm(a, b, ends);
    const auto g = torch::autograd::grad({(y * y.detach().cos()).sum()}, {a, b});
    return Tensors{y.detach(), g[0], g[1]};
  };
  const auto weights = torch::randn({groups, n, m});
  for (const int64_t rows : {2, 4, 12, 20}) {
    const auto x = torch::randn({rows, n}), wide = torch::randn({groups, m, n});
    int64_t compiles = 0;
    for (int i = 0; i < 5; ++i) {
      const auto cuts = std::get<0>(torch::randint(0, rows + 1, {groups - 1}).sort());
      const auto ends = torch::cat({cuts, torch::full({1}, rows)}).to(torch::kInt);
      const auto run = [&](torch::Device d, int form) {
        const auto leaf = [&](const Tensor& t) { return t.to(d).detach().requires_grad_(); };
        if (form == 0) return f(leaf(x), leaf(weights), ends.to(d));
        const auto between = x.t().contiguous();
        return f(leaf(form == 1 ? wide : between), leaf(form == 1 ? between : x), ends.to(d));
      };
      for (int form = 0; form < (rows % 4 == 0 ? 3 : 1); ++form) {
        const auto got = run(tpu(), form), want = run(torch::kCPU, form);
        for (size_t k = 0; k < got.size(); ++k) expect_close(got[k], want[k], 8);
      }
      if (i == 0) compiles = metrics().compiles;
    }
    EXPECT_EQ(metrics().compiles, compiles) << "other ends are the same program";
  }
  const auto x = torch::randn({4, 8}, tpu());
  const auto short_ends = torch::tensor({1, 1, 2}).to(torch::kInt).to(tpu());  // two rows are of no group
  const auto y = torch::_grouped_mm(x, weights.to(tpu()), short_ends).cpu();
  EXPECT_EQ(y.slice(0, 2).abs().max().item<float>(), 0);
  expect_close(y[1], x.cpu()[1].matmul(weights[2]), 8);
  EXPECT_THROW(torch::_grouped_mm(x, weights.to(tpu())), c10::Error);
  EXPECT_THROW(torch::_grouped_mm(x, weights.to(tpu()), torch::ones({3}, tpu())), c10::Error);
}

}  // namespace
}  // namespace tpubridge
