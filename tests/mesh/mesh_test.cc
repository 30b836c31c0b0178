// Tensors over a mesh: values beside the CPU's, and how they lie.
#include "tpubridge/mesh/mesh.h"

#include <gmock/gmock.h>

#include <functional>
#include <sstream>

#include "tests/device/check.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/api.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

class OverMesh : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count() != 4) GTEST_SKIP() << "needs four devices";
    torch::manual_seed(11);
  }
};

std::string lies(const Tensor& t) {
  const auto s = sharding_of(t);
  return s ? s->str() : "one device";
}

TEST_F(OverMesh, PartsLieWhereTheyWereSaid) {
  const Mesh mesh({{"data", 2}, {"model", 2}});
  const Tensor x = torch::arange(24, torch::kFloat).reshape({4, 6});
  const Tensor rows = shard(x, mesh, {"data"}), both = shard(x, mesh, {"data", "model"});
  const Tensor one = shard(x, mesh, {SplitBy{"data", "model"}}), all = replicate(x, mesh);
  EXPECT_EQ(lies(rows), "data=2, model=2: [data, -]");
  EXPECT_EQ(lies(both), "data=2, model=2: [data, model]");
  EXPECT_EQ(lies(one), "data=2, model=2: [data+model, -]");
  EXPECT_EQ(lies(all), "data=2, model=2: [-, -]");
  for (const Tensor& t : {rows, both, one, all}) {
    EXPECT_EQ(t.device(), mesh.device());
    EXPECT_TRUE(t.cpu().equal(x));
    const auto parts = parts_of(t);
    ASSERT_EQ(parts.size(), 4U);
    for (const Part& p : parts) {
      Tensor want = x;
      for (int64_t d = 0; d < 2; ++d)
        want = want.narrow(d, p.begin[static_cast<size_t>(d)], p.tensor.size(d));
      EXPECT_TRUE(p.tensor.equal(want)) << p.device;
    }
  }
  EXPECT_EQ(parts_of(both)[3].begin, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(parts_of(one)[2].begin, (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(lies(unshard(both)), "one device");
  EXPECT_TRUE(unshard(both).cpu().equal(x));
}

TEST_F(OverMesh, FromPartsAndBack) {
  const Mesh mesh({{"a", 2}, {"b", 2}}, {3, 1, 0, 2});
  const Tensor x = torch::randn({4, 2, 3});
  const Tensor y = shard(x, mesh, {"b", none});
  std::vector<Tensor> parts;
  for (const auto& p : parts_of(y)) parts.push_back(p.tensor);
  EXPECT_EQ(parts_of(y)[0].device, 3);
  const Tensor z = from_parts(parts, mesh, {"b", none});
  EXPECT_EQ(z.sizes(), x.sizes());
  EXPECT_TRUE(z.cpu().equal(x));
  EXPECT_TRUE((z * 2).cpu().equal(x * 2));
  EXPECT_EQ((z * 2).device().index(), 3);
}

TEST_F(OverMesh, OpsAreSplitAndRight) {
  const Mesh mesh({{"data", 2}, {"model", 2}});
  const Tensor x = torch::randn({8, 6}), w = torch::randn({6, 4});
  const Tensor sx = shard(x, mesh, {"data"}), sw = shard(w, mesh, {none, "model"});
  const auto before = metrics().spread_executions;
  const Tensor y = torch::relu(sx.mm(sw)) + 1;
  EXPECT_EQ(lies(y), "data=2, model=2: [data, model]");
  EXPECT_GT(metrics().spread_executions, before);
  EXPECT_TRUE(torch::allclose(y.cpu(), torch::relu(x.mm(w)) + 1, 1e-5, 1e-6));
  // A tensor of one device among them, numbers, sums, views, writes.
  const Tensor bias = torch::randn({4}).to(mesh.device());
  Tensor z = (y * 3 + bias).sum(0);
  EXPECT_TRUE(torch::allclose(z.cpu(), ((torch::relu(x.mm(w)) + 1) * 3 + bias.cpu()).sum(0), 1e-5, 1e-5));
  sx[0].fill_(7);
  Tensor want = x.clone();
  want[0].fill_(7);
  EXPECT_TRUE(sx.cpu().equal(want));
  EXPECT_EQ(lies(sx), "data=2, model=2: [data, -]");
  EXPECT_TRUE((sx.t().contiguous() + 0).cpu().equal(want.t()));
}

std::string told(const std::function<void()>& f) {
  try {
    f();
  } catch (const TPUDistributedError& e) {
    return e.what();
  }
  return "";
}

TEST_F(OverMesh, WhatCannotBeIsToldAtOnce) {
  EXPECT_THAT(told([] { Mesh({{"data", 8}}); }), HasSubstr("a mesh of 8 devices over 4"));
  EXPECT_THAT(told([] { Mesh({{"data", 2}, {"data", 2}}); }), HasSubstr("two axes are named 'data'"));
  EXPECT_THAT(told([] { Mesh({{"data", 0}}); }), HasSubstr("the size 0"));
  EXPECT_THAT(told([] { Mesh({{"a b", 2}}); }), HasSubstr("no name for an axis"));
  EXPECT_THAT(told([] { Mesh(std::vector<Mesh::Axis>{}); }), HasSubstr("without axes"));
  EXPECT_THAT(told([] { Mesh({{"data", 2}}, {0, 7}); }), HasSubstr("no device 7"));
  EXPECT_THAT(told([] { Mesh({{"data", 2}}, {1, 1}); }), HasSubstr("device 1 twice"));
  EXPECT_THAT(told([] { Mesh({{"data", 2}}, {0, 1, 2}); }), HasSubstr("2 devices over 3"));
  const Mesh mesh({{"data", 4}});
  const Tensor x = torch::ones({6, 4});
  EXPECT_THAT(told([&] { (void)shard(x, mesh, {"data"}); }), HasSubstr("Pad it to 8"));
  EXPECT_THAT(told([&] { (void)shard(x, mesh, {"rows"}); }), HasSubstr("no axis 'rows'"));
  EXPECT_THAT(told([&] {
                (void)shard(x, mesh, {none, "data", none});
              }),
              HasSubstr("3 dimensions for a tensor of 2"));
  EXPECT_THAT(told([&] { (void)shard(Tensor(), mesh, {}); }), HasSubstr("undefined"));
  EXPECT_THAT(told([&] { (void)constrain(x, mesh, {}); }), HasSubstr("not on the device"));
  EXPECT_THAT(told([&] { (void)shard(x.to(torch::Device("tpu:1")), mesh, {}); }),
              HasSubstr("Move it there first"));
  EXPECT_THAT(told([&] { (void)parts_of(x.to(tpu())); }), HasSubstr("on one device"));
  EXPECT_THAT(told([&] { (void)from_parts({x, x}, mesh, {}); }), HasSubstr("2 parts for 4 devices"));
  EXPECT_THAT(told([&] { (void)from_parts({x, x, x, x.t()}, mesh, {}); }), HasSubstr("differ"));
}

// A compiled step whose tensors lie otherwise from call to call.
TEST_F(OverMesh, StepsFollowWhereTensorsLie) {
  const Mesh mesh({{"data", 2}, {"model", 2}});
  const Tensor host = torch::randn({4, 4});
  Tensor w = host.to(tpu()), want_w = host.clone();
  auto step = compile([&](Tensor x) {
    w.mul_(0.5).add_(x.sum(0));
    return x.mm(w);
  });
  const std::vector<Split> ways = {{}, {"data"}, {none, "model"}, {"data", "model"}};
  for (int i = 0; i < 24; ++i) {
    const Tensor x = torch::randn({8, 4});
    want_w.mul_(0.5).add_(x.sum(0));
    if (i == 5) w.set_data(shard(w, mesh, ways[1]));
    if (i == 10) w.set_data(shard(w, mesh, ways[2]));
    if (i == 15) w.set_data(unshard(w));
    if (i == 18) w.copy_(w.cpu());
    const Tensor in = i % 7 < 3 ? x.to(tpu()) : shard(x, mesh, ways[static_cast<size_t>(i) % 4]);
    const Tensor got = step(in);
    ASSERT_TRUE(torch::allclose(got.cpu(), x.mm(want_w), 1e-4, 1e-5)) << i;
    ASSERT_TRUE(torch::allclose(w.cpu(), want_w, 1e-4, 1e-5)) << i;
  }
  EXPECT_GT(step.report().replayed, 0);
}

TEST_F(OverMesh, WhatIsOverwrittenLiesAsItDid) {
  const Mesh mesh({{"data", 4}});
  Tensor x = shard(torch::randn({8, 4}), mesh, {"data"});
  const std::string as_before = lies(x);
  x.zero_();
  EXPECT_EQ(lies(x), as_before);
  x.copy_(torch::ones({8, 4}));
  EXPECT_EQ(lies(x), as_before);
  EXPECT_EQ(x.sum().item<float>(), 32);
  x.copy_(torch::ones({4}).to(tpu()));
  EXPECT_EQ(lies(x), as_before);
  x.normal_();
  EXPECT_EQ(lies(x), as_before);
  x.detach().t().mul_(0);
  EXPECT_EQ(lies(x), as_before);
  EXPECT_EQ(x.abs().sum().item<float>(), 0);
  std::stringstream file;
  torch::save(x + 3, file);
  Tensor y;
  torch::load(y, file);
  EXPECT_TRUE(y.cpu().equal(torch::full({8, 4}, 3.0)));
}

TEST_F(OverMesh, GradientsGoThroughLayouts) {
  const Mesh mesh({{"data", 2}, {"model", 2}});
  const Tensor host = torch::randn({8, 4});
  Tensor a = host.clone().requires_grad_(), b = host.clone().requires_grad_();
  (a * a.tanh()).sum().backward();
  const Tensor over = shard(b, mesh, {"data"});
  (constrain(over, mesh, {none, "model"}) * over.tanh()).sum().backward();
  EXPECT_TRUE(torch::allclose(b.grad(), a.grad(), 1e-5, 1e-6));
  EXPECT_TRUE(b.grad().is_cpu());
  Tensor leaf = shard(host, mesh, {"model"}).requires_grad_();
  (leaf * leaf.tanh()).sum().backward();
  EXPECT_TRUE(torch::allclose(leaf.grad().cpu(), a.grad(), 1e-5, 1e-6));
  EXPECT_EQ(lies(leaf.grad()), "data=2, model=2: [model, -]");
}

// XLA's partitioner is wrong about negative padding, of which sums that run along a dimension were made.
TEST_F(OverMesh, RunningSumsAlongASplitDimension) {
  const Mesh mesh({{"data", 2}, {"model", 2}});
  const Tensor x = torch::randn({8, 4}, torch::kDouble);
  for (const Split& from : {Split{}, Split{"data"}, Split{"model", "data"}})
    for (const Split& to :
         {Split{}, Split{"data"}, Split{"data", "model"}, Split{SplitBy{"model", "data"}}}) {
      const Tensor in = shard(x, mesh, from);
      EXPECT_TRUE(torch::allclose(constrain(in.cumsum(0), mesh, to).cpu(), x.cumsum(0)));
      EXPECT_TRUE(torch::allclose(constrain(in.cumprod(0), mesh, to).cpu(), x.cumprod(0)));
      EXPECT_TRUE(constrain(at::constant_pad_nd(in, {0, 0, 3, -3}), mesh, to)
                      .cpu()
                      .equal(at::constant_pad_nd(x, {0, 0, 3, -3})));
      EXPECT_TRUE(constrain(at::constant_pad_nd(in, {0, 0, -2, 2}, 5), mesh, to)
                      .cpu()
                      .equal(at::constant_pad_nd(x, {0, 0, -2, 2}, 5)));
    }
}

TEST_F(OverMesh, MemoryIsCountedWhereItIs) {
  const Mesh mesh({{"data", 4}});
  const auto live = [] {
    std::vector<int64_t> out;
    for (int d = 0; d < 4; ++d) out.push_back(device_memory(d).live);
    return out;
  };
  sync();
  const auto before = live();
  {
    Tensor x = shard(torch::randn({1024, 16}), mesh, {"data"});
    for (size_t d = 0; d < 4; ++d) EXPECT_EQ(live()[d] - before[d], 16384) << d;
    x.mul_(2);
    sync(x);
    for (size_t d = 0; d < 4; ++d) EXPECT_EQ(live()[d] - before[d], 16384) << d;
    (void)x.cpu();  // no device needs the whole
    for (size_t d = 0; d < 4; ++d) EXPECT_EQ(live()[d] - before[d], 16384) << d;
    Tensor y = replicate(x, mesh);
    for (size_t d = 0; d < 4; ++d) EXPECT_EQ(live()[d] - before[d], 5 * 16384) << d;
    const int64_t limit = set_memory_limit(device_memory(2).live + 1000);
    EXPECT_THROW(sync(y * 2), TPUMemoryLimitError);
    (void)set_memory_limit(limit);
    EXPECT_TRUE((y * 2).cpu().equal(y.cpu() * 2));
  }
  EXPECT_EQ(live(), before);
}

TEST_F(OverMesh, FromOneMeshToAnother) {
  const Mesh one({{"a", 2}}), two({{"d", 4}});
  const auto x = torch::randn({8, 4});
  const auto on_one = shard(x, one, {"a"});
  expect_close(on_one * 2, x * 2);
  const auto on_two = shard(on_one, two, {"d"});
  expect_close(on_two, x);
  EXPECT_EQ(sharding_of(on_two)->str(), "d=4: [d, -]");
  EXPECT_EQ(sharding_of(on_one)->str(), "a=2: [a, -]");
  const auto columns = constrain(on_one * 2, two, {none, "d"});
  expect_close(columns, x * 2);
  EXPECT_EQ(sharding_of(columns)->str(), "d=4: [-, d]");
  expect_close(replicate(columns, one), x * 2);
  expect_close(on_one + on_two, x * 2);
}

}  // namespace
}  // namespace tpubridge
