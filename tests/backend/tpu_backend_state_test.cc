// TPUBackend: models in files, waiting, memory, and what a TPU (the fake one) changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/backend/net.h"
#include "tests/backend/process.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/backend/tpu_backend.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/train/checkpoint_folder.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;

class BackendState : public RestoresTheProcess {};

TEST_F(BackendState, ModelsInFiles) {
  TPUBackend b(in(TPUPrecision::bfloat16));
  const TempFolder folder;
  const Path path = folder.path() / "model";
  Net a, c;
  b.prepare_model(a);
  b.save_model(*a, path);
  const CheckpointData saved = read_checkpoint(path);
  EXPECT_EQ(saved.numbers["training"]["world_size"], 1);
  EXPECT_EQ(saved.numbers["training"]["tpu_config"]["precision"], "bfloat16");
  EXPECT_FALSE(saved.files.contains("optimizer"));
  b.prepare_model(c);
  torch::optim::SGD sgd(c->parameters(), 0.25);
  b.load_model(*c, path, &sgd);  // there is none in it: as it was
  for (const auto& p : a->named_parameters())
    EXPECT_TRUE(p.value().cpu().equal(c->named_parameters()[p.key()].cpu())) << p.key();
  EXPECT_EQ(c->first->weight.device(), b.device());
}

TEST_F(BackendState, TheOptimizerInFiles) {
  TPUBackend b(in(TPUPrecision::float32));
  const TempFolder folder;
  torch::nn::Linear model(2, 1);
  b.prepare_model(model);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.5).momentum(0.9));
  model->forward(b.prepare_data(torch::ones({1, 2}))).sum().backward();
  sgd.step();
  b.save_model(*model, folder.path() / "m", &sgd);
  torch::optim::SGD other(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  b.load_model(*model, folder.path() / "m", &other);
  EXPECT_EQ(static_cast<torch::optim::SGDOptions&>(other.param_groups()[0].options()).lr(), 0.5);
}

TEST_F(BackendState, AFileThatIsNotSound) {
  TPUBackend b(in(TPUPrecision::float32));
  const TempFolder folder;
  const Path path = folder.path() / "m";
  torch::nn::Linear model(2, 2), other(2, 3);
  b.save_model(*model, path);
  const auto before = other->weight.clone();
  EXPECT_THROW(b.load_model(*other, path), TPUCheckpointError) << "another shape";
  EXPECT_TRUE(other->weight.equal(before));
  std::string bytes = read_file(path / "model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(path / "model.safetensors", bytes);
  try {
    b.load_model(*model, path);
    FAIL() << "a changed bit was not noticed";
  } catch (const TPUBackendError& e) {
    EXPECT_EQ(e.type_name(), "TPUCheckpointError");
    EXPECT_THAT(std::string(e.what()), HasSubstr("model.safetensors"));
  }
  EXPECT_THROW(b.load_model(*model, folder.path() / "none"), TPUCheckpointError);
}

TEST_F(BackendState, SynchronizeWaits) {
  TPUBackend b;
  auto x = torch::full({300, 300}, 0.01f, b.device());
  for (int i = 0; i < 40; ++i) x = torch::mm(x, x).clamp(0, 0.01);
  b.synchronize();
  const auto value = [&] {
    const exec::Lock lock(exec::mutex());
    return device::read(x);
  }();
  EXPECT_TRUE(exec::buffer_of(*value.node(), value.index()).ready().ready());
  const auto before = metrics().executions;
  for (int i = 0; i < 3; ++i) b.synchronize();
  EXPECT_EQ(metrics().executions, before) << "nothing to wait for";
}

TEST_F(BackendState, MemoryIsLiveBytes) {
  TPUBackend b(TPUConfig{.memory_fraction = 0.5});
  b.synchronize();
  const MemoryStats before = b.get_memory_stats();
  EXPECT_EQ(before.device, "tpu:0");
  EXPECT_EQ(before.memory_fraction, 0.5);
  EXPECT_EQ(before.total_memory, 16'909'336'064);
  {
    const auto x = b.allocate_tensor({1000, 1000});
    b.synchronize();
    EXPECT_EQ(x.sum().item<float>(), 0);
    const MemoryStats with = b.get_memory_stats();
    EXPECT_EQ(with.allocated_memory - before.allocated_memory, 4'000'000);
    EXPECT_EQ(with.available_memory, 16'909'336'064 / 2 - with.allocated_memory);
    EXPECT_GE(with.peak_memory, with.allocated_memory);
  }
  EXPECT_EQ(b.get_memory_stats().allocated_memory, before.allocated_memory) << "not a sum of what ever was";
  const auto json = nlohmann::json::parse(b.get_memory_stats().to_json());
  for (const char* key :
       {"device", "world_size", "rank", "memory_fraction", "model_cache_stats", "compilation_cache_stats",
        "allocated_memory", "available_memory", "peak_memory", "xla_device_count"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_THAT(b.get_memory_summary(), HasSubstr("tpu:0: "));
  EXPECT_TRUE(b.allocate_tensor({2}, torch::kDouble, true).requires_grad());
}

TEST_F(BackendState, AScopeCleansUp) {
  TPUBackend b;
  torch::nn::Linear model(2, 2);
  {
    const BackendScope scope(b);
    b.prepare_model(model);
    (void)model->forward(b.prepare_data(torch::ones({1, 2}))).sum().item<float>();
    EXPECT_EQ(scope->get_memory_stats().model_cache_stats.size, 1u);
  }
  EXPECT_EQ(b.get_memory_stats().model_cache_stats.size, 0u);
  EXPECT_EQ(b.get_memory_stats().compilation_cache_stats.size, 0u);
}

TEST(BackendOnATpu, SaysSo) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v6e,chips=4");
    Config c;
    c.runtime.plugin = fake.path();
    TPUBackend b(c, /*require_tpu=*/true);
    if (!b.is_available()) return "it is not available";
    if (b.repr() != "TPUBackend(device=tpu:0, version=v6e, topology=single, world_size=4)") return b.repr();
    if (!b.is_distributed() || b.device_count() != 4) return "there are other devices";
    if (b.get_device_info(3).device_name != "TPU v6e") return b.get_device_info(3).device_name;
    b.set_device(2);
    torch::nn::Linear model(2, 2);
    b.prepare_model(model);
    return model->weight.device() == torch::Device("tpu:2") ? "" : model->weight.device().str();
  });
}

TEST(BackendOnATpu, OnlyTheFirstProcessWrites) {
  for (const int host : {0, 1})
    expect_in_new_process([host]() -> std::string {
      const pjrt::FakePlugin fake("generation=v5e,chips=8,hosts=2,host=" + std::to_string(host));
      Config c;
      c.runtime.plugin = fake.path();
      TPUBackend b(c);
      if (b.rank() != host || b.world_size() != 8) return "another process";
      const TempFolder folder;
      torch::nn::Linear model(2, 2);
      b.prepare_model(model);
      b.save_model(*model, folder.path() / "m");
      return std::filesystem::exists(folder.path() / "m") == (host == 0) ? "" : "the wrong one wrote";
    });
}

TEST(BackendOnATpu, AFailedWaitIsThrown) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v5e,chips=1");
    Config c;
    c.runtime.plugin = fake.path();
    TPUBackend b(c);
    const auto x = b.prepare_data(torch::ones({4}));
    fake.configure("fail=device_lost");
    const auto y = x * 3;
    try {
      b.synchronize();
    } catch (const TPUBackendError&) {
      return "";
    }
    return "a lost device was not noticed";
  });
}

}  // namespace
}  // namespace tpubridge
