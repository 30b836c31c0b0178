// What goes wrong between processes: everybody is told in words, in seconds, and keeps what he had.
#include <unistd.h>
#include <csignal>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/distributed/ranks/ranks.h"

namespace tpubridge {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

bool says(const std::string& all, const std::string& part) { return all.find(part) != all.npos; }

struct Clock {
  steady_clock::time_point begin = steady_clock::now();
  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(steady_clock::now() - begin).count();
  }
};

// A moment later, when all have what it sent: a killed process takes with it what others have not read yet.
[[noreturn]] void die() {
  std::this_thread::sleep_for(milliseconds(1500));
  ::raise(SIGKILL);
  std::abort();
}

// Afterwards the values of before are there, and further collectives say the same.
void expect_over(const torch::Tensor& before, double value, const std::string& why) {
  EXPECT_EQ(before.mean().item<double>(), value);
  const auto again = words_of_failure([&] { (void)dist::all_reduce(before).cpu(); });
  EXPECT_FALSE(again.empty());
  EXPECT_TRUE(says(why, again) || says(again, why) || says(again, "rank")) << why << " / " << again;
}

TEST(Ranks, OtherSizes) {
  const int64_t me = joined();
  const auto kept = torch::full({4}, 7.0).to(tpu());
  (void)dist::all_reduce(kept).cpu();
  const Clock clock;
  const auto x = torch::ones({me == 1 ? 6 : 4}).to(tpu());
  const auto words = words_of_failure([&] { (void)dist::all_reduce(x).cpu(); });
  EXPECT_TRUE(says(words, "do not do the same")) << words;
  EXPECT_TRUE(says(words, "all_reduce sum f32[6] on rank 1")) << words;
  EXPECT_LT(clock.elapsed(), 30);
  expect_over(kept, 7, words);
}

// One that was foreseen on one side alone: the other one asks, and nobody answers.
TEST(Ranks, OneThatDoesSomethingElse) {
  const int64_t me = joined();
  auto x = torch::ones({4}).to(tpu());
  for (int i = 0; i < 12; ++i) x = dist::all_reduce(x, "mean");
  EXPECT_EQ(x.sum().item<float>(), 4);
  const Clock clock;
  const auto words = words_of_failure([&] {
    x = me == 0 ? dist::all_gather(x) : dist::all_reduce(x, "mean");
    (void)x.cpu();
  });
  EXPECT_TRUE(says(words, "do not do the same")) << words;
  EXPECT_TRUE(says(words, "all_gather f32[4]")) << words;
  EXPECT_LT(clock.elapsed(), 60);
}

TEST(Ranks, OneThatDies) {
  const int64_t me = joined();
  auto state = torch::zeros({8}).to(tpu());
  auto step = compile([&](const torch::Tensor& x) {
    state.add_(dist::all_reduce(x));
    return state.sum();
  });
  double value = 0;
  const auto x = torch::ones({8}).to(tpu());
  for (int i = 0; i < 6; ++i) value = step(x).item<double>() / 8;
  EXPECT_EQ(value, 6.0 * dist::world_size());
  if (me == 1) die();
  const Clock clock;
  const auto words = words_of_failure([&] {
    for (int i = 0; i < 100; ++i) (void)step(x).item<double>();
  });
  EXPECT_TRUE(says(words, "rank 1 is gone")) << words;
  EXPECT_LT(clock.elapsed(), 30);
  expect_over(state, value, words);
}

TEST(Ranks, TheOneThatServesDies) {
  const int64_t me = joined();
  const auto x = torch::ones({8}).to(tpu());
  EXPECT_EQ(dist::all_reduce(x).sum().item<double>(), 8.0 * dist::world_size());
  if (me == 0) die();
  const auto words = words_of_failure([&] {
    for (int i = 0; i < 100; ++i) (void)dist::all_reduce(x).cpu();
  });
  EXPECT_TRUE(says(words, "rank 0 is gone")) << words;
  expect_over(x, 1, words);
}

TEST(Ranks, OneThatStops) {
  const int64_t me = joined(milliseconds(4000));
  const auto x = torch::ones({8}).to(tpu());
  EXPECT_EQ(dist::all_reduce(x).sum().item<double>(), 8.0 * dist::world_size());
  if (me == 2) ::raise(SIGSTOP);
  const Clock clock;
  const auto words = words_of_failure([&] { (void)dist::all_reduce(x).cpu(); });
  EXPECT_TRUE(says(words, "rank 2 has not been heard of")) << words;
  EXPECT_LT(clock.elapsed(), 40);
  expect_over(x, 1, words);
  if (!testing::Test::HasFailure()) ::_exit(42);  // as a job that failed, so that the stopped one is ended
}

// Its work is done, and it leaves; the others are told that it has, not that it died.
TEST(Ranks, OneThatLeavesBeforeTheOthers) {
  const int64_t me = joined();
  const auto x = torch::ones({8}).to(tpu());
  EXPECT_EQ(dist::all_reduce(x).sum().item<double>(), 8.0 * dist::world_size());
  if (me == 1) {
    dist::shutdown();
    EXPECT_TRUE(says(words_of_failure([&] { (void)dist::all_reduce(x); }), "shutdown"));
    return;
  }
  const auto words = words_of_failure([&] { (void)dist::all_reduce(x).cpu(); });
  EXPECT_TRUE(says(words, "rank 1 has ended")) << words;
}

// Sums up steps, and saves after each; a rank of it is killed at some moment of the first attempts. Started
// again it goes on from what was saved.
TEST(Ranks, KilledAtSomeMoment) {
  const std::string file = std::getenv("TPUBRIDGE_TEST_STATE");
  const auto attempt = std::strtoull(std::getenv("TPUBRIDGE_TEST_ATTEMPT"), nullptr, 10);
  std::mt19937_64 random(attempt * 7919 + 13);
  const auto place = dist::place_of_this_process();
  const bool dies =
      attempt < 6 && random() % static_cast<uint64_t>(place.world) == static_cast<uint64_t>(place.rank);
  const auto when = milliseconds(random() % 1200);
  if (dies)
    std::thread([when] {
      std::this_thread::sleep_for(when);
      ::raise(SIGKILL);
    }).detach();
  try {
    joined(seconds(5), seconds(10));
    auto state = torch::zeros({2}, torch::kDouble);  // steps, sum
    if (place.rank == 0 && std::filesystem::exists(file)) torch::load(state, file);
    state = dist::broadcast(state.to(tpu()));
    auto step = compile([&](const torch::Tensor& x) {
      state.add_(dist::all_reduce(x));
      return state.clone();
    });
    const auto mine =
        torch::tensor({1.0 / static_cast<double>(place.world), place.rank + 1.0}, torch::kDouble).to(tpu());
    const int64_t begin = std::llround(state.cpu()[0].item<double>());
    for (int64_t i = begin; i < 60; ++i) {
      const auto now = step(mine).cpu();
      EXPECT_NEAR(now[0].item<double>(), double(i + 1), 1e-6);
      EXPECT_NEAR(now[1].item<double>(), double(i + 1) * place.world * (place.world + 1) / 2, 1e-6);
      if (place.rank != 0) continue;
      torch::save(now, file + ".new");
      std::filesystem::rename(file + ".new", file);
    }
    if (dies) std::this_thread::sleep_for(seconds(2));
  } catch (const TPUDistributedError& e) {
    if (testing::Test::HasFailure()) throw;
    std::fprintf(stderr, "%s\n", e.what());
    ::_exit(9);  // as a program that gives up
  }
}

// Started by another number of processes than they believe.
TEST(Ranks, SomebodyIsMissing) {
  auto place = dist::place_of_this_process();
  place.world += 2;
  const Clock clock;
  try {
    dist::init({.join_timeout = milliseconds(1500), .place = place});
    ADD_FAILURE();
  } catch (const TPUDistributedError& e) {
    EXPECT_TRUE(says(e.what(), "2, 3 of 4 are missing")) << e.what();
  }
  EXPECT_LT(clock.elapsed(), 60);
}

TEST(Ranks, OtherWorlds) {
  auto place = dist::place_of_this_process();
  place.world += place.rank;
  try {
    dist::init({.join_timeout = milliseconds(20'000), .place = place});
    ADD_FAILURE();
  } catch (const TPUDistributedError& e) {
    EXPECT_TRUE(says(e.what(), "are not of one job")) << e.what();
  }
}

TEST(Ranks, TwoOfOneRank) {
  auto place = dist::place_of_this_process();
  place.rank = std::min<int64_t>(place.rank, 1);
  try {
    dist::init({.join_timeout = milliseconds(20'000), .place = place});
    ADD_FAILURE();  // rank 2 of three never comes
  } catch (const TPUDistributedError& e) {
    EXPECT_TRUE(says(e.what(), "two processes say that they are rank 1")) << e.what();
  }
}

TEST(Ranks, NobodyServes) {
  auto place = dist::place_of_this_process();
  place.rank = 1;
  place.world = 2;
  try {
    dist::init({.join_timeout = milliseconds(1500), .place = place});
    ADD_FAILURE();
  } catch (const TPUDistributedError& e) {
    EXPECT_TRUE(says(e.what(), "cannot be reached at 127.0.0.1:")) << e.what();
  }
}

// Two jobs on one port: who comes second is told.
TEST(Ranks, ThePortIsTaken) {
  auto place = dist::place_of_this_process();
  const bool second = place.rank == 1;
  place.rank = 0;
  place.world = 1;
  if (second) std::this_thread::sleep_for(milliseconds(1500));
  try {
    dist::init({.join_timeout = milliseconds(2000), .place = place});
    EXPECT_FALSE(second);
    std::this_thread::sleep_for(milliseconds(4000));
  } catch (const TPUDistributedError& e) {
    EXPECT_TRUE(second);
    EXPECT_TRUE(says(e.what(), "cannot serve the store")) << e.what();
  }
}

}  // namespace
}  // namespace tpubridge
