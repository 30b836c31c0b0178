// Each collective beside what the values of all ranks, which every rank can make, come to.
#include <unistd.h>

#include <future>
#include <thread>

#include "tests/distributed/ranks/ranks.h"

namespace tpubridge {
namespace {

torch::Tensor numbers(int64_t rank, std::vector<int64_t> sizes, torch::ScalarType type) {
  torch::manual_seed(100 + static_cast<uint64_t>(rank));
  if (type == torch::kBool) return torch::rand(sizes) < 0.5;
  if (c10::isComplexType(type)) return torch::randn(sizes, type);
  return (torch::randn(sizes) * 4).to(type);
}

const std::vector<torch::ScalarType> kTypes = {
    torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16,     torch::kInt,          torch::kLong,
    torch::kChar,  torch::kByte,   torch::kBool, torch::kComplexFloat, torch::kComplexDouble};

TEST(Ranks, SumsMeansAndExtremes) {
  const int64_t me = joined(), world = dist::world_size();
  for (const auto type : kTypes)
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{}, {1}, {5, 3}, {0}, {2, 1, 4}}) {
      const auto all = on_all_ranks([&](int64_t r) { return numbers(r, sizes, type); });
      const auto mine = all[static_cast<size_t>(me)].to(tpu());
      const auto stacked = torch::stack(all);
      const bool complex = c10::isComplexType(type), whole = c10::isIntegralType(type, true);
      if (type != torch::kBool) expect_close(dist::all_reduce(mine), stacked.sum(0).to(type), 4);
      if (!whole) expect_close(dist::all_reduce(mine, "mean"), (stacked.sum(0) / world).to(type), 4);
      if (complex) continue;
      if (type == torch::kBool) {
        expect_close(dist::all_reduce(mine, "max"), stacked.any(0));
        expect_close(dist::all_reduce(mine, "min"), stacked.all(0));
        continue;
      }
      expect_close(dist::all_reduce(mine, "max"), std::get<0>(stacked.max(0)));
      expect_close(dist::all_reduce(mine, "min"), std::get<0>(stacked.min(0)));
      if (type == torch::kFloat || type == torch::kInt)
        expect_close(dist::all_reduce(mine, "product"), stacked.prod(0).to(type), 4);
    }
}

TEST(Ranks, ValuesThatMove) {
  const int64_t me = joined(), world = dist::world_size();
  auto types = kTypes;
  types.push_back(torch::kShort);
  for (const auto type : types) {
    const auto all = on_all_ranks([&](int64_t r) { return numbers(r, {2 * world, 3}, type); });
    const auto mine = all[static_cast<size_t>(me)].to(tpu());
    expect_close(dist::all_gather(mine), torch::cat(all));
    expect_close(
        dist::all_gather(mine.t()),
        torch::cat(on_all_ranks([&](int64_t r) { return all[static_cast<size_t>(r)].t().contiguous(); })));
    for (int64_t root = 0; root < world; ++root)
      expect_close(dist::broadcast(mine, root), all[static_cast<size_t>(root)]);
    expect_close(dist::all_to_all(mine), torch::cat(on_all_ranks([&](int64_t r) {
                   return all[static_cast<size_t>(r)].chunk(world)[static_cast<size_t>(me)];
                 })));
    if (type == torch::kFloat)
      expect_close(dist::reduce_scatter(mine), torch::stack(all).sum(0).chunk(world)[static_cast<size_t>(me)],
                   4);
  }
  expect_close(dist::all_gather(torch::tensor(float(me)).to(tpu())), torch::arange(float(world)));
  // From the host, back to the host.
  const auto there = dist::all_reduce(torch::full({2}, me + 1.0));
  EXPECT_TRUE(there.is_cpu());
  EXPECT_EQ(there[0].item<double>(), world * (world + 1) / 2.0);
}

TEST(Ranks, Messages) {
  const int64_t me = joined(), world = dist::world_size(), next = (me + 1) % world,
                before = (me + world - 1) % world;
  for (int round = 0; round < 3; ++round) {  // all send first: nobody may wait for the other to receive
    const auto mine = torch::full({40000}, me * 10.0 + round).to(tpu());
    dist::send(mine, next, round);
    dist::send(mine.slice(0, 0, 3) + 1, next, 7);
    const auto got = dist::recv(torch::zeros_like(mine), before, round);
    EXPECT_EQ(got.mean().item<double>(), before * 10.0 + round);
    EXPECT_EQ(dist::recv(torch::zeros({3}, tpu()), before, 7).sum().item<double>(),
              3 * (before * 10.0 + round + 1));
  }
  dist::barrier();
}

// A pipeline may wait longer than a collective of other ranks would: they do not do the same, and need not.
TEST(Ranks, MessagesThatWait) {
  const int64_t me = joined();
  const auto like = torch::zeros({4}, tpu());
  (void)dist::all_reduce(like).cpu();
  if (me == 2) {
    std::this_thread::sleep_for(std::chrono::seconds(6));
    dist::send(torch::full({4}, 5.0).to(tpu()), 0);
  } else {
    const auto got = dist::recv(like, me == 0 ? 2 : 0);
    EXPECT_EQ(got.sum().item<float>(), 20);
    if (me == 0) dist::send(got, 1);
  }
  dist::barrier();
}

// Rank 0 alone reads what all have called; the others end, one of them while another thread uses the device.
TEST(Ranks, WhatNobodyReads) {
  const int64_t me = joined();
  const auto sum = dist::all_reduce(torch::full({4}, 1.0).to(tpu()));
  if (me == 0) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    EXPECT_EQ(sum.sum().item<double>(), 4.0 * dist::world_size());
  } else if (me == 1) {
    auto traced = std::make_shared<std::promise<void>>();
    auto ready = traced->get_future();
    std::thread([traced] {
      const auto mine = torch::ones({2}).to(tpu()) + 1;
      traced->set_value();
      while (true) ::pause();
    }).detach();
    ready.wait();
  }
}

// The sum of all ranks' losses, by the chain rule on one process.
TEST(Ranks, Gradients) {
  const int64_t me = joined(), world = dist::world_size();
  const auto xs = on_all_ranks([&](int64_t r) { return numbers(r, {2 * world, 2}, torch::kDouble); });
  using F = std::function<torch::Tensor(const std::vector<torch::Tensor>&, int64_t)>;
  using G = std::function<torch::Tensor(const torch::Tensor&)>;
  const std::vector<std::pair<G, F>> cases = {
      {[](const auto& x) { return dist::all_reduce(x); },
       [](const auto& all, int64_t) { return torch::stack(all).sum(0); }},
      {[](const auto& x) { return dist::all_reduce(x, "mean"); },
       [](const auto& all, int64_t) { return torch::stack(all).mean(0); }},
      {[](const auto& x) { return dist::all_gather(x); },
       [](const auto& all, int64_t) { return torch::cat(all); }},
      {[](const auto& x) { return dist::reduce_scatter(x, "mean"); },
       [&](const auto& all, int64_t r) { return torch::stack(all).mean(0).chunk(world)[size_t(r)]; }},
      {[](const auto& x) { return dist::broadcast(x, 1); }, [](const auto& all, int64_t) { return all[1]; }},
      {[](const auto& x) { return dist::all_to_all(x); },
       [&](const auto& all, int64_t r) {
         std::vector<torch::Tensor> parts;
         for (const auto& t : all) parts.push_back(t.chunk(world)[size_t(r)]);
         return torch::cat(parts);
       }},
  };
  for (const auto& [collective, reference] : cases) {
    auto x = xs[size_t(me)].to(tpu()).requires_grad_();
    const auto y = collective(x.sin());
    (y.pow(2) * (me + 1.0)).sum().backward();

    std::vector<torch::Tensor> leaves, values;
    for (const auto& t : xs)
      leaves.push_back(t.clone().requires_grad_()), values.push_back(leaves.back().sin());
    torch::Tensor loss = torch::zeros({}, torch::kDouble);
    for (int64_t r = 0; r < world; ++r) loss = loss + (reference(values, r).pow(2) * (r + 1.0)).sum();
    loss.backward();
    const auto want = leaves[size_t(me)].grad();
    expect_close(x.grad(), want.defined() ? want : torch::zeros_like(leaves[size_t(me)]));
  }
  auto x = xs[size_t(me)].to(tpu()).requires_grad_();
  EXPECT_THROW(dist::all_reduce(x, "max").sum().backward(), UnsupportedError);
}

TEST(Ranks, TheDeviceIsOpenedAgain) {
  const int64_t me = joined(), world = dist::world_size();
  for (int i = 0; i < 3; ++i) {
    const auto x = torch::full({3}, me + 1.0).to(tpu());
    expect_close(dist::all_reduce(x), torch::full({3}, world * (world + 1) / 2.0));
    if (i < 2 && (i == 0 || me == 1)) reopen_device();  // on all, then on one alone
  }
}

TEST(Ranks, WhatCannotBeIsSaidAtTheCall) {
  joined();
  const auto x = torch::ones({5, 2}).to(tpu());
  const auto fails = [](const auto& run) { return words_of_failure(run); };
  const auto has = [](const std::string& all, const char* part) { return all.find(part) != all.npos; };
  EXPECT_TRUE(has(fails([&] { (void)dist::reduce_scatter(x); }), "no 3 equal parts"));
  EXPECT_TRUE(has(fails([&] { (void)dist::all_reduce(x, "median"); }), "no reduction 'median'"));
  EXPECT_TRUE(has(fails([&] { (void)dist::all_reduce(x.to(torch::kInt), "mean"); }), "no whole number"));
  EXPECT_TRUE(has(fails([&] { (void)dist::all_reduce(x.to(torch::kShort)); }), "element type"));
  EXPECT_TRUE(has(fails([&] { (void)dist::broadcast(x, 3); }), "no rank 3"));
  EXPECT_TRUE(has(fails([&] { dist::send(x, dist::rank()); }), "itself"));
  EXPECT_TRUE(has(fails([&] { (void)dist::all_gather(torch::Tensor()); }), "undefined"));
  EXPECT_THROW(dist::init(), ArgumentError);
  EXPECT_EQ(dist::all_reduce(x).sum().item<float>(), 30);  // nothing is lost by it
}

}  // namespace
}  // namespace tpubridge
