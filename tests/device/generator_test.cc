// Random numbers: the same seed gives the same numbers, in every op that draws; states are saved, restored
// and cloned.
#include <gtest/gtest.h>

#include <functional>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using Draw = std::function<torch::Tensor(std::optional<at::Generator>)>;

const std::vector<std::pair<const char*, Draw>>& draws() {
  static const torch::TensorOptions f(tpu());
  static const auto whole = f.dtype(torch::kLong);
  using G = std::optional<at::Generator>;
  static const std::vector<std::pair<const char*, Draw>> all{
      {"rand", [](G g) { return torch::rand({50}, g, f); }},
      {"randn", [](G g) { return torch::randn({50}, g, f); }},
      {"randint", [](G g) { return torch::randint(1000, {50}, g, whole); }},
      {"randperm", [](G g) { return torch::randperm(50, g, whole); }},
      {"normal", [](G g) { return torch::normal(2, 3, {50}, g, f); }},
      {"normal of tensors", [](G g) { return at::normal(torch::zeros({50}, f), torch::ones({50}, f), g); }},
      {"normal around a tensor", [](G g) { return at::normal(torch::zeros({50}, f), 2., g); }},
      {"normal as wide as a tensor", [](G g) { return at::normal(3., torch::ones({50}, f), g); }},
      {"one of multinomial",
       [](G g) {
         return torch::multinomial(torch::ones({50, 40}, f), 1, false, g);
       }},
      {"rrelu", [](G g) { return torch::rrelu(torch::full({50}, -1., f), 0.1, 0.9, true, g); }},
      {"bernoulli", [](G g) { return torch::bernoulli(torch::full({50}, 0.4, f), g); }},
      {"multinomial", [](G g) { return torch::multinomial(torch::ones({50}, f), 20, false, g); }},
      {"multinomial with replacement",
       [](G g) { return torch::multinomial(torch::ones({50}, f), 20, true, g); }},
      {"uniform_", [](G g) { return torch::empty({50}, f).uniform_(-1, 1, g); }},
      {"normal_", [](G g) { return torch::empty({50}, f).normal_(0, 1, g); }},
      {"exponential_", [](G g) { return torch::empty({50}, f).exponential_(1, g); }},
      {"cauchy_", [](G g) { return torch::empty({50}, f).cauchy_(0, 1, g); }},
      {"log_normal_", [](G g) { return torch::empty({50}, f).log_normal_(1, 2, g); }},
      {"geometric_", [](G g) { return torch::empty({50}, f).geometric_(0.1, g); }},
      {"random_", [](G g) { return torch::empty({50}, f).random_(0, 1000, g); }},
      {"poisson", [](G g) { return torch::poisson(torch::full({50}, 20.0, f), g); }},
  };
  return all;
}

TEST(Generator, ManualSeedRepeatsEveryDraw) {
  FallbackScope quiet(Fallback::allow);
  for (const auto& [name, draw] : draws()) {
    SCOPED_TRACE(name);
    torch::manual_seed(123);
    const auto first = draw({}).cpu(), second = draw({}).cpu();
    EXPECT_FALSE(first.equal(second)) << "draws move on";
    torch::manual_seed(123);
    EXPECT_TRUE(draw({}).cpu().equal(first));
    EXPECT_TRUE(draw({}).cpu().equal(second));
    torch::manual_seed(124);
    EXPECT_FALSE(draw({}).cpu().equal(first)) << "another seed, other numbers";
  }
}

TEST(Generator, OfTheUsersOwnIsIndependent) {
  FallbackScope quiet(Fallback::allow);
  for (const auto& [name, draw] : draws()) {
    SCOPED_TRACE(name);
    auto g = at::globalContext().getAcceleratorHooksInterface(tpu().type()).getNewGenerator(0);
    g.set_current_seed(7);
    const auto first = draw(g).cpu();
    torch::manual_seed(1);  // the default generator
    (void)draw({}).cpu();
    EXPECT_FALSE(draw(g).cpu().equal(first)) << "the second draw of g";
    g.set_current_seed(7);
    EXPECT_TRUE(draw(g).cpu().equal(first));
  }
}

TEST(Generator, StateIsSavedAndRestored) {
  FallbackScope quiet(Fallback::allow);
  auto g = at::globalContext().defaultGenerator(tpu());
  for (const auto& [name, draw] : draws()) {
    SCOPED_TRACE(name);
    const auto state = g.get_state();
    const auto first = draw({}).cpu();
    g.set_state(state);
    EXPECT_TRUE(draw({}).cpu().equal(first));
  }
  EXPECT_THROW(g.set_state(torch::zeros({3}, torch::kByte)), c10::Error);
}

TEST(Generator, CloneGoesItsOwnWay) {
  auto g = at::globalContext().getAcceleratorHooksInterface(tpu().type()).getNewGenerator(0);
  g.set_current_seed(11);
  EXPECT_EQ(g.current_seed(), 11u);
  (void)torch::rand({5}, g, tpu());
  auto fork = g.clone();
  const auto a = torch::rand({5}, g, tpu()), b = torch::rand({5}, fork, tpu());
  EXPECT_TRUE(a.equal(b)) << "the fork begins where the original stood";
  (void)torch::rand({5}, g, tpu());
  EXPECT_FALSE(torch::rand({5}, g, tpu()).equal(torch::rand({5}, fork, tpu())));
  EXPECT_NE(fork.seed(), 11u) << "a seed from the system";
}

TEST(Generator, OfTheCpuIsRefused) {
  auto g = at::make_generator<at::CPUGeneratorImpl>(3);
  EXPECT_THROW((void)torch::rand({5}, g, tpu()).cpu(), c10::Error);
}

TEST(Generator, DropoutMasksRepeat) {
  const auto mask = [] { return torch::dropout(torch::ones({64}, tpu()), 0.5, true).cpu(); };
  torch::manual_seed(4);
  const auto first = mask();
  EXPECT_FALSE(mask().equal(first));
  torch::manual_seed(4);
  EXPECT_TRUE(mask().equal(first));
}

TEST(Generator, PermutationsHoldEveryNumberOnce) {
  FallbackScope quiet(Fallback::allow);
  torch::manual_seed(4);
  for (const int64_t n : {1, 2, 10, 1000})
    EXPECT_TRUE(std::get<0>(torch::randperm(n, torch::TensorOptions(tpu()).dtype(torch::kLong)).cpu().sort())
                    .equal(torch::arange(n)));
}

}  // namespace
}  // namespace tpubridge
