// Collectives over four virtual devices, against what torch makes of the same numbers on the CPU.
#include "tpubridge/mesh/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/check.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

const int kFourDevices = setenv("TPUBRIDGE_CPU_DEVICES", "4", 1);

class Collectives : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count() < 4) GTEST_SKIP() << "needs four devices";
  }
};

std::vector<Tensor> numbers(int64_t devices, torch::Dtype type = torch::kFloat) {
  torch::manual_seed(7);
  std::vector<Tensor> out;
  for (int64_t i = 0; i < devices; ++i) out.push_back((torch::randn({3, 5}) * 10).to(type));
  return out;
}
std::vector<Tensor> spread_out(const std::vector<Tensor>& host) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < host.size(); ++i)
    out.push_back(host[i].to(torch::Device(torch::kPrivateUse1, static_cast<c10::DeviceIndex>(i))));
  return out;
}
void expect_everywhere(const std::vector<Tensor>& got, const Tensor& want, size_t devices) {
  ASSERT_EQ(got.size(), devices);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].device().index(), static_cast<int>(i));
    EXPECT_EQ(got[i].scalar_type(), want.scalar_type());
    EXPECT_TRUE(torch::allclose(got[i].cpu(), want, 1e-5, 1e-5)) << "device " << i;
  }
}

TEST_F(Collectives, ReduceFloats) {
  const auto host = numbers(4);
  const Tensor all = torch::stack(host);
  expect_everywhere(all_reduce(spread_out(host)), all.sum(0), 4);
  expect_everywhere(all_reduce(spread_out(host), Reduce::mean), all.mean(0), 4);
  expect_everywhere(all_reduce(spread_out(host), Reduce::max), all.amax(0), 4);
  expect_everywhere(all_reduce(spread_out(host), Reduce::min), all.amin(0), 4);
}

TEST_F(Collectives, ReduceWholeNumbersAndBools) {
  const auto host = numbers(3, torch::kLong);
  expect_everywhere(all_reduce(spread_out(host)), torch::stack(host).sum(0), 3);
  const std::vector<Tensor> flags{torch::tensor({true, false}), torch::tensor({false, false})};
  const auto got = all_reduce(spread_out(flags), Reduce::max);
  EXPECT_TRUE(torch::equal(got[1].cpu(), torch::tensor({true, false})));
}

// Pending values and views are computed first; what was given stays as it was.
TEST_F(Collectives, OfPendingValuesAndViews) {
  auto host = numbers(2);
  auto there = spread_out(host);
  std::vector<Tensor> views;
  for (auto& t : there) views.push_back((t * 2).t().slice(0, 1, 4));
  const Tensor want = (torch::stack(host).sum(0) * 2).t().slice(0, 1, 4);
  expect_everywhere(all_reduce(views), want, 2);
  EXPECT_TRUE(torch::equal(there[0].cpu(), host[0]));
}

TEST_F(Collectives, OneDeviceIsItsOwnSum) {
  const auto host = numbers(1);
  expect_everywhere(all_reduce(spread_out(host)), host[0], 1);
  const auto gathered = all_gather(spread_out(host));
  ASSERT_EQ(gathered.size(), 1u);
  ASSERT_EQ(gathered[0].size(), 1u);
  EXPECT_TRUE(torch::equal(gathered[0][0].cpu(), host[0]));
}

TEST_F(Collectives, GatherKeepsTheOrder) {
  const auto host = numbers(4, torch::kBFloat16);
  const auto got = all_gather(spread_out(host));
  ASSERT_EQ(got.size(), 4u);
  for (const auto& list : got) {
    ASSERT_EQ(list.size(), 4u);
    for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(torch::equal(list[i].cpu(), host[i]));
  }
  EXPECT_EQ(got[2][0].device().index(), 2);
}

TEST_F(Collectives, BarrierWaitsForAll) {
  auto x = torch::ones({64, 64}, torch::Device("tpu:3"));
  for (int i = 0; i < 20; ++i) x = x.mm(x) / 64;
  barrier();
  EXPECT_EQ(x.sum().item<float>(), 64 * 64);
}

void expect_refused(const std::vector<Tensor>& tensors, const char* why, Reduce op = Reduce::sum) {
  try {
    (void)all_reduce(tensors, op);
    ADD_FAILURE() << "not refused: " << why;
  } catch (const TPUDistributedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("TPU distributed all_reduce failed"));
    EXPECT_THAT(e.what(), HasSubstr(why));
  }
}
TEST_F(Collectives, WrongInputIsRefused) {
  const auto there = spread_out(numbers(2));
  expect_refused({}, "there are no tensors");
  expect_refused({there[0], Tensor()}, "undefined");
  expect_refused({there[0], there[0]}, "two tensors are on one device");
  expect_refused({there[0], torch::ones({3, 5})}, "not on the device");
  expect_refused({there[0], torch::ones({5, 3}, there[1].device())}, "tensors differ");
  expect_refused({there[0], there[1].to(torch::kLong)}, "tensors differ");
  expect_refused(spread_out(numbers(2, torch::kLong)), "not a whole number", Reduce::mean);
  expect_refused(spread_out(numbers(2, torch::kBool)), "bool has no sum");
  EXPECT_THROW((void)all_gather({there[0], there[0]}), TPUDistributedError);
  EXPECT_EQ(reduce_named("mean"), Reduce::mean);
  EXPECT_THROW((void)reduce_named("median"), TPUDistributedError);
}

// NaN comes through, as in torch's amax, whichever device has it.
TEST_F(Collectives, MaximaAndMinimaKeepNaN) {
  const float nan = std::nanf("");
  std::vector<Tensor> host{torch::tensor({nan, 1.f, 2.f, -1.f}), torch::tensor({0.f, nan, 3.f, -2.f}),
                           torch::tensor({1.f, 1.f, nan, -3.f}), torch::tensor({2.f, 2.f, 2.f, -4.f})};
  for (const auto& t : all_reduce(spread_out(host), Reduce::max)) expect_close(t, torch::stack(host).amax(0));
  for (const auto& t : all_reduce(spread_out(host), Reduce::min)) expect_close(t, torch::stack(host).amin(0));
}

TEST_F(Collectives, TheirCompilesAreCountedAndSeen) {
  const auto there =
      std::vector<Tensor>{torch::ones({7}, torch::Device("tpu:0")), torch::ones({7}, torch::Device("tpu:1"))};
  sync(there);
  const Metrics before = metrics();
  {
    const auto scope = expect_no_compile();
    EXPECT_THROW((void)all_reduce(there), CompilationError);
  }
  (void)all_reduce(there);
  EXPECT_EQ(metrics().compiles, before.compiles + 1);
  EXPECT_EQ(metrics().executions, before.executions + 1);
  const auto scope = expect_no_compile();
  expect_close(all_reduce(there)[1], torch::full({7}, 2.f));
}

TEST_F(Collectives, IsAHostReadInsideACompiledStep) {
  const auto there = spread_out(numbers(2));
  auto step = compile([&](Tensor a, Tensor b) { return all_reduce({a, b})[0]; });
  EXPECT_THROW((void)step(there[0], there[1]), UnsupportedError);
}

}  // namespace
}  // namespace tpubridge
