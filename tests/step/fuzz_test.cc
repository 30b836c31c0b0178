// Compiled steps against the same steps uncompiled and on the CPU, over cases that seeds give.
//
//   TPUBRIDGE_FUZZ_SEED=123 test_step --gtest_filter=Fuzz.OneSeed
//   TPUBRIDGE_FUZZ_SECONDS=3600 TPUBRIDGE_FUZZ_SEED=1000 test_step --gtest_filter=Fuzz.ForHours
//
// TPUBRIDGE_FUZZ_WITHOUT=freeze,version leaves acts out, and does not count differences of a kind (fuzz.h).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/step/fuzz.h"
#include "tests/step/fuzz_world.h"

namespace tpubridge::fuzz {
namespace {

std::optional<uint64_t> number_of(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

struct Failure {
  std::string kind;  // what differs, and the acts that are needed for it
  std::string text;
};

std::optional<Failure> check(uint64_t seed, std::string* why_not = nullptr) {
  constexpr double seconds_to_shrink = 20;
  const Case c = generate(seed);
  auto d = run(c, why_not);
  if (!d) return std::nullopt;
  const Case small = shrink(c, *d, seconds_to_shrink);
  Failure f{d->kind, ""};
  for (const auto& act : small.acts)
    if (act.what != Do::call) f.kind += std::string(", ") + name_of(act.what);
  f.text = "\n" + as_program(small) + "After act " + std::to_string(d->act) + ": " + d->what + " (" +
           d->worlds + ")\n  " + d->text + "\nTPUBRIDGE_FUZZ_SEED=" + std::to_string(seed) +
           " test_step --gtest_filter=Fuzz.OneSeed\n";
  return f;
}

// The seeds of block k. A block is a test of its own: they run side by side.
constexpr uint64_t kBlocks = 6, kSeeds = 6;

class FuzzSeeds : public testing::TestWithParam<uint64_t> {};

TEST_P(FuzzSeeds, AllWorldsAgree) {
  int failures = 0;
  for (uint64_t i = 0; i < kSeeds && failures < 2; ++i)
    if (const auto f = check(GetParam() * kSeeds + i)) ADD_FAILURE() << f->text, ++failures;
  EXPECT_GT(calls().replayed, 0);
}
INSTANTIATE_TEST_SUITE_P(Fuzz, FuzzSeeds, testing::Range<uint64_t>(0, kBlocks));

TEST(Fuzz, OneSeed) {
  const auto seed = number_of("TPUBRIDGE_FUZZ_SEED");
  if (!seed) GTEST_SKIP() << "TPUBRIDGE_FUZZ_SEED says which";
  std::printf("%s", as_program(generate(*seed)).c_str());
  std::string why_not;
  const auto f = check(*seed, &why_not);
  EXPECT_FALSE(f) << f->text;
  if (!why_not.empty()) std::printf("Ended early: %s\n", why_not.c_str());
}

TEST(Fuzz, ForHours) {
  const auto seconds = number_of("TPUBRIDGE_FUZZ_SECONDS");
  if (!seconds) GTEST_SKIP() << "TPUBRIDGE_FUZZ_SECONDS says how long";
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto gone = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::map<std::string, int> kinds;
  double told = 0;
  uint64_t seed = number_of("TPUBRIDGE_FUZZ_SEED").value_or(1000), cases = 0, failed = 0, nothing = 0;
  for (; gone() < static_cast<double>(*seconds); ++seed, ++cases) {
    std::string why_not;
    const auto f = check(seed, &why_not);
    nothing += !why_not.empty();
    if (f) {
      ++failed;
      // One example of each kind is shown, and every failure counted.
      EXPECT_NE(++kinds[f->kind], 1) << f->text;
    }
    if (gone() < told + 10) continue;
    told = gone();
    std::printf(
        "%.0f s: %lu cases to seed %lu, %lu failed, %lu ended early; %ld of %ld calls replayed, "
        "%ld of them in loops\n",
        told, cases + 1, seed, failed, nothing, calls().replayed, calls().all, calls().looped);
    std::fflush(stdout);
  }
  for (const auto& [kind, n] : kinds) std::printf("%6d  %s\n", n, kind.c_str());
}

// Two runs of a case say the same, so that a seed is enough to report it.
TEST(Fuzz, ASeedIsACase) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Case c = generate(seed);
    EXPECT_EQ(as_program(generate(seed)), as_program(c));
    EXPECT_EQ(c.model.pieces.front(), Piece::linear);
    EXPECT_EQ(c.acts.back().what, Do::call);
  }
}

}  // namespace
}  // namespace tpubridge::fuzz
