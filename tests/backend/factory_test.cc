// Backends by name, and levels by name.
#include "tpubridge/backend/factory.h"

#include <gtest/gtest.h>

#include "tests/backend/process.h"
#include "tpubridge/backend/cpu_backend.h"
#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

class Factory : public RestoresTheProcess {};

TEST_F(Factory, GivesWhatWasAsked) {
  for (const char* name : {"tpu", "TPU", "xla", "Xla"})
    EXPECT_EQ(BackendFactory::create(name)->name(), "tpu");
  EXPECT_EQ(BackendFactory::create("cpu")->name(), "cpu");
  EXPECT_EQ(BackendFactory::create(BackendType::tpu)->name(), "tpu");
}

TEST_F(Factory, TheBestThatIsHere) {
  EXPECT_EQ(BackendFactory::create()->name(), "cpu") << "a simulation is no TPU";
  EXPECT_EQ(BackendFactory::create("auto")->name(), "cpu");
  EXPECT_EQ(BackendFactory::list_available_backends(), std::vector{BackendType::cpu});
}

TEST_F(Factory, WhatIsNotThereIsTheCpuAndSaidInTheLog) {
  const log::Capture log;
  for (const char* name : {"nvidia", "cuda", "amd", "rocm", "hip", "intel", "xpu", "sycl", "abacus", ""})
    EXPECT_EQ(BackendFactory::create(name)->name(), "cpu") << name;
  EXPECT_EQ(log.records("backend.cpu_instead").size(), 10u);
}

TEST_F(Factory, Info) {
  for (const auto& [type, priority, registered] : {std::tuple{BackendType::nvidia, 100, false},
                                                   {BackendType::amd, 90, false},
                                                   {BackendType::tpu, 85, true},
                                                   {BackendType::intel, 80, false},
                                                   {BackendType::cpu, 0, true}}) {
    const BackendEntry e = BackendFactory::get_backend_info(type);
    EXPECT_EQ(e.priority, priority);
    EXPECT_EQ(e.registered, registered);
    EXPECT_EQ(e.available, type == BackendType::cpu);
  }
}

struct Intel : CPUBackend {
  [[nodiscard]] std::string name() const override { return "intel"; }
};

TEST(FactoryAlone, ANewBackendCanBeRegistered) {
  expect_in_new_process([]() -> std::string {
    BackendFactory::register_backend(
        BackendType::intel, [](const Config&) { return std::make_unique<Intel>(); }, [] { return true; });
    if (BackendFactory::create("sycl")->name() != "intel") return "another one was made";
    if (BackendFactory::create()->name() != "intel") return "it is the best, but was not chosen";
    BackendFactory::register_backend(
        BackendType::intel,
        [](const Config&) -> std::unique_ptr<BaseBackend> { throw BackendError("broken"); },
        [] { return true; });
    if (BackendFactory::create("intel")->name() != "cpu") return "a broken one was not replaced";
    try {
      BackendFactory::register_backend(BackendType::automatic, {}, {});
    } catch (const ArgumentError&) {
      return "";
    }
    return "nothing was registered";
  });
}

TEST_F(Factory, AWrongConfigurationIsNotHidden) {
  Config c;
  c.hardware.tpu.memory_fraction = 7.0;
  EXPECT_THROW((void)BackendFactory::create("tpu", c), TPUConfigurationError);
}

TEST_F(Factory, TheCpuBackendWorks) {
  const auto b = BackendFactory::create("cpu");
  torch::nn::Linear model(2, 2);
  b->prepare_model(model);
  EXPECT_TRUE(b->prepare_data(torch::ones({2})).device().is_cpu());
  EXPECT_TRUE(b->get_device_info().is_available);
  EXPECT_GT(b->get_memory_stats().total_memory, 0);
  EXPECT_THROW(b->set_device(1), BackendError);
  b->cleanup();
}

TEST(Level, ByName) {
  using L = OptimizationLevel;
  for (const auto& [name, level] : {std::pair{"O0", L::O0},
                                    {"debug", L::O0},
                                    {"o1", L::O1},
                                    {"Conservative", L::O1},
                                    {"O2", L::O2},
                                    {"BALANCED", L::O2},
                                    {"O3", L::O3},
                                    {"aggressive", L::O3}})
    EXPECT_EQ(L::from_string(name), level) << name;
  const log::Capture log;
  EXPECT_EQ(L::from_string("ludicrous"), L::O2);
  EXPECT_EQ(log.records("backend.unknown_level").size(), 1u);
  EXPECT_EQ(L(L::O3).str(), "O3");
}

}  // namespace
}  // namespace tpubridge
