// A device that is lost, and opened again in the same process.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "tests/exec/again.h"
#include "tests/exec/make.h"
#include "tests/fake_plugin/fake_pjrt.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/ledger.h"

namespace tpubridge::exec {
namespace {

using testing::HasSubstr;

template <class F>
auto fake_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(dlopen(FAKE_PLUGIN, RTLD_NOW), name));
}
int64_t fake_live(const char* name) {
  return fake_function<decltype(fake_pjrt_counts)>("fake_pjrt_counts")(name);
}

std::string device_error_of(const Value& v) {
  try {
    (void)download(v);
  } catch (const TPUDeviceError& e) {
    return e.what();
  }
  ADD_FAILURE() << "it was read";
  return {};
}

TEST(Reopen, ALostDeviceComesBack) {
  if (!on_fake_plugin()) return;
  Slot held, pending;
  held.set(upload({1, 2, 3}));
  held.set(make("mul.Tensor", held.value(), held.value()));
  materialise(0, {}, "test");
  fake_function<decltype(fake_pjrt_configure)>("fake_pjrt_configure")("fail=device_lost");
  Slot failed;
  failed.set(make("maximum", held.value(), held.value()));
  EXPECT_THROW(materialise(0, {}, "test"), TPUDeviceError);
  EXPECT_THROW((void)upload({1}), TPUDeviceError) << "and so it stays";
  EXPECT_FALSE(answers(0));
  pending.set(make("mul.Tensor", held.value(), held.value()));

  reopen();
  EXPECT_EQ(openings(), 1U);
  EXPECT_TRUE(answers(0));
  EXPECT_EQ(fake_live("live.client"), 1) << "the old one is gone, tensors or not";
  EXPECT_EQ(fake_live("live.buffer"), 0);
  EXPECT_EQ(device_memory(0).live, 0);
  // What was there says so, what fails keeps its reason.
  EXPECT_THAT(device_error_of(held.value()), HasSubstr("opened again"));
  EXPECT_THAT(device_error_of(failed.value()), HasSubstr("TPU_0"));
  EXPECT_THROW(materialise(0, {pending.value()}, "test"), TPUDeviceError);
  EXPECT_THAT(device_error_of(pending.value()), HasSubstr("opened again"));
  // What is new works; the same program as before is compiled for the new client.
  Slot fresh;
  fresh.set(upload({4, 5, 6}));
  fresh.set(make("mul.Tensor", fresh.value(), fresh.value()));
  materialise(0, {}, "test");
  EXPECT_EQ(download(fresh.value()), (std::vector<float>{16, 25, 36}));
  held.set(upload({7}));
  EXPECT_EQ(download(held.value())[0], 7);
  EXPECT_EQ(fake_live("misuse"), 0);
}

TEST(Reopen, AgainAndAgain) {
  if (!on_fake_plugin()) return;
  programs().set_deadline(std::chrono::minutes(3));
  for (int i = 1; i <= 5; ++i) {
    Slot s;
    s.set(upload({static_cast<float>(i)}));
    s.set(make("mul.Tensor", s.value(), s.value()));
    materialise(0, {}, "test");
    EXPECT_EQ(download(s.value())[0], static_cast<float>(i * i));
    reopen();
    EXPECT_EQ(fake_live("live.client"), 1);
    EXPECT_EQ(programs().deadline(), std::chrono::minutes(3)) << "settings stay";
  }
}

// The plugin has no second client: the error is the plugin's, and the next use tries again.
TEST(Reopen, WhereThePluginRefuses) {
  if (!on_fake_plugin()) return;
  Slot s;
  s.set(upload({1}));
  fake_function<decltype(fake_pjrt_configure)>("fake_pjrt_configure")("fail=client_error");
  EXPECT_THROW(reopen(), TPUNotAvailableError);
  EXPECT_EQ(download(upload({2}))[0], 2);
  EXPECT_THAT(device_error_of(s.value()), HasSubstr("opened again"));
}

// Buffers that are larger than their tensors, and the programs that made them, go with the others.
TEST(Reopen, ProgramsForManySizes) {
  if (!on_fake_plugin()) return;
  for (int opened = 0; opened < 2; ++opened) {
    Slot kept;
    for (const size_t n : {3, 5, 6, 7, 9}) {
      std::vector<float> a(n, 3), nine(n, 9);
      Slot x;
      x.set(upload(a));
      kept.set(make("mul.Tensor", x.value(), x.value()));
      materialise(0, {}, "test");
      if (n == 9) break;  // nobody has looked at the last one
      EXPECT_EQ(download(kept.value()), nine);
    }
    EXPECT_GT(metrics().sized_executions, opened);
    reopen();
    EXPECT_THAT(device_error_of(kept.value()), HasSubstr("opened again"));
    Slot y;
    y.set(make("mul.Tensor", kept.value(), kept.value()));
    EXPECT_THROW(materialise(0, {y.value()}, "test"), TPUDeviceError);
  }
  EXPECT_EQ(fake_live("misuse"), 0);
}

}  // namespace
}  // namespace tpubridge::exec
