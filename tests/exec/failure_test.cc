// Programs that cannot run: what can be tried again stays pending, what has nothing to do with the failure is
// computed, and the rest says why it is not.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "tests/exec/again.h"
#include "tests/exec/make.h"
#include "tests/fake_plugin/fake_pjrt.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/pjrt/event.h"

namespace tpubridge::exec {
namespace {

using testing::HasSubstr;

Value twice(const Value& a) {
  return make("mul.Tensor", a, upload(std::vector<float>(static_cast<size_t>(a.shape().elements()), 2)));
}

// Dimensions that do not broadcast: the row throws.
Value broken() {
  return Node::make(lower::find("mul.Tensor"), {upload({1, 2}), upload({1, 2, 3})}, {Ref{0}, Ref{1}},
                    {{DType::f32, {4}}}, 0, DType::f32);
}

void configure(const char* settings) {
  void* library = dlopen(FAKE_PLUGIN, RTLD_NOW);
  auto* set = reinterpret_cast<decltype(&fake_pjrt_configure)>(dlsym(library, "fake_pjrt_configure"));
  ASSERT_EQ(set(settings), nullptr);
}

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "no such error";
  return {};
}

TEST(Failure, WhatDoesNotDependOnItIsComputed) {
  Slot good, bad, also_good;
  good.set(twice(upload({1, 2})));
  bad.set(broken());
  also_good.set(twice(upload({3, 4})));
  const std::string what = message_of<ProgramError>([] { materialise(0, {}, "test"); });
  EXPECT_THAT(what, HasSubstr("values affected=1 of 3"));
  EXPECT_EQ(download(good.value()), (std::vector<float>{2, 4}));
  EXPECT_EQ(download(also_good.value()), (std::vector<float>{6, 8}));
  EXPECT_THROW((void)download(bad.value()), ProgramError);
}

TEST(Failure, WhoAsksGetsItsOwnValueOrItsOwnError) {
  {
    Slot bad;
    bad.set(broken());
    const Value good = twice(upload({1, 2}));
    materialise(0, {good}, "test");
    EXPECT_EQ(download(good)[1], 4);
    EXPECT_THROW((void)download(bad.value()), ProgramError);
  }
  Slot good;
  good.set(twice(upload({5, 6})));
  const Value bad = broken();
  EXPECT_THROW(materialise(0, {bad}, "test"), ProgramError);
  EXPECT_EQ(download(good.value())[1], 12);
}

TEST(Failure, ManyPartsAndSeveralFailures) {
  std::vector<std::unique_ptr<Slot>> slots;
  for (int i = 0; i < 40; ++i) {
    slots.push_back(std::make_unique<Slot>());
    slots.back()->set(i % 13 == 5 ? broken() : twice(upload({static_cast<float>(i)})));
  }
  EXPECT_THAT(message_of<ProgramError>([] { materialise(0, {}, "test"); }),
              HasSubstr("values affected=3 of 40"));
  for (int i = 0; i < 40; ++i) {
    if (i % 13 == 5)
      EXPECT_THROW((void)download(slots[static_cast<size_t>(i)]->value()), ProgramError);
    else
      EXPECT_EQ(download(slots[static_cast<size_t>(i)]->value())[0], 2 * static_cast<float>(i));
  }
}

TEST(Failure, AnErrorTravelsToWhatIsMadeOfItAndNoFurther) {
  Slot bad, of_bad, good;
  bad.set(broken());
  EXPECT_THROW(materialise(0, {}, "test"), ProgramError);
  of_bad.set(make("mul.Tensor", bad.value(), bad.value()));
  good.set(twice(upload({7})));
  EXPECT_THROW(materialise(0, {}, "test"), ProgramError);
  EXPECT_EQ(download(good.value())[0], 14);
  EXPECT_THROW((void)download(of_bad.value()), ProgramError);
}

TEST(Failure, AboveTheMemoryLimitWhoAsksForLittleGetsIt) {
  Slot large;
  const Value a = upload(std::vector<float>(1 << 20, 1)), one = upload({1, 2}), small = twice(one);
  large.set(make("mul.Tensor", a, a));
  const int64_t live = device_memory(0).live;
  set_memory_limit(live + 1024);
  EXPECT_THROW(materialise(0, {}, "test"), TPUMemoryLimitError);
  EXPECT_TRUE(large.value()->is_pending());
  materialise(0, {small}, "test");
  EXPECT_EQ(download(small)[1], 4);
  EXPECT_TRUE(large.value()->is_pending());
  set_memory_limit(0);
  materialise(0, {}, "test");
  EXPECT_EQ(download(large.value())[0], 1);
}

TEST(Failure, OutOfMemoryLeavesEverythingPending) {
  if (!on_fake_plugin()) return;
  for (const char* failure : {"fail=compile_oom", "fail=execute_oom", "fail=buffer_oom"}) {
    Slot a, b;
    a.set(upload({1, 2, 3}));
    Value y = twice(a.value());
    a.set(std::move(y));
    trace::Number n;
    n.real = 3;
    b.set(make("mul.Tensor", upload({4, 5}), Node::number(n, 0)));  // a number is a transfer
    configure(failure);
    EXPECT_THROW(materialise(0, {}, "test"), TPUOutOfMemoryError) << failure;
    EXPECT_TRUE(a.value()->is_pending() && b.value()->is_pending()) << failure;
    configure("fail=none");
    materialise(0, {}, "test");
    EXPECT_EQ(download(a.value()), (std::vector<float>{2, 4, 6}));
    EXPECT_EQ(download(b.value()), (std::vector<float>{12, 15}));
  }
}

TEST(Failure, ACompilerErrorPoisonsOnePartAlone) {
  if (!on_fake_plugin()) return;
  Slot a, b;
  a.set(twice(upload({1, 2, 3})));
  b.set(make("maximum", upload({4, 5}), upload({5, 4})));
  configure("fail=compile_error:times=2");  // all, then the first half
  EXPECT_THAT(message_of<XLACompilationError>([] { materialise(0, {}, "test"); }),
              HasSubstr("values affected=1 of 2"));
  const bool first = a.value()->error() != nullptr;
  EXPECT_NE(first, b.value()->error() != nullptr);
  EXPECT_EQ(download(first ? b.value() : a.value())[0], first ? 5.0f : 2.0f);
}

TEST(Failure, ALostDeviceIsTriedOnce) {
  if (!on_fake_plugin()) return;
  Slot a, b;
  a.set(twice(upload({1, 2, 3})));
  b.set(make("maximum", upload({4, 5}), upload({5, 4})));
  configure("fail=device_lost");
  const auto compiles = compile_count();
  EXPECT_THAT(message_of<TPUDeviceError>([] { materialise(0, {}, "test"); }),
              HasSubstr("values affected=2 of 2"));
  EXPECT_EQ(compile_count() - compiles, 1);
  EXPECT_THROW((void)download(a.value()), TPUDeviceError);
}

TEST(Failure, AHangIsToldAndItsValueComesLater) {
  if (!on_fake_plugin()) return;
  Slot a;
  a.set(twice(upload({1, 2, 3})));
  configure("fail=execute_hang");
  materialise(0, {}, "test");
  pjrt::set_wait_limit(std::chrono::milliseconds(30));
  EXPECT_THAT(message_of<TPUDeviceError>([&] { (void)download(a.value()); }), HasSubstr("not answered"));
  pjrt::set_wait_limit(std::chrono::minutes(1));
  Slot b;
  b.set(twice(upload({7})));
  materialise(0, {}, "test");
  EXPECT_EQ(download(b.value())[0], 14) << "other work goes on";
  configure("release");
  EXPECT_EQ(download(a.value()), (std::vector<float>{2, 4, 6}));
  pjrt::set_wait_limit(std::chrono::milliseconds(0));
}

TEST(Failure, InputsThatWereTakenAreToldAsLost) {
  if (!on_fake_plugin()) return;
  Slot taken, kept, apart;
  taken.set(upload({1, 2, 3}));
  taken.set(make("mul.Tensor", taken.value(), taken.value()));
  kept.set(upload({4, 5}));
  apart.set(make("maximum", kept.value(), kept.value()));
  configure("fail=execute_taken");
  EXPECT_THROW(materialise(0, {}, "test"), TPUDeviceError);
  const std::string what = message_of<TPUDeviceError>([&] { (void)download(taken.value()); });
  EXPECT_THAT(what, HasSubstr("1 of its inputs had been given to it"));
  EXPECT_THAT(what, HasSubstr("after it took its arguments")) << "the plugin's own words";
  EXPECT_THAT(what, HasSubstr("values affected=1 of 2"));
  EXPECT_EQ(download(apart.value())[1], 5);
  EXPECT_EQ(download(kept.value())[1], 5);
  // The same where the program is that of one part.
  Slot alone;
  alone.set(upload({1, 2, 3}));
  alone.set(make("mul.Tensor", alone.value(), alone.value()));
  configure("fail=execute_taken");
  EXPECT_THROW(materialise(0, {alone.value()}, "test"), TPUDeviceError);
  // Others go on, also beside what is made of the lost one.
  Slot next, of_lost;
  next.set(make("mul.Tensor", kept.value(), kept.value()));
  of_lost.set(make("maximum", taken.value(), taken.value()));
  EXPECT_THROW(materialise(0, {}, "test"), TPUDeviceError);
  EXPECT_EQ(download(next.value())[1], 25);
}

}  // namespace
}  // namespace tpubridge::exec
