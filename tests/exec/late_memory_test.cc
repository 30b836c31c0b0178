// Memory that runs out after the call that starts a program has returned: it is told by an event.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <array>
#include <random>

#include "tests/exec/again.h"
#include "tests/exec/make.h"
#include "tests/fake_plugin/fake_pjrt.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/exec/ledger.h"

namespace tpubridge::exec {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;

void set_fake(const char* settings) {
  auto* set = reinterpret_cast<decltype(&fake_pjrt_configure)>(
      dlsym(dlopen(FAKE_PLUGIN, RTLD_NOW), "fake_pjrt_configure"));
  ASSERT_EQ(set(settings), nullptr);
}
int64_t fake_count(const char* name) {
  auto* counts =
      reinterpret_cast<decltype(&fake_pjrt_counts)>(dlsym(dlopen(FAKE_PLUGIN, RTLD_NOW), "fake_pjrt_counts"));
  return counts(name);
}

TPUOutOfMemoryError memory_error_of(const Value& v) {
  try {
    (void)download(v);
  } catch (const TPUOutOfMemoryError& e) {
    return e;
  }
  ADD_FAILURE() << "it was read";
  return TPUOutOfMemoryError("");
}

TEST(LateMemory, WhoReadsHasItComputedAgain) {
  if (!on_fake_plugin()) return;
  Slot x, y;
  x.set(upload({1, 2, 3}));
  y.set(make("mul.Tensor", x.value(), x.value()));
  set_fake("fail=execute_event_oom");
  materialise(0, {}, "test");
  EXPECT_EQ(fake_count("fired.execute_event_oom"), 1);
  EXPECT_EQ(download(y.value()), (Floats{1, 4, 9}));
  EXPECT_EQ(download(y.value()), (Floats{1, 4, 9}));
  EXPECT_EQ(download(x.value()), (Floats{1, 2, 3}));
  EXPECT_EQ(fake_count("misuse"), 0);
}

// What nobody but the program needed is kept as long as it may be needed again, and no longer.
TEST(LateMemory, InputsThatNobodyHoldsAreKeptMeanwhile) {
  if (!on_fake_plugin()) return;
  const int64_t before = device_memory(0).live;
  {
    Slot y;
    y.set(make("mul.Tensor", upload({1, 2, 3}), upload({2, 2, 2})));
    set_fake("fail=execute_event_oom");
    const Value more = y.value();  // the inputs are visible to nobody, so the program takes them
    materialise(0, {}, "test");
    Slot kept, z;
    kept.set(upload({5, 6}));
    z.set(make("maximum", kept.value(), kept.value()));
    set_fake("fail=none");
    materialise(0, {}, "test");
    EXPECT_EQ(download(z.value()), (Floats{5, 6}));
  }
  Slot last;  // at the next program the records of what is over go
  last.set(upload({1}));
  last.set(make("mul.Tensor", last.value(), last.value()));
  materialise(0, {}, "test");
  EXPECT_EQ(device_memory(0).live, before + 4);
}

TEST(LateMemory, StillTooLittleCanBeTriedLater) {
  if (!on_fake_plugin()) return;
  Slot x, y;
  x.set(upload({1, 2, 3}));
  y.set(make("mul.Tensor", x.value(), x.value()));
  set_fake("fail=execute_event_oom:times=2,fail=execute_oom:after=2");
  materialise(0, {}, "test");
  EXPECT_EQ(memory_error_of(y.value()).code(), Code::resource_exhausted);  // by an event again
  EXPECT_EQ(memory_error_of(y.value()).code(), Code::resource_exhausted);  // by the call
  EXPECT_EQ(download(y.value()), (Floats{1, 4, 9}));
}

// Programs that went on from it, and took over what it should have made.
TEST(LateMemory, AChainIsComputedAgainFromWhereItBroke) {
  if (!on_fake_plugin()) return;
  Slot x, state, apart;
  x.set(upload({1, 2, 3}));
  state.set(make("mul.Tensor", x.value(), x.value()));
  set_fake("fail=execute_event_oom");
  materialise(0, {}, "test");
  for (int i = 0; i < 3; ++i) {
    state.set(make("mul.Tensor", state.value(), x.value()));
    materialise(0, {}, "test");
  }
  EXPECT_EQ(download(state.value()), (Floats{1, 32, 243}));
  apart.set(make("mul.Tensor", state.value(), x.value()));
  materialise(0, {}, "test");
  EXPECT_EQ(download(apart.value()), (Floats{1, 64, 729}));
  EXPECT_EQ(fake_count("misuse"), 0);
}

TEST(LateMemory, InputsThatWereDonatedAreToldAsLost) {
  if (!on_fake_plugin()) return;
  Slot taken, kept;
  taken.set(upload({1, 2, 3}));
  taken.set(make("mul.Tensor", taken.value(), taken.value()));
  kept.set(upload({4, 5}));
  set_fake("fail=execute_event_oom");
  materialise(0, {}, "test");
  for (int i = 0; i < 2; ++i) {
    const auto e = memory_error_of(taken.value());
    EXPECT_EQ(e.code(), Code::data_loss);
    EXPECT_THAT(e.what(), HasSubstr("Ran out of memory")) << "the plugin's own words";
    EXPECT_THAT(e.what(), HasSubstr("1 of its inputs had been given to it"));
    EXPECT_THAT(e.hint(), HasSubstr("checkpoint"));
  }
  kept.set(make("mul.Tensor", kept.value(), kept.value()));
  materialise(0, {}, "test");
  EXPECT_EQ(download(kept.value()), (Floats{16, 25})) << "others go on";
}

// A program for many sizes takes inputs that were made larger, and makes results that are.
TEST(LateMemory, AProgramForManySizesIsComputedAgain) {
  if (!on_fake_plugin()) return;
  int64_t failed = 0;
  for (const size_t n : {3, 5, 6, 7, 9, 12, 11}) {
    Floats a(n), expected(n);
    for (size_t i = 0; i < n; ++i) a[i] = static_cast<float>(i) - 2, expected[i] = a[i] * a[i] * a[i];
    Slot x, y, z;
    x.set(upload(a));
    y.set(make("mul.Tensor", x.value(), x.value()));
    set_fake("fail=execute_event_oom");
    materialise(0, {}, "test");
    z.set(make("mul.Tensor", y.value(), x.value()));
    materialise(0, {}, "test");
    EXPECT_EQ(download(z.value()), expected) << n;
    EXPECT_EQ(download(x.value()), a) << n;
    failed += fake_count("fired.execute_event_oom");
  }
  EXPECT_GE(failed, 7);
  EXPECT_GT(metrics().sized_executions, 0) << "else this shows nothing";
  EXPECT_EQ(fake_count("misuse"), 0);
}

// Whatever is read is right or an error, wherever memory runs out, and what is made anew goes on.
TEST(LateMemory, RandomProgramsGiveRightValuesOrNone) {
  if (!on_fake_plugin()) return;
  std::mt19937 random(20261118);
  const auto below = [&](uint32_t n) { return random() % n; };
  int right = 0, lost = 0;
  for (int round = 0; round < 60; ++round) {
    const size_t n = 2 + below(30);
    std::array<Slot, 5> slots;
    std::array<Floats, 5> expected;
    const auto fresh = [&](size_t i) {
      expected[i].resize(n);
      for (auto& v : expected[i]) v = static_cast<float>(below(7)) - 3;
      slots[i].set(upload(expected[i]));
    };
    const auto combine = [&](size_t to, size_t a, size_t b, bool product) {
      slots[to].set(make(product ? "mul.Tensor" : "maximum", slots[a].value(), slots[b].value()));
      Floats out(n);
      for (size_t k = 0; k < n; ++k)
        out[k] = product ? expected[a][k] * expected[b][k] : std::max(expected[a][k], expected[b][k]);
      expected[to] = out;
    };
    set_fake("fail=none");
    for (size_t i = 0; i < slots.size(); ++i) fresh(i);
    combine(4, 0, 1, true);  // the same program in every size
    for (int step = 0; step < 25; ++step) {
      switch (below(8)) {
        case 0:
          set_fake(("fail=execute_event_oom:after=" + std::to_string(below(3))).c_str());
          break;
        case 1:
          fresh(below(5));
          break;
        case 2:
          try {
            materialise(0, {}, "test");
          } catch (const TPUOutOfMemoryError&) {  // an input is lost: whoever reads is told
          }
          break;
        case 3: {
          const size_t i = below(5);
          try {
            materialise(0, {slots[i].value()}, "test");
            EXPECT_EQ(download(slots[i].value()), expected[i]) << "round " << round << " step " << step;
            ++right;
          } catch (const TPUOutOfMemoryError&) {
            ++lost, fresh(i);
          }
          break;
        }
        default:
          combine(below(5), below(4), below(5), step % 5 == 0 && below(2) == 0);
      }
    }
  }
  EXPECT_GT(right, 80);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(fake_count("misuse"), 0);
}

}  // namespace
}  // namespace tpubridge::exec
