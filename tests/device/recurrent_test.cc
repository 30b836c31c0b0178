// Recurrent nets: one op for a layer in one direction, whatever the length; values and gradients as the
// CPU's.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>

#include "tests/device/recurrent.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

void expect_same(const Recurrent& r, uint64_t seed, double scale = 1) {
  SCOPED_TRACE(r.str());
  const auto given = inputs_of(r, seed);
  auto run = [&](torch::Device d) {
    const auto in = given.to(d, true);
    auto results = call(r, in);
    weighed(results).backward();
    for (const auto& t : in.all()) results.push_back(t.grad());
    return results;
  };
  const auto fallbacks = metrics().fallback_count();
  const Tensors want = run(torch::kCPU), got = run(tpu());
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    expect_close(got[i], want[i], scale);
    EXPECT_EQ(got[i].strides(), want[i].strides());
  }
  EXPECT_EQ(metrics().fallback_count(), fallbacks);
}

class RecurrentSeeds : public testing::TestWithParam<uint64_t> {};
TEST_P(RecurrentSeeds, ValuesAndGradientsAreTheCpus) { expect_same(random_recurrent(GetParam(), false), 1); }
TEST_P(RecurrentSeeds, PackedSequencesToo) { expect_same(random_recurrent(GetParam() + 1000, true), 1); }
INSTANTIATE_TEST_SUITE_P(Random, RecurrentSeeds, testing::Range<uint64_t>(0, 10));

class RecurrentCells : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] Recurrent net() const {
    Recurrent r;
    r.cell = GetParam();
    r.layers = 2;
    r.both_ways = true;
    return r;
  }
};
INSTANTIATE_TEST_SUITE_P(All, RecurrentCells, testing::Values("lstm", "gru", "tanh", "relu"));

TEST_P(RecurrentCells, OtherElementTypes) {
  Recurrent r = net();
  r.dtype = torch::kDouble;
  expect_same(r, 5);
  r.dtype = torch::kBFloat16;
  expect_same(r, 5, 4);
}

// The trace of one call, forward and backward.
int64_t ops_of(Recurrent r, int64_t length) {
  r.length = length;
  const auto in = inputs_of(r, 1).to(tpu(), true);
  sync();
  const auto before = metrics().traced_ops;
  const auto results = call(r, in);
  results[0].sum().backward();
  const auto ops = metrics().traced_ops - before;
  EXPECT_TRUE(std::isfinite(in.x.grad().sum().item<float>()));
  return static_cast<int64_t>(ops);
}

TEST_P(RecurrentCells, TheProgramDoesNotGrowWithTheLength) {
  Recurrent r = net();
  EXPECT_EQ(ops_of(r, 3), ops_of(r, 40));
  r.both_ways = false;
  r.layers = 1;
  EXPECT_LT(ops_of(r, 40), 25);
}

TEST_P(RecurrentCells, WithoutGradientsToo) {
  const Recurrent r = net();
  const auto given = inputs_of(r, 2);
  const auto want = call(r, given.to(torch::kCPU, false));
  const auto in = given.to(tpu(), true);
  auto expect_values = [&](const Tensors& got) {
    for (size_t i = 0; i < want.size(); ++i) {
      expect_close(got[i], want[i]);
      EXPECT_FALSE(got[i].requires_grad());
    }
  };
  {
    const torch::NoGradGuard none;
    expect_values(call(r, in));
  }
  const c10::InferenceMode inference;
  expect_values(call(r, in));
}

TEST_P(RecurrentCells, OnlyTheGradientsThatAreAskedFor) {
  const Recurrent r = net();
  const auto given = inputs_of(r, 3);
  auto run = [&](torch::Device d) {
    auto in = given.to(d, false);
    in.weights[1].requires_grad_();
    in.state[0].requires_grad_();
    weighed({call(r, in)[1]}).backward();  // the last states alone
    EXPECT_FALSE(in.x.grad().defined());
    return Tensors{in.weights[1].grad(), in.state[0].grad()};
  };
  const auto want = run(torch::kCPU), got = run(tpu());
  for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i]);
}

TEST_P(RecurrentCells, TheOutputMayBeChangedInPlace) {
  const Recurrent r = net();
  const auto given = inputs_of(r, 4);
  auto run = [&](torch::Device d) {
    const auto in = given.to(d, true);
    auto out = call(r, in)[0];
    out.mul_(2);
    weighed({out}).backward();
    return in.weights[0].grad();
  };
  expect_close(run(tpu()), run(torch::kCPU));
}

TEST_P(RecurrentCells, GradientsOfGradients) {
  for (const bool packed : {false, true}) {
    Recurrent r = net();
    r.packed = packed;
    r.layers = 1;
    r.length = 3;
    if (r.cell == "lstm" && packed) r.projection = 3;
    const auto given = inputs_of(r, 6);
    auto run = [&](torch::Device d) {
      const auto in = given.to(d, true);
      const auto first = torch::autograd::grad({weighed(call(r, in))}, {in.x, in.weights[1]}, {}, true, true);
      weighed(first).backward();
      Tensors out = first;
      for (const auto& t : in.all()) out.push_back(t.grad());
      return out;
    };
    const auto want = run(torch::kCPU), got = run(tpu());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(want[i].defined(), got[i].defined()) << i;
      if (want[i].defined()) expect_close(got[i], want[i], 2);
    }
  }
}

TEST_P(RecurrentCells, DropoutFollowsTheSeed) {
  Recurrent r = net();
  r.layers = 2;
  const auto in = inputs_of(r, 7).to(tpu(), false);
  auto run = [&](double p, bool train) { return call(r, in, p, train)[0].cpu(); };
  torch::manual_seed(3);
  const auto first = run(0.5, true), second = run(0.5, true);
  torch::manual_seed(3);
  EXPECT_TRUE(torch::equal(first, run(0.5, true)));
  EXPECT_FALSE(torch::equal(first, second));
  EXPECT_TRUE(torch::equal(run(0.5, false), run(0, true)));
  // Nothing of the first layer reaches the second.
  Recurrent zeros = r;
  zeros.layers = 1;
  RecurrentInputs top = in;
  const size_t half = in.weights.size() / 2;
  top.x = torch::zeros({r.length, r.batch, 2 * r.hidden}, tpu());
  top.weights.assign(in.weights.begin() + static_cast<int64_t>(half), in.weights.end());
  for (auto& s : top.state) s = s.slice(0, 2);
  expect_close(run(1, true), call(zeros, top)[0].cpu());
}

// What is wrong is told in torch's words, at the call.
TEST_P(RecurrentCells, WrongCallsAreToldAsByTorch) {
  const Recurrent r = net();
  const auto given = inputs_of(r, 8);
  struct Wrong {
    std::string words;
    std::function<void(RecurrentInputs&)> change;
  };
  const std::vector<Wrong> wrongs{
      {"cannot be multiplied", [](auto& in) { in.x = in.x.slice(-1, 0, 3); }},
      {"got an incorrect number of RNN parameters", [](auto& in) { in.weights.pop_back(); }},
      {"cannot be multiplied", [](auto& in) { in.weights[1] = in.weights[1].slice(1, 0, 2); }},
      {"", [](auto& in) { in.state[0] = in.state[0].slice(0, 0, 1); }},
      {"Expected sequence length to be larger than 0", [](auto& in) { in.x = in.x.slice(0, 0, 0); }},
      {"dtype", [](auto& in) { in.weights[0] = in.weights[0].to(torch::kDouble); }},
  };
  for (size_t i = 0; i < wrongs.size(); ++i) {
    auto in = given.to(tpu(), false);
    wrongs[i].change(in);
    try {
      (void)call(r, in);
      ADD_FAILURE() << i << ": no error";
    } catch (const c10::Error& e) {
      EXPECT_THAT(e.what_without_backtrace(), HasSubstr(wrongs[i].words)) << i;
    }
  }
}

TEST(RecurrentNets, WeightsOfAnotherDeviceAreNamed) {
  const Recurrent r;
  auto in = inputs_of(r, 8).to(tpu(), false);
  in.weights[0] = in.weights[0].cpu();
  try {
    (void)call(r, in);
    FAIL() << "no error";
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("not at the same device"));
  }
}

TEST_P(RecurrentCells, AutocastComputesInHalfPrecision) {
  const Recurrent r = net();
  const auto given = inputs_of(r, 9);
  const auto want = call(r, given);
  at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
  at::autocast::set_autocast_dtype(at::kPrivateUse1, torch::kBFloat16);
  const auto in = given.to(tpu(), true);
  const auto got = call(r, in);
  at::autocast::set_autocast_enabled(at::kPrivateUse1, false);
  at::autocast::clear_cache();
  weighed(got).backward();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].scalar_type(), torch::kBFloat16);
    expect_close(got[i], want[i].to(torch::kBFloat16), 2);
  }
  EXPECT_EQ(in.weights[0].grad().scalar_type(), torch::kFloat);
}

// A compiled step of training, with sequences of other lengths in between.
TEST_P(RecurrentCells, TrainInCompiledSteps) {
  const Recurrent r = net();
  auto train = [&](torch::Device d, bool compiled) {
    const auto in = inputs_of(r, 10).to(d, true);
    torch::optim::SGD sgd(in.weights, torch::optim::SGDOptions(0.05).momentum(0.9));
    auto step = [&](const Tensor& x) {
      sgd.zero_grad();
      RecurrentInputs now = in;
      now.x = x;
      for (auto& s : now.state) s = s.detach();
      auto loss = call(r, now)[0].square().mean();
      loss.backward();
      sgd.step();
      return loss;
    };
    auto fast = compile(step, {.optimizers = {&sgd}});
    std::vector<double> losses;
    for (int i = 0; i < 18; ++i) {
      torch::manual_seed(static_cast<uint64_t>(i));
      const auto x = torch::randn({i % 3 == 2 ? 6 : 4, r.batch, r.inputs}).to(d);
      losses.push_back((compiled ? fast(x) : step(x)).template item<double>());
    }
    if (compiled) {
      EXPECT_GT(fast.report().replayed, 2) << fast.report().why_traced;
    }
    return losses;
  };
  const auto want = train(torch::kCPU, false), got = train(tpu(), true);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * std::abs(want[i]) + 1e-7) << i;
}

// Other lengths with the same sums: the same program, traced or replayed.
TEST_P(RecurrentCells, LengthsOfPackedSequencesAreData) {
  Recurrent r = net();
  r.packed = true;
  r.length = 4;
  const auto given = inputs_of(r, 11);
  const Tensor x = torch::randn({8, r.inputs});
  const std::vector<Tensor> sizes{torch::tensor({3, 2, 2, 1}, torch::kLong),
                                  torch::tensor({3, 3, 1, 1}, torch::kLong)};
  auto run = [&](const RecurrentInputs& weights, const Tensor& x, const Tensor& sizes) {
    RecurrentInputs in = weights;
    in.x = x;
    in.batch_sizes = sizes;
    return call(r, in)[0];
  };
  const auto there = given.to(tpu(), false);
  auto fast = compile([&](const Tensor& x, const Tensor& sizes) { return run(there, x, sizes); });
  std::vector<int64_t> compiles;
  for (int i = 0; i < 16; ++i) {
    const Tensor& now = sizes[static_cast<size_t>(i % 2)];
    const Tensor want = run(given, x, now);
    expect_close(run(there, x.to(tpu()), now), want);
    expect_close(fast(x.to(tpu()), now), want);
    compiles.push_back(metrics().compiles);
  }
  EXPECT_EQ(compiles.back(), compiles[3]);
  EXPECT_GT(fast.report().replayed, 3) << fast.report().why_traced;
}

}  // namespace
}  // namespace tpubridge
