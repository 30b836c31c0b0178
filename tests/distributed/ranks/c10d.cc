// Code that was written for torch's own c10d::ProcessGroup.
#include "tests/distributed/ranks/ranks.h"
#include "tpubridge/distributed/process_group.h"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

namespace tpubridge {
namespace {

TEST(Ranks, AProcessGroupOfTorch) {
  const int64_t me = joined(), world = dist::world_size();
  const auto group = dist::process_group();
  EXPECT_EQ(group->getRank(), me);
  EXPECT_EQ(c10d::resolve_process_group("tpubridge").get(), group.get());
  const double sum = world * (world + 1) / 2.0;
  for (const auto& device : {torch::Device("cpu"), tpu()}) {
    std::vector<torch::Tensor> all = {torch::full({4}, me + 1.0, device)};
    group->allreduce(all)->wait();
    EXPECT_EQ(all[0].sum().item<double>(), 4 * sum) << device;

    all = {torch::full({2}, me + 1.0, device)};
    c10d::BroadcastOptions from_last;
    from_last.rootRank = world - 1;
    group->broadcast(all, from_last)->wait();
    EXPECT_EQ(all[0][1].item<double>(), double(world)) << device;

    std::vector<torch::Tensor> in = {torch::full({2}, me + 1.0, device)};
    std::vector<std::vector<torch::Tensor>> out(1);
    for (int64_t r = 0; r < world; ++r)
      out[0].push_back(torch::zeros({2}, torch::TensorOptions(device).dtype(torch::kDouble)));
    in[0] = in[0].to(torch::kDouble);
    group->allgather(out, in)->wait();
    for (int64_t r = 0; r < world; ++r) EXPECT_EQ(out[0][size_t(r)][0].item<double>(), r + 1.0) << device;

    c10d::ReduceOptions to_first;
    all = {torch::full({2}, me + 1.0, device)};
    group->reduce(all, to_first)->wait();
    EXPECT_TRUE(me != 0 || all[0][0].item<double>() == sum) << device;

    std::vector<torch::Tensor> part = {torch::zeros({2}, device)};
    std::vector<std::vector<torch::Tensor>> parts(me == 0 ? 1 : 0);
    if (me == 0)
      for (int64_t r = 0; r < world; ++r) parts[0].push_back(torch::full({2}, float(10 * r), device));
    group->scatter(part, parts)->wait();
    EXPECT_EQ(part[0][1].item<float>(), 10.0f * me) << device;

    in = {torch::full({2}, me + 1.0, device)};
    out.clear();
    if (me == 0) out.emplace_back();
    for (int64_t r = 0; me == 0 && r < world; ++r) out[0].push_back(torch::zeros_like(in[0]));
    group->gather(out, in)->wait();
    for (int64_t r = 0; me == 0 && r < world; ++r)
      EXPECT_EQ(out[0][size_t(r)][1].item<double>(), r + 1.0) << device;

    group->barrier()->wait();
  }
  // On the device alone: the Gloo of older torches has none.
  std::vector<torch::Tensor> to, from;
  for (int64_t r = 0; r < world; ++r) {
    to.push_back(torch::full({3}, float(100 * me + r), tpu()));
    from.push_back(torch::zeros({3}, tpu()));
  }
  group->alltoall(from, to)->wait();
  for (int64_t r = 0; r < world; ++r) EXPECT_EQ(from[size_t(r)][0].item<float>(), 100.0f * r + me);
}

// Who sends may wait for an answer by another way before anything else is read.
TEST(Ranks, WhatIsSentNeedsNoReader) {
  const int64_t me = joined();
  const auto group = dist::process_group();
  std::vector<torch::Tensor> there = {torch::full({3}, me == 0 ? 5.0 : 0.0, tpu())},
                             answer = {torch::zeros({3})};
  if (me == 0) {
    group->send(there, 1, 0)->wait();
    group->recv(answer, 1, 0)->wait();
    EXPECT_EQ(answer[0].sum().item<float>(), 15);
  } else {
    group->recv(there, 0, 0)->wait();
    answer = {there[0].cpu()};
    group->send(answer, 0, 0)->wait();
  }
}

// By the names that every torch from 2.10 on has.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST(Ranks, FlatFormsAndFunctionalOps) {
  const int64_t me = joined(), world = dist::world_size();
  const auto group = dist::process_group();
  auto in = torch::arange(double(2 * world)).to(tpu()) + double(me),
       out = torch::zeros({2}, torch::kDouble).to(tpu());
  group->_reduce_scatter_base(out, in)->wait();
  EXPECT_EQ(out[0].item<double>(), world * 2.0 * me + world * (world - 1) / 2.0);
  auto all = torch::zeros({2 * world}, torch::kDouble).to(tpu());
  group->_allgather_base(all, out)->wait();
  EXPECT_EQ(all[2].item<double>(), world * 2.0 + world * (world - 1) / 2.0);

  const auto work = [&] {
    std::vector<torch::Tensor> one = {torch::ones({2}, tpu())};
    auto w = group->allreduce(one);
    EXPECT_TRUE(w->isCompleted());
    EXPECT_EQ(w->result()[0][0].item<float>(), float(world));
    return w;
  }();
  EXPECT_TRUE(work->wait());

  // The functional ops, which compiled Python programs are made of.
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::all_reduce", "");
  torch::jit::Stack stack = {torch::full({3}, me + 1.0f, tpu()), "sum", "tpubridge"};
  op.callBoxed(stack);
  const auto wait = c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "");
  wait.callBoxed(stack);
  EXPECT_EQ(stack[0].toTensor().sum().item<float>(), 3 * world * (world + 1) / 2.0f);
  EXPECT_TRUE(stack[0].toTensor().is_privateuseone());
}

}  // namespace
}  // namespace tpubridge
