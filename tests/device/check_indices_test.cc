// Checked mode: an index out of range is an IndexError at the call; without it programs are as they were.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

class CheckIndices : public testing::Test {
 protected:
  void SetUp() override { before_ = set_check_indices(true); }
  void TearDown() override { set_check_indices(before_); }

  // The message of the IndexError that the call throws; empty where it throws none.
  template <class F>
  static std::string index_error(F call) {
    try {
      call();
    } catch (const c10::IndexError& e) {
      return e.what_without_backtrace();
    }
    return "";
  }
  static Tensor places(std::vector<int64_t> v) { return torch::tensor(v).to(tpu()); }
  const Tensor x = torch::arange(10, torch::kFloat).view({5, 2}).to(tpu());

 private:
  bool before_ = false;
};

TEST_F(CheckIndices, NamesOpIndexAndSize) {
  const auto text = index_error([&] { (void)x.index({places({0, 7})}); });
  EXPECT_NE(text.find("index 7 is out of bounds for dimension 0 with size 5"), std::string::npos) << text;
  EXPECT_NE(text.find("aten::index.Tensor takes -5 to 4"), std::string::npos) << text;
}

TEST_F(CheckIndices, EveryOpWithIndices) {
  const auto bad = places({0, 5}), column = places({0, 9}).view({2, 1}), source = torch::ones({2, 2}, tpu());
  auto y = x.clone();
  const std::vector<std::function<void()>> calls{
      [&] { (void)x.index_select(0, bad); },
      [&] { (void)x.gather(0, column); },
      [&] { (void)x.scatter(0, column, 1.0); },
      [&] { (void)x.scatter(0, column, source); },
      [&] { (void)x.scatter_add(0, column, source); },
      [&] { (void)x.scatter_reduce(0, column, source, "amax"); },
      [&] { (void)x.index_add(0, bad, source); },
      [&] { (void)x.index_copy(0, bad, source); },
      [&] { (void)x.index_fill(0, bad, 1.0); },
      [&] { (void)torch::embedding(x, bad); },
      [&] { y.index_put_({bad}, source); },
      [&] {
        (void)x.index({places({0}), places({-3})});
      },
      [&] {
        (void)torch::nll_loss(x, places({0, 1, 2, 0, 1}));
      },
      [&] { (void)x.index_select(0, places({-1})); },
  };
  for (size_t i = 0; i < calls.size(); ++i)
    EXPECT_NE(index_error(calls[i]).find("is out of bounds for dimension"), std::string::npos) << i;
  expect_close(y, x.cpu());  // a refused write has written nothing
}

TEST_F(CheckIndices, WhatIsInRangeIsLetThrough) {
  const auto host = x.cpu();
  expect_close(x.index({places({-5, 4})}), host.index({torch::tensor({-5, 4})}));
  expect_close(x.index_fill(0, places({-5, 4}), 1.5), host.index_fill(0, torch::tensor({-5, 4}), 1.5));
  expect_close(x.index_fill(0, places({-2}), 1.5), host.index_fill(0, torch::tensor({-2}), 1.5));
  expect_close(x.index_select(1, places({1, 0, 1})), host.index_select(1, torch::tensor({1, 0, 1})));
  expect_close(torch::nll_loss(x, places({0, 1, -100, 0, 1})),
               torch::nll_loss(host, torch::tensor({0, 1, -100, 0, 1})));
  EXPECT_EQ(x.index_select(0, torch::empty({0}, torch::kLong).to(tpu())).size(0), 0);
}

// A replayed call looks at nothing: with the mode another program is recorded.
TEST_F(CheckIndices, CompiledStepsFollow) {
  set_check_indices(false);
  auto step =
      compile([x = x](const Tensor& at) { return x.index_select(0, at); }, {.host_reads = HostReads::trace});
  const auto good = [&] {
    expect_close(step(places({4, 1})), x.cpu().index_select(0, torch::tensor({4, 1})));
  };
  const auto bad = [&] { (void)step(places({0, 5})).cpu(); };
  for (int i = 0; i < 5; ++i) good();
  EXPECT_GE(step.report().replayed, 1) << step.report().why_traced;
  EXPECT_EQ(index_error(bad), "");
  set_check_indices(true);
  EXPECT_NE(index_error(bad).find("index 5 is out of bounds"), std::string::npos);
  good();
  set_check_indices(false);
  good();
  EXPECT_EQ(index_error(bad), "");
}

TEST_F(CheckIndices, OffNothingWaits) {
  set_check_indices(false);
  const auto index = places({0, 7});
  tpubridge::sync();
  const auto before = metrics().materialisations;
  const auto y = x.index_select(0, index);
  EXPECT_EQ(metrics().materialisations, before);
  // A read outside takes the nearest place.
  expect_close(y, x.cpu().index_select(0, torch::tensor({0, 4})));
}

TEST_F(CheckIndices, OffAWriteOutsideIsLeftOut) {
  set_check_indices(false);
  const auto rows = torch::full({2, 2}, 9.0, tpu()), one = rows.slice(0, 0, 1);
  expect_close(x.index_copy(0, places({3, 5}), rows), x.cpu().index_fill(0, torch::tensor({3}), 9.0));
  for (int64_t outside : {-1, 5}) expect_close(x.index_copy(0, places({outside}), one), x.cpu());
}

}  // namespace
}  // namespace tpubridge
