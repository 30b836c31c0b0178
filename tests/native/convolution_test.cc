// Convolutions by libtorch's kernels inside of programs: values as close to the true ones as libtorch's own.
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/exec/again.h"
#include "tests/native/check_convolution.h"
#include "tpubridge/base/env.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/export/export.h"

namespace tpubridge::native {
namespace {

// On other machines, XLA computes all of them.
bool used_here() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}
int64_t calls() { return convolution_calls().all; }

// A convolution of 32 channels: 15 million multiplications each way.
struct Typical {
  Tensor x = torch::randn({4, 32, 20, 20}), w = torch::randn({32, 32, 3, 3}) * 0.1, b = torch::randn({32});
  Setting s{{}, {}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1, false, true};
};

void expect_as_good_as_the_cpus(const Setting& s, const Tensor& x, const Tensor& w, const Tensor& b,
                                bool twice, const std::string& which) {
  const auto wide = torch::kDouble;
  const auto truth = all_values(s, x.to(wide), w.to(wide), b.to(wide), twice);
  const auto cpu = all_values(s, x, w, b, twice);
  const auto got = all_values(s, x.to(tpu()), w.to(tpu()), b.to(tpu()), twice);
  for (size_t k = 0; k < truth.size(); ++k) {
    ASSERT_EQ(got[k].sizes(), truth[k].sizes()) << which << ", value " << k;
    EXPECT_LE(error_of(got[k], truth[k]), 4 * error_of(cpu[k], truth[k]) + 2e-6)
        << which << ", value " << k << ": " << s.text();
  }
}

TEST(HostConvolution, OfAnyKindIsAsGoodAsTheCpus) {
  const auto seed =
      static_cast<uint32_t>(std::getenv("CONVOLUTION_SEED") ? std::atoi(std::getenv("CONVOLUTION_SEED")) : 3);
  const int cases = std::getenv("CONVOLUTION_CASES") ? std::atoi(std::getenv("CONVOLUTION_CASES")) : 12;
  const int64_t before = calls();
  for (int i = 0; i < cases; ++i) {
    std::mt19937 random(seed + static_cast<uint32_t>(i));
    torch::manual_seed(i);
    const Setting s = some_setting(random);
    auto x = torch::randn(s.x), w = torch::randn(s.w);
    const auto b = torch::randn({s.transposed ? s.w[1] * s.groups : s.w[0]});
    if (random() % 4 == 0) x = x.transpose(0, -1).contiguous().transpose(0, -1);  // views
    if (random() % 4 == 0 && x.dim() == 4) x = x.contiguous(torch::MemoryFormat::ChannelsLast);
    if (random() % 4 == 0) w = torch::cat({w, w}).narrow(0, 0, s.w[0]);
    expect_as_good_as_the_cpus(s, x, w, b, i % 5 == 0, c10::str("seed ", seed + static_cast<uint32_t>(i)));
  }
  EXPECT_EQ(calls() > before, used_here());
}

TEST(HostConvolution, TheLayersOfKnownNets) {
  const auto conv = [](std::vector<int64_t> x, std::vector<int64_t> w, int64_t stride, int64_t padding,
                       int64_t groups = 1) {
    return Setting{std::move(x), std::move(w), {stride, stride}, {padding, padding}, {1, 1}, {0, 0}, groups,
                   false,        true};
  };
  for (const Setting& s :
       {conv({2, 3, 64, 64}, {32, 3, 7, 7}, 2, 3), conv({2, 256, 3, 3}, {512, 256, 3, 3}, 1, 1),
        conv({2, 256, 6, 6}, {512, 256, 3, 3}, 2, 1), conv({2, 64, 24, 24}, {128, 64, 1, 1}, 2, 0),
        conv({1, 256, 14, 14}, {256, 256, 3, 3}, 1, 1), conv({33, 1, 28, 28}, {16, 1, 5, 5}, 1, 2),
        conv({4, 48, 28, 28}, {48, 1, 3, 3}, 1, 1, 48), conv({40, 10, 12, 12}, {20, 10, 5, 5}, 1, 0)}) {
    torch::manual_seed(1);
    const auto x = torch::randn(s.x), w = torch::randn(s.w) * 0.1, b = torch::randn({s.w[0]});
    expect_as_good_as_the_cpus(s, x, w, b, false, "a layer");
  }
}

TEST(HostConvolution, OtherTypesAndSizesOfNothing) {
  const Typical t;
  const int64_t before = calls();
  for (const auto type : {torch::kDouble, torch::kBFloat16}) {
    const auto x = t.x.to(type), w = t.w.to(type), b = t.b.to(type);
    EXPECT_LE(error_of(t.s(x.to(tpu()), w.to(tpu()), b.to(tpu())),
                       t.s(x.to(torch::kDouble), w.to(torch::kDouble), b.to(torch::kDouble))),
              type == torch::kDouble ? 1e-10 : 1e-2);
  }
  const auto none = t.x.slice(0, 0, 0);
  EXPECT_EQ(t.s(none.to(tpu()), t.w.to(tpu()), t.b.to(tpu())).cpu().sizes(), t.s(none, t.w, t.b).sizes());
  const auto one = torch::randn({1, 1, 1, 1});
  expect_close(torch::conv2d(one.to(tpu()), one.to(tpu())), torch::conv2d(one, one));
  EXPECT_EQ(calls(), before);
}

TEST(HostConvolution, TurnedOffXlaComputesTheSame) {
  const Typical t;
  const auto x = t.x.to(tpu()), w = t.w.to(tpu()), b = t.b.to(tpu());
  const auto with = all_values(t.s, x, w, b);
  for (const auto& v : with) (void)v.cpu();
  const bool was = exec::set_host_kernels(false);
  const int64_t before = calls();
  const auto without = all_values(t.s, x, w, b);
  for (size_t k = 0; k < with.size(); ++k)
    EXPECT_LE(error_of(without[k], with[k].cpu().to(torch::kDouble)), 1e-5);
  EXPECT_EQ(calls(), before);
  exec::set_host_kernels(was);
  for (const auto& v : all_values(t.s, x, w, b)) (void)v.cpu();
  EXPECT_EQ(calls() > before, used_here() && was);
}

TEST(HostConvolution, LeavesThreadsAndSettingsOfTheCallerAlone) {
  const Typical t;
  const auto want = t.s(t.x, t.w, t.b);
  const int threads = at::get_num_threads();
  for (int i = 0; i < 2; ++i) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, i == 1);
    const auto got = t.s(t.x.to(tpu()), t.w.to(tpu()), t.b.to(tpu())).cpu();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    expect_close(got, want, 10);
    const c10::InferenceMode inference;
    expect_close(t.s(t.x.to(tpu()), t.w.to(tpu()), t.b.to(tpu())).cpu(), want, 10);
  }
  EXPECT_EQ(at::get_num_threads(), threads);
}

TEST(HostConvolution, ThreadsAndDevicesAtOnce) {
  if (device_count() == 1 && !std::getenv("TEST_FOUR_DEVICES")) {  // so four of them, in another process
    const Outcome outcome = exec::again({{"TPUBRIDGE_CPU_DEVICES", "4"}, {"TEST_FOUR_DEVICES", "1"}});
    EXPECT_TRUE(outcome.ok()) << outcome.str() << outcome.out << outcome.err;
  }
  const Typical t;
  const auto want = all_values(t.s, t.x, t.w, t.b);
  std::vector<std::thread> threads;
  for (int n = 0; n < 6; ++n)
    threads.emplace_back([&, n] {
      const torch::Device device("tpu:" + std::to_string(n % device_count()));
      for (int i = 0; i < 4; ++i) {
        const auto got = all_values(t.s, t.x.to(device), t.w.to(device), t.b.to(device));
        for (size_t k = 0; k < want.size(); ++k)
          EXPECT_LE(error_of(got[k], want[k].to(torch::kDouble)), 1e-5);
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(HostConvolution, AfterTheDeviceWasOpenedAgain) {
  const Typical t;
  for (int i = 0; i < 2; ++i) {
    const int64_t before = calls();
    expect_close(t.s(t.x.to(tpu()), t.w.to(tpu()), t.b.to(tpu())), t.s(t.x, t.w, t.b), 10);
    EXPECT_EQ(calls() > before, used_here());
    reopen_device();
  }
}

// Gives no memory to any thread of the plugin's while it is set.
struct NoMemory final : c10::Allocator {
  c10::Allocator* real = c10::GetCPUAllocator();
  std::thread::id mine = std::this_thread::get_id();
  std::atomic<bool> none{false};
  c10::DataPtr allocate(size_t bytes) override {
    if (none && bytes > 1000) throw std::bad_alloc();
    return real->allocate(bytes);
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return real->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    real->copy_data(to, from, bytes);
  }
};

TEST(HostConvolution, WithoutMemoryItIsSlowAndRight) {
  static auto* memory = new NoMemory;
  c10::SetCPUAllocator(memory, 255);
  std::mt19937 random(5);
  const int64_t before = convolution_calls().plain;
  for (int i = 0; i < 4; ++i) {
    Setting s = some_setting(random);
    const auto x = torch::randn(s.x), w = torch::randn(s.w);
    const auto b = torch::randn({s.transposed ? s.w[1] * s.groups : s.w[0]});
    const auto want = all_values(s, x, w, b);
    const auto got = all_values(s, x.to(tpu()), w.to(tpu()), b.to(tpu()));
    memory->none = true;
    EXPECT_NO_THROW(sync(got));
    memory->none = false;
    for (size_t k = 0; k < want.size(); ++k)
      EXPECT_LE(error_of(got[k], want[k].to(torch::kDouble)), 2e-5) << i << ", " << k << ": " << s.text();
  }
  EXPECT_EQ(convolution_calls().plain > before, used_here());
}

TEST(HostConvolution, ExportsKeepXlasConvolution) {
  const Typical t;
  const auto x = t.x.to(tpu()), w = t.w.to(tpu()), b = t.b.to(tpu());
  const auto program =
      export_program({{"x", x}}, [&](const auto& in) { return std::vector<Tensor>{t.s(in[0], w, b)}; });
  for (const auto& [platform, text] : program.texts) {
    EXPECT_EQ(text.find("tpubridge_ffi"), std::string::npos) << platform;
    EXPECT_NE(text.find("stablehlo.convolution"), std::string::npos) << platform;
  }
}

TEST(HostConvolution, ProgramsComeFromDiskInAnotherProcess) {
  if (const char* expected = std::getenv("TEST_COMPILES")) {
    torch::manual_seed(1);
    const Typical t;
    const auto got = t.s(t.x.to(tpu()), t.w.to(tpu()), t.b.to(tpu()));
    expect_close(got, t.s(t.x, t.w, t.b), 10);
    EXPECT_EQ(std::to_string(metrics().compiles), expected);
    EXPECT_EQ(calls() > 0, used_here() && env::flag("TPUBRIDGE_HOST_KERNELS"));
    return;
  }
  const TempFolder folder;
  const std::pair<const char*, const char*> runs[] = {{"1", "1"}, {"0", "1"}, {"1", "0"}, {"0", "0"}};
  for (const auto& [compiles, on] : runs) {
    if (!used_here() && std::string(on) == "0") continue;
    const Outcome outcome = exec::again({{"TPUBRIDGE_CACHE", "1"},
                                         {"TPUBRIDGE_CACHE_DIR", folder.path().string()},
                                         {"TPUBRIDGE_HOST_KERNELS", on},
                                         {"TEST_COMPILES", compiles}});
    EXPECT_TRUE(outcome.ok()) << outcome.str() << outcome.out << outcome.err;
  }
}

}  // namespace
}  // namespace tpubridge::native
