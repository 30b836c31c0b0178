// What goes wrong between processes: everybody is told in words, in seconds, and keeps what he had.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/distributed/ranks/ranks.h"
#include "tpubridge/kernels/kernels.h"

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
  const int64_t me = joined(milliseconds(10'000));
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
    joined(seconds(15), seconds(15));
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
    dist::init({.join_timeout = milliseconds(10'000), .place = place});
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

// Two jobs on one port: who comes second is told. The launcher keeps it from everybody else.
TEST(Ranks, ThePortIsTaken) {
  auto place = dist::place_of_this_process();
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_port = htons(static_cast<uint16_t>(place.port));
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_NE(::bind(other, reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
  ::close(other);

  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.port);
  options.isServer = true;
  options.waitWorkers = false;
  const auto first = c10::make_intrusive<c10d::TCPStore>(place.host, options);
  place.world = 2;
  try {
    dist::init({.join_timeout = milliseconds(10'000), .place = place});
    ADD_FAILURE();
  } catch (const TPUDistributedError& e) {
    EXPECT_TRUE(says(e.what(), "cannot serve the store")) << e.what();
  }
}

// A process alone serves nobody, whoever has its port.
TEST(Ranks, OneAloneNeedsNoPort) {
  const auto place = dist::place_of_this_process();
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.port);
  options.isServer = true;
  options.waitWorkers = false;
  const auto first = c10::make_intrusive<c10d::TCPStore>(place.host, options);
  joined();
  EXPECT_EQ(dist::all_reduce(torch::ones({3}).to(tpu())).sum().item<float>(), 3);
}

// Nobody gets further than joining, for one does not come; meanwhile the one that serves is stopped.
TEST(Ranks, TheOneThatServesStopsWhileTheyJoin) {
  auto place = dist::place_of_this_process();
  place.world += 1;
  if (place.rank == 0)
    std::thread([] {
      std::this_thread::sleep_for(seconds(3));
      ::raise(SIGSTOP);
    }).detach();
  const Clock clock;
  try {
    dist::init({.join_timeout = milliseconds(8000), .place = place});
    ADD_FAILURE();
  } catch (const TPUDistributedError& e) {
    EXPECT_TRUE(says(e.what(), "has not answered while its processes gathered") ||
                says(e.what(), "cannot be reached"))
        << e.what();
  }
  EXPECT_LT(clock.elapsed(), 60);
  if (!testing::Test::HasFailure()) ::_exit(42);  // as a job that failed, so that the stopped one is ended
}

// The work of a process of its own: stops those whose numbers it reads, and lets them go on.
[[noreturn]] void stop_all(int from) {
  std::vector<pid_t> all;
  for (pid_t one = 0; ::read(from, &one, sizeof one) == sizeof one;) all.push_back(one);
  if (all.empty()) ::_exit(0);
  for (const pid_t p : all) ::kill(p, SIGSTOP);
  ::sleep(14);
  for (const pid_t p : all) ::kill(p, SIGCONT);
  ::_exit(0);
}

// As on a machine that sleeps: all stop for longer than anybody may be silent, and go on.
TEST(Ranks, AllStopAndGoOn) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t helper = ::fork();
  ASSERT_GE(helper, 0);
  if (helper == 0) {
    ::close(ends[1]);
    stop_all(ends[0]);
  }
  ::close(ends[0]);
  const int64_t me = joined(milliseconds(8000));
  const auto all = dist::all_gather(torch::full({1}, ::getpid(), torch::kInt).to(tpu())).cpu();
  for (int64_t r = 0; me == 0 && r < dist::world_size(); ++r) {
    const pid_t one = all[r].item<int>();
    EXPECT_EQ(::write(ends[1], &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  ::close(ends[1]);
  const Clock clock;
  for (bool over = false; !over;) {
    const auto mine = torch::full({1}, clock.elapsed() > 20 ? 1.0 : 0.0).to(tpu());
    over = dist::all_reduce(mine, "max").item<double>() > 0;
    std::this_thread::sleep_for(milliseconds(50));
  }
  int status = 0;
  ::waitpid(helper, &status, 0);
  EXPECT_EQ(status, 0);
}

std::atomic<bool> bad_day{false};
const UserOp& moody() {
  static const UserOp op = register_ffi(
      "ranks_test::moody(Tensor x) -> Tensor",
      [](const ffi::Call& call) -> std::string {
        if (bad_day.exchange(false)) return "a bad day";
        const auto x = call.input("x").as<const float>();
        std::copy(x.begin(), x.end(), call.output(0).as<float>().begin());
        return {};
      },
      [](const OpCall& call) { return std::vector<Shape>{call.shape("x")}; });
  return op;
}

// A program fails after its collective ran, and is called once more: well where all do it, and never taken
// for what the others do next where one alone does.
TEST(Ranks, OneThatRunsACollectiveAgain) {
  const int64_t me = joined();
  auto state = torch::zeros({8}).to(tpu());
  auto step = compile([&](const torch::Tensor& x) {
    state.add_(moody()(dist::all_reduce(x)));
    return state.sum();
  });
  const auto x = torch::ones({8}).to(tpu());
  const double each = 8.0 * dist::world_size();
  for (int i = 1; i <= 6; ++i) EXPECT_EQ(step(x).item<double>(), i * each);
  EXPECT_GE(step.report().replayed, 1) << step.report().why_traced;
  for (int i = 7; i <= 8; ++i) {
    bad_day = true;
    EXPECT_THROW((void)step(x).item<double>(), Error);
    EXPECT_EQ(step(x).item<double>(), i * each);
  }
  bad_day = me == 1;
  if (me == 1) {
    EXPECT_THROW((void)step(x).item<double>(), Error);
  }
  const Clock clock;
  const auto words = words_of_failure([&] {
    for (int i = 0; i < 100; ++i) (void)step(x).item<double>();
  });
  EXPECT_TRUE(says(words, "do not do the same")) << words;
  EXPECT_TRUE(says(words, "all_reduce sum f32[8] a second time on rank 1")) << words;
  EXPECT_LT(clock.elapsed(), 60);
  EXPECT_EQ(state.sum().item<double>(), (me == 1 ? 8 : 9) * each);
}

}  // namespace
}  // namespace tpubridge
