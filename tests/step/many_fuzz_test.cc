// Windows of many steps beside so many single calls: the same case in two compiled worlds. Mostly they are
// equal to the bit; now and then XLA rounds the body of a loop in another way, and then the case ends there,
// and is counted.
//
//   TPUBRIDGE_FUZZ_SEED=123 TPUBRIDGE_FUZZ_SECONDS=600 test_step --gtest_filter=ManyFuzz.ForHours
#include <chrono>
#include <cstdlib>

#include "tests/step/fuzz_world.h"

namespace tpubridge::fuzz {
namespace {

// What differs by more than rounding, or nothing; `rounded`: whether there is any difference.
std::string difference(const World& want, const World& got, bool& rounded) {
  const auto a = want.look(), b = got.look();
  if (a.size() != b.size()) return "another number of things to look at";
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].kind == "memory") continue;
    if (a[i].what != b[i].what || a[i].facts != b[i].facts)
      return a[i].what + ": " + b[i].facts + " | " + a[i].facts;
    if (a[i].value.defined() != b[i].value.defined()) return a[i].what + ": one of them cannot be read";
    if (!a[i].value.defined() || a[i].kind == "generator") continue;
    const auto same = (a[i].value == b[i].value) | (a[i].value.isnan() & b[i].value.isnan());
    if (same.all().item<bool>()) continue;
    rounded = true;
    const double most = a[i].value.scalar_type() == torch::kDouble ? 1e-10 : 1e-5;
    if (!torch::allclose(a[i].value, b[i].value, most, most, /*equal_nan=*/true))
      return a[i].what + ": they differ by " +
             std::to_string((a[i].value - b[i].value).abs().max().item<double>());
  }
  return "";
}

std::string error_of_act(World& w, const Act& a, uint64_t number) {
  try {
    if (a.what == Do::many) {
      w.call_many(number, steps_of_many(a));
    } else if (a.what == Do::call) {
      w.make_arguments(number);
      w.call();
    } else if (a.what > Do::many) {
      w.apply(a);
    }
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

// Windows stand where calls and other acts do, too. Three of four cases have nothing that keeps a step from
// being a loop.
Case case_of_windows(uint64_t seed) {
  Case c = generate(seed);
  if (seed % 4 != 0) {
    c.step.write = Write::none;
    c.step.named = Named::all;
    c.step.schedule = false;
    c.step.returns &= ~static_cast<unsigned>(kArgument);
    if (c.step.returns == 0) c.step.returns = kLoss;
  }
  uint64_t dice = seed * 0x9e3779b97f4a7c15u + 7;
  for (auto& a : c.acts) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    if (a.what == Do::call && (dice >> 33) % 2 == 0) a = {Do::many, static_cast<int>((dice >> 40) % 4), 0};
  }
  return c;
}

void check_values(uint64_t seed, uint64_t& rounded_cases) {
  const Case c = case_of_windows(seed);
  World single(c, World::Kind::compiled), many(c, World::Kind::compiled);
  single.singly = true;
  uint64_t number = 0;
  for (size_t i = 0; i < c.acts.size(); ++i) {
    ++number;
    const std::string want = error_of_act(single, c.acts[i], number),
                      got = error_of_act(many, c.acts[i], number);
    ASSERT_EQ(want.empty(), got.empty()) << "seed " << seed << ", act " << i << "\n"
                                         << want << "\n"
                                         << got << "\n"
                                         << as_program(c);
    if (!want.empty()) return;
    bool rounded = false;
    ASSERT_EQ(difference(single, many, rounded), "") << "seed " << seed << ", act " << i << "\n"
                                                     << as_program(c);
    if (rounded) return void(++rounded_cases);
  }
}

struct PutBack {
  ~PutBack() { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }
};

class ManyFuzzSeeds : public testing::TestWithParam<uint64_t> {};
TEST_P(ManyFuzzSeeds, ValuesOfSingleCalls) {
  constexpr uint64_t seeds = 6;
  const int64_t before = calls().looped;
  uint64_t rounded = 0;
  for (uint64_t i = 0; i < seeds; ++i) {
    const PutBack after;
    check_values(GetParam() * seeds + i, rounded);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(calls().looped, before);
  EXPECT_LE(rounded, seeds / 2);
}
INSTANTIATE_TEST_SUITE_P(ManyFuzz, ManyFuzzSeeds, testing::Range<uint64_t>(0, 2));

TEST(ManyFuzz, ForHours) {
  const char* seconds = std::getenv("TPUBRIDGE_FUZZ_SECONDS");
  if (!seconds) GTEST_SKIP() << "TPUBRIDGE_FUZZ_SECONDS says how long";
  const char* first = std::getenv("TPUBRIDGE_FUZZ_SEED");
  const auto failures = [] {
    return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  };
  const int before = failures();
  uint64_t seed = first ? std::strtoull(first, nullptr, 10) : 1000, cases = 0, rounded = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(seconds));
  for (; std::chrono::steady_clock::now() < end && failures() < before + 5; ++seed, ++cases) {
    const PutBack after;
    check_values(seed, rounded);
  }
  EXPECT_GT(calls().looped, 0);
  std::printf("%lu cases, %lu of them with other last bits; %ld of %ld calls replayed, %ld in loops\n", cases,
              rounded, calls().replayed, calls().all, calls().looped);
}

}  // namespace
}  // namespace tpubridge::fuzz
