// Pending work belongs to the thread that traced it, and nobody waits for another thread's compile but who
// wants what it computes.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "tests/exec/again.h"
#include "tests/exec/make.h"
#include "tests/fake_plugin/fake_pjrt.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::exec {
namespace {

using Floats = std::vector<float>;

template <class F>
auto locked(F f) {
  const Lock lock(mutex());
  return f();
}
void put_square(Slot& to, const Floats& of) {
  const Value a = upload(of);
  locked([&] { to.set(make("mul.Tensor", a, a)); });
}
bool pending(const Slot& slot) {
  return locked([&] { return slot.value()->is_pending(); });
}
Floats read(const Slot& slot) {
  const Value v = locked([&] { return slot.value(); });
  materialise(0, {v}, "test");
  return download(v);
}

// A thread that does what it is given, and stays.
class Other {
 public:
  template <class F>
  explicit Other(F body)
      : thread_([this, body] {
          body();
          done_.count_down();
          go_.wait();
        }) {
    done_.wait();
  }
  ~Other() {
    go_.count_down();
    thread_.join();
  }

 private:
  std::latch done_{1}, go_{1};
  std::thread thread_;
};

TEST(Lanes, AThreadComputesItsOwnWork) {
  Slot mine, theirs;
  put_square(mine, {1, 2, 3});
  const Other other([&] {
    put_square(theirs, {4, 5});
    materialise(0, {}, "test");
  });
  EXPECT_TRUE(pending(mine));
  EXPECT_FALSE(pending(theirs));
  Slot also_theirs;
  const Other another([&] { put_square(also_theirs, {6, 7}); });
  materialise(0, {}, "test");
  EXPECT_FALSE(pending(mine));
  EXPECT_TRUE(pending(also_theirs));
  EXPECT_EQ(read(also_theirs), (Floats{36, 49}));  // whoever wants it gets it
}

TEST(Lanes, WhatAThreadLeftIsComputedByWhoComputesNext) {
  Slot left, wanted;
  std::thread([&] { put_square(left, {4, 5}); }).join();
  EXPECT_TRUE(pending(left));
  materialise(0, {}, "test");
  EXPECT_FALSE(pending(left));
  // A value of another lane that is needed on the way is there afterwards.
  const Other other([&] { put_square(left, {2, 3}); });
  locked([&] { wanted.set(make("mul.Tensor", left.value(), left.value())); });
  EXPECT_EQ(read(wanted), (Floats{16, 81}));
  EXPECT_FALSE(pending(left));
  EXPECT_EQ(read(left), (Floats{4, 9}));
}

TEST(Lanes, ThreadsThatComeAndGoUseLanesAgain) {
  const auto* mine = &trace::own_lane();
  const auto lane_of_a_thread = [] {
    const trace::Lane* lane = nullptr;
    std::thread([&] { lane = &trace::own_lane(); }).join();
    return lane;
  };
  const auto* first = lane_of_a_thread();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(lane_of_a_thread(), first);
  EXPECT_NE(first, mine);
}

TEST(Lanes, ManyDevicesHaveListsOfTheirOwn) {
  const auto on = [](int device) {
    const Value a = Node::leaf(nullptr, Shape{DType::f32, {2}}, device);
    return Node::make(lower::find("mul.Tensor"), {a, a}, {Ref{0}, Ref{1}}, {a.shape()}, device, DType::f32);
  };
  const Lock lock(mutex());
  Slot near, far;
  near.set(on(0));
  far.set(on(64));
  EXPECT_EQ(pending_values(0).size(), 1U);
  EXPECT_EQ(pending_values(64).size(), 1U);
  EXPECT_EQ(pending_values(65).size(), 0U);
}

void* fake() { return dlopen(FAKE_PLUGIN, RTLD_NOW); }
void configure(const char* settings) {
  ASSERT_EQ(reinterpret_cast<decltype(&fake_pjrt_configure)>(dlsym(fake(), "fake_pjrt_configure"))(settings),
            nullptr);
}
int64_t count(const char* what) {
  return reinterpret_cast<decltype(&fake_pjrt_counts)>(dlsym(fake(), "fake_pjrt_counts"))(what);
}

// One thread compiles for ever; the others trace, compute what is known and compile what is not.
TEST(Lanes, OthersGoOnWhileOneCompiles) {
  if (!on_fake_plugin()) return;
  Slot slow, known, fresh, same;
  put_square(known, {1, 2});
  EXPECT_EQ(read(known), (Floats{1, 4}));
  configure("fail=compile_hang");
  std::thread compiling([&] {
    put_square(slow, {1, 2, 3});
    EXPECT_EQ(read(slow), (Floats{1, 4, 9}));
  });
  while (count("fired.compile_hang") == 0) std::this_thread::yield();
  put_square(known, {3, 4});
  EXPECT_EQ(read(known), (Floats{9, 16}));
  put_square(fresh, {3, 4, 5, 6});
  EXPECT_EQ(read(fresh), (Floats{9, 16, 25, 36}));
  EXPECT_TRUE(pending(slow));
  // Who wants what is being compiled waits for it; it is computed once.
  const auto executed = metrics().executions;
  std::atomic<bool> got{false};
  std::thread wants([&] {
    const Value v = locked([&] { return make("mul.Tensor", slow.value(), slow.value()); });
    materialise(0, {v}, "test");
    EXPECT_EQ(download(v), (Floats{1, 16, 81}));
    got = true;
  });
  put_square(known, {5, 6});
  EXPECT_EQ(read(known), (Floats{25, 36}));
  EXPECT_FALSE(got);
  while (pending(slow)) configure("release");
  compiling.join();
  wants.join();
  EXPECT_TRUE(got);
  EXPECT_EQ(metrics().executions - executed, 3);  // the known one, the slow one, and what was made of it
}

// It fails while somebody waits for it: each tries by itself.
TEST(Lanes, AFailureIsNotTheOthersFailure) {
  if (!on_fake_plugin()) return;
  Slot slow;
  put_square(slow, {1, 2, 3, 4, 5});
  configure("fail=compile_hang");
  std::thread compiling([&] { EXPECT_THROW((void)read(slow), TPUOutOfMemoryError); });
  while (count("fired.compile_hang") == 0) std::this_thread::yield();
  std::thread wants([&] { EXPECT_EQ(read(slow), (Floats{1, 4, 9, 16, 25})); });
  configure("fail=execute_oom");
  while (count("fired.execute_oom") == 0) configure("release");
  wants.join();
  compiling.join();
}

}  // namespace
}  // namespace tpubridge::exec
