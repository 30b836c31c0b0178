// Indices that are tensors of the host, beside the CPU: read, written, with gradients, in compiled steps.
#include <gmock/gmock.h>

#include <random>

#include "tests/device/check.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using Indices = c10::List<std::optional<Tensor>>;

struct IndexCase {
  Tensor source;
  std::vector<std::optional<Tensor>> indices;  // all of the host
  std::vector<bool> moved;                     // which of them are given as tensors of the device

  [[nodiscard]] Indices on(torch::Device device) const {
    Indices out;
    for (size_t i = 0; i < indices.size(); ++i)
      out.push_back(indices[i] && moved[i] ? std::optional<Tensor>(indices[i]->to(device)) : indices[i]);
    return out;
  }
};

// A random tensor and random indices for some of its dimensions: numbers, rows, columns, masks, slices.
IndexCase random_case(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  torch::manual_seed(seed);
  const int64_t rank = 1 + upto(4), rows = 1 + upto(5);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < rank; ++i) sizes.push_back(1 + upto(5));
  IndexCase c{torch::randn(sizes), {}, {}};
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t size = sizes[static_cast<size_t>(d)], kind = upto(7);
    const auto range = [&](at::IntArrayRef shape) {
      return torch::randint(-size, size, shape, torch::kLong);
    };
    std::optional<Tensor> index;
    if (kind == 1) index = range({rows});
    if (kind == 2) index = range({rows}).to(torch::kInt);
    if (kind == 3) index = range({2, rows});
    if (kind == 4) index = range({2 * rows}).slice(0, 1, 2 * rows, 2);  // a view with an offset
    if (kind == 5) index = range({});
    if (kind == 6 && rows <= size)  // a mask that chooses as many as the others have
      index =
          torch::zeros({size}, torch::kBool).index_fill_(0, torch::randperm(size).slice(0, 0, rows), true);
    c.indices.push_back(index);
    c.moved.push_back(upto(4) == 0);
  }
  const auto given = [](const auto& i) { return i.has_value(); };
  if (std::none_of(c.indices.begin(), c.indices.end(), given)) {
    c.indices.assign(1, torch::randint(0, sizes[0], {rows}, torch::kLong));
    c.moved.assign(1, false);
  }
  return c;
}

class HostIndices : public ::testing::TestWithParam<uint64_t> {};

TEST_P(HostIndices, AreReadAndWrittenAsOnTheCpu) {
  for (uint64_t seed = GetParam() * 40; seed < GetParam() * 40 + 40; ++seed) {
    SCOPED_TRACE(seed);
    const IndexCase c = random_case(seed);
    const Tensor values = torch::randn_like(c.source.index(c.on(torch::kCPU)));
    const auto read = [&](torch::Device device) {
      const Tensor x = c.source.to(device).detach().requires_grad_();
      const Tensor y = x.index(c.on(device));
      (y * y * values.to(device)).sum().backward();
      return std::vector<Tensor>{y.detach(), x.grad()};
    };
    const auto here = read(tpu()), there = read(torch::kCPU);
    for (size_t i = 0; i < here.size(); ++i) expect_close(here[i], there[i]);
    // Written: added, since a place that is named twice has no certain last writer.
    Tensor x = c.source.to(tpu()), host = c.source.clone();
    x.index_put_(c.on(tpu()), values.to(tpu()), true);
    host.index_put_(c.on(torch::kCPU), values, true);
    expect_close(x, host);
    x.index_put_(c.on(tpu()), torch::full({}, 2.5));
    host.index_put_(c.on(torch::kCPU), torch::full({}, 2.5));
    expect_close(x, host);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, HostIndices, ::testing::Range<uint64_t>(0, 2));

TEST(HostIndices, AreReadAnewByACompiledStep) {
  const Tensor table = torch::arange(24.).view({6, 4}), there = table.to(tpu());
  auto step = compile([&](const Tensor& rows) { return there.index({rows}).sum(1); });
  Tensor rows = torch::tensor({0, 5, 2});
  for (int call = 0; call < 8; ++call) {
    expect_close(step(rows), table.index({rows}).sum(1));
    rows.add_(1).remainder_(6);  // in place: the same tensor, other places
  }
  for (const Tensor& other :
       {torch::arange(12).slice(0, 1, 6, 2), torch::tensor({-1, -2}), rows.to(torch::kInt)})
    for (int call = 0; call < 3; ++call) expect_close(step(other), table.index({other}).sum(1));
}

TEST(HostIndices, OfACapturedTensorAreReadAnew) {
  const Tensor table = torch::arange(24.).view({6, 4}), there = table.to(tpu()).clone();
  Tensor rows = torch::tensor({0, 5, 2}), host = table.clone();
  auto step = compile([&](const Tensor& v) {
    there.index_put_({rows}, v, true);
    return there.sum();
  });
  for (int call = 0; call < 8; ++call) {
    const Tensor v = torch::full({4}, 1. + call);
    host.index_put_({rows}, v, true);
    expect_close(step(v.to(tpu())), host.sum());
    expect_close(there, host);
    if (call == 4) rows = torch::tensor({1, 1, 3});  // the variable names another tensor
    rows.add_(1).remainder_(6);
  }
}

TEST(HostIndices, OfTheDeviceForATensorOfTheHostAreRefused) {
  try {
    (void)torch::ones({3}).index({torch::tensor({1}).to(tpu())});
    FAIL() << "it was taken";
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(),
                ::testing::HasSubstr("either on cpu or on the same device as the indexed tensor (cpu)"));
  }
}

}  // namespace
}  // namespace tpubridge
