// TPUBackend on the simulated device: what it says of itself, models and data brought there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/backend/net.h"
#include "tests/backend/process.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/backend/tpu_backend.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/compute_type.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/train/checkpoint_folder.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;

class Backend : public RestoresTheProcess {};

TEST_F(Backend, SaysWhatItIs) {
  const TPUBackend b;
  EXPECT_EQ(b.name(), "tpu");
  EXPECT_EQ(b.repr(), "TPUBackend(device=tpu:0, version=v5e, topology=single, world_size=1)");
  EXPECT_FALSE(b.is_available()) << "XLA's CPU plugin is a simulation";
  EXPECT_EQ(b.device(), torch::Device("tpu:0"));
  EXPECT_EQ(b.device_count(), 1);
  EXPECT_EQ(b.world_size(), 1);
  EXPECT_EQ(b.rank(), 0);
  EXPECT_FALSE(b.is_distributed());
}

TEST_F(Backend, DeviceInfo) {
  const TPUBackend b(TPUConfig{.version = TPUVersion::v5p, .memory_fraction = 0.5});
  const DeviceInfo d = b.get_device_info();
  EXPECT_EQ(d.backend, "tpu");
  EXPECT_EQ(d.device_type, "tpu:0");
  EXPECT_EQ(d.device_name, "TPU v5p (simulated)");
  EXPECT_EQ(d.compute_capability, "v5p");
  EXPECT_EQ(d.total_memory_bytes, 102'786'660'352) << "all of it, whatever may be used";
  EXPECT_FALSE(d.is_available);
  EXPECT_EQ(d.properties.at("topology"), "single");
  EXPECT_EQ(d.properties.at("world_size"), "1");
  EXPECT_NE(d.driver_version, "");
  const auto json = nlohmann::json::parse(d.to_json());
  EXPECT_DOUBLE_EQ(json["total_memory_gb"].get<double>(), 102.786660352);
  EXPECT_EQ(json["properties"]["version"], "v5p");
  for (const int bad : {-1, 1, 99}) {
    const DeviceInfo none = b.get_device_info(bad);
    EXPECT_EQ(none.device_type, "cpu");
    EXPECT_EQ(none.device_name, "CPU (XLA fallback)");
    EXPECT_FALSE(none.is_available);
  }
  EXPECT_EQ(b.get_all_devices().size(), 1u);
}

TEST_F(Backend, ADeviceThatIsNotThere) {
  TPUBackend b;
  EXPECT_NO_THROW(b.set_device(0));
  try {
    b.set_device(5);
    FAIL() << "there is one device";
  } catch (const BackendError& e) {
    EXPECT_EQ(e.message(), "Device 5 not available. Available devices: 0-0");
  }
  EXPECT_EQ(b.device(), torch::Device("tpu:0"));
}

TEST_F(Backend, WithoutATpuWhereOneIsRequired) {
  try {
    const TPUBackend b(Config(), /*require_tpu=*/true);
    FAIL() << "there is no TPU";
  } catch (const TPUBackendError& e) {
    EXPECT_EQ(e.type_name(), "TPUNotAvailableError");
    EXPECT_THAT(e.message(), HasSubstr("TPU not available: "));
    EXPECT_THAT(e.hint(), HasSubstr("tpubridge doctor"));
  }
  EXPECT_THROW(TPUBackend(TPUConfig{.enable_strict_validation = true}), TPUNotAvailableError);
}

TEST_F(Backend, AModelAtO0IsOnlyMoved) {
  TPUBackend b;
  Net net;
  const auto ids = torch::arange(6) % 10;
  const auto want = net->forward(ids);
  const auto parameter = net->first->weight;  // the object that an optimizer would hold
  const Net same = b.prepare_model(net, OptimizationLevel::from_string("O0"));
  EXPECT_EQ(same.get(), net.get());
  EXPECT_EQ(net->first->weight.scalar_type(), torch::kFloat);
  EXPECT_EQ(parameter.device(), b.device()) << "the parameter is the same object";
  expect_close(net->forward(b.prepare_data(ids)), want);
}

using L = OptimizationLevel;

std::vector<std::optional<torch::ScalarType>> types_of(const torch::nn::Module& model) {
  std::vector<std::optional<torch::ScalarType>> out;
  for (const auto& p : model.parameters()) {
    EXPECT_EQ(p.scalar_type(), torch::kFloat) << "master weights stay";
    out.push_back(compute_type(p));
  }
  return out;
}

// By hand on the CPU: f32, but for the layers that compute in bf16.
torch::Tensor by_hand(Net& net, const torch::Tensor& ids, bool embedding_in_bf16) {
  const auto narrow = [](torch::nn::Linear& l, const torch::Tensor& x) {
    return torch::linear(x.to(torch::kBFloat16), l->weight.to(torch::kBFloat16), l->bias.to(torch::kBFloat16))
        .to(torch::kFloat);
  };
  auto x = net->embed(ids);
  if (embedding_in_bf16) x = x.to(torch::kBFloat16).to(torch::kFloat);
  return narrow(net->last, torch::relu(net->norm(narrow(net->first, x))));
}

TEST_F(Backend, MixedPrecision) {
  TPUBackend b(in(TPUPrecision::bfloat16));
  const auto ids = torch::arange(6) % 10;
  for (const auto level : {L::O1, L::O2, L::O3}) {
    Net net;
    const auto want = by_hand(net, ids, level == L::O3), f32 = net->forward(ids);
    b.prepare_model(net, level);
    const auto bf16 = torch::kBFloat16, table = level == L::O3 ? bf16 : torch::kFloat;
    EXPECT_THAT(types_of(*net),
                testing::ElementsAre(table, bf16, bf16, torch::kFloat, torch::kFloat, bf16, bf16));
    EXPECT_EQ(net->steps.scalar_type(), torch::kLong);
    const auto before = metrics().fallback_count();
    const auto got = net->forward(b.prepare_data(ids));
    EXPECT_EQ(got.scalar_type(), torch::kFloat);
    EXPECT_LT((got.cpu() - want).abs().max().item<float>(), 2e-3) << "roundings differ in the last place";
    EXPECT_GT((got.cpu() - f32).abs().max().item<float>(), 1e-5) << "nothing was rounded";
    EXPECT_EQ(metrics().fallback_count(), before) << "all of it runs on the device";
  }
}

TEST_F(Backend, TheConfigurationsLevel) {
  Config c = in(TPUPrecision::bfloat16);
  for (const auto& [level, table] : {std::pair{Optimization::conservative, torch::kFloat},
                                     {Optimization::balanced, torch::kFloat},
                                     {Optimization::aggressive, torch::kBFloat16}}) {
    c.optimization_level = level;
    TPUBackend b(c);
    Net net;
    b.prepare_model(net);
    EXPECT_EQ(compute_type(net->embed->weight), table);
    EXPECT_EQ(compute_type(net->last->weight), torch::kBFloat16);
  }
}

// What a layer is given need not have the type that it computes in, and what it gives suits the next one.
TEST_F(Backend, TypesMeetInsideAModel) {
  TPUBackend b(in(TPUPrecision::bfloat16));
  torch::nn::Sequential model(torch::nn::Conv1d(3, 4, 3), torch::nn::BatchNorm1d(4), torch::nn::Flatten(),
                              torch::nn::Linear(24, 5),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({5})));
  torch::nn::GRU gru(5, 3);
  const auto x = torch::sin(torch::arange(48).view({2, 3, 8}) * 0.3);
  model->eval();
  const auto want = std::get<0>(gru->forward(model->forward(x).unsqueeze(0)));
  for (const auto level : {L::O1, L::O3}) {
    b.prepare_model(model, level);
    b.prepare_model(gru, level);
    for (const auto& given : {x.to(b.device()), b.prepare_data(x)}) {
      const auto got = std::get<0>(gru->forward(model->forward(given).unsqueeze(0)));
      EXPECT_EQ(got.scalar_type(), torch::kFloat);
      EXPECT_LT((got.cpu() - want).abs().max().item<float>(), 2e-2);
      c10::InferenceMode inference;
      EXPECT_LT(
          (model->forward(given).cpu() - model->forward(x.to(b.device())).cpu()).abs().max().item<float>(),
          5e-2);
    }
  }
}

TEST_F(Backend, GradientsAndMasterWeightsAreF32) {
  TPUBackend b(in(TPUPrecision::bfloat16));
  torch::nn::Linear model(4, 3), host(4, 3);
  {
    torch::NoGradGuard quiet;
    host->weight.copy_(model->weight);
    host->bias.copy_(model->bias);
  }
  b.prepare_model(model);
  torch::optim::SGD sgd(model->parameters(), 1e-4);  // bf16 weights would not move at all
  const auto x = torch::linspace(-1, 1, 32).view({8, 4});
  model->forward(b.prepare_data(x)).square().mean().backward();
  host->forward(x).square().mean().backward();
  EXPECT_EQ(model->weight.grad().scalar_type(), torch::kFloat);
  EXPECT_LT((model->weight.grad().cpu() - host->weight.grad()).abs().max().item<float>(), 1e-2);
  const auto before = model->weight.detach().cpu();
  sgd.step();
  expect_close(model->weight, before - 1e-4 * model->weight.grad().cpu());
  EXPECT_FALSE(model->weight.cpu().equal(before));
}

TEST_F(Backend, RunningStatisticsStayInF32) {
  TPUBackend b(in(TPUPrecision::bfloat16));
  torch::nn::BatchNorm1d norm(4), host(4);
  torch::nn::Sequential model(torch::nn::Linear(4, 4), norm);
  b.prepare_model(model);
  EXPECT_EQ(norm->running_mean.scalar_type(), torch::kFloat);
  const auto x = (torch::arange(32) % 7).to(torch::kBFloat16).view({8, 4});
  expect_close(norm->forward(x.to(b.device())), host->forward(x.to(torch::kFloat)));
  expect_close(norm->running_mean, host->running_mean);
  expect_close(norm->running_var, host->running_var);
}

TEST_F(Backend, PrecisionAlwaysWins) {
  for (const auto& [config, kept, computed, data] :
       {std::tuple{in(TPUPrecision::float32), torch::kFloat, std::optional<torch::ScalarType>(),
                   torch::kFloat},
        {in(TPUPrecision::bfloat16, /*mixed=*/false), torch::kFloat, {}, torch::kFloat},
        {in(TPUPrecision::float16), torch::kFloat, torch::kHalf, torch::kHalf},
        {in(TPUPrecision::float64), torch::kDouble, {}, torch::kDouble}}) {
    TPUBackend b(config);
    for (const auto level : {L::O1, L::O2, L::O3}) {
      torch::nn::Linear model(2, 2);
      b.prepare_model(model, level);
      EXPECT_EQ(model->weight.scalar_type(), kept);
      EXPECT_EQ(compute_type(model->weight), computed);
    }
    EXPECT_EQ(b.prepare_data(torch::ones({2})).scalar_type(), data);
  }
}

TEST_F(Backend, ThePreparedModelsAreKnownByModelAndLevel) {
  TPUBackend b(in(TPUPrecision::bfloat16));
  torch::nn::Linear model(3, 3);
  b.prepare_model(model, OptimizationLevel::O0);
  EXPECT_EQ(b.get_memory_stats().model_cache_stats.misses, 1u);
  b.prepare_model(model, OptimizationLevel::O0);
  EXPECT_EQ(b.get_memory_stats().model_cache_stats.hits, 1u);
  EXPECT_EQ(compute_type(model->weight), std::nullopt);
  b.prepare_model(model, OptimizationLevel::O2);
  EXPECT_EQ(compute_type(model->weight), torch::kBFloat16) << "another level is not a hit";
  b.prepare_model(model, OptimizationLevel::O0);
  EXPECT_EQ(compute_type(model->weight), std::nullopt) << "it was at this level before, but is not now";
  b.prepare_model(model, OptimizationLevel::O2);
  EXPECT_EQ(b.get_memory_stats().model_cache_stats.size, 1u);
  model->to(torch::kCPU);
  b.prepare_model(model, OptimizationLevel::O2);
  EXPECT_EQ(model->weight.device(), b.device()) << "a model that went away is brought back";
  b.clear_cache();
  EXPECT_EQ(b.get_memory_stats().model_cache_stats.size, 0u);
  EXPECT_EQ(b.get_memory_stats().compilation_cache_stats.size, 0u);
}

TEST_F(Backend, DeadModelsAreNotKept) {
  TPUBackend b;
  b.synchronize();
  const int64_t before = device_memory().live;
  std::weak_ptr<torch::nn::LinearImpl> gone;
  for (int i = 0; i < 5; ++i) {
    const auto model = b.prepare_model(std::make_shared<torch::nn::LinearImpl>(64, 64));
    EXPECT_EQ(model->weight.device(), b.device()) << "also at the address of one that is gone";
    gone = model;
  }
  b.synchronize();
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(device_memory().live, before);
}

TEST_F(Backend, ACacheOfSize0IsOff) {
  TPUBackend b(TPUConfig{.cache_max_size = 0});
  torch::nn::Linear model(3, 3);
  for (int i = 0; i < 2; ++i) b.prepare_model(model);
  EXPECT_EQ(b.get_memory_stats().model_cache_stats.size, 0u);
  EXPECT_EQ(b.get_memory_stats().model_cache_stats.hits, 0u);
}

struct HalfMade : torch::nn::Module {
  torch::Tensor real = register_parameter("real", torch::ones({2}));
  torch::Tensor without_values = register_parameter("without_values", torch::empty({2}, torch::kMeta));
};

TEST_F(Backend, AModelThatCannotGoThereSaysSo) {
  TPUBackend b;
  const auto model = std::make_shared<HalfMade>();
  try {
    b.prepare_model(model);
    FAIL() << "there was nothing to copy";
  } catch (const TPUBackendError& e) {
    EXPECT_EQ(e.type_name(), "TPUModelPreparationError");
    EXPECT_THAT(e.message(), HasSubstr("TPU model preparation for '"));
    EXPECT_THAT(e.message(), HasSubstr("HalfMade' failed: Cannot copy out of meta tensor"));
    EXPECT_EQ(e.detail("device"), "tpu:0");
  }
  EXPECT_TRUE(model->real.device().is_cpu()) << "nothing was left there";
  EXPECT_THROW(b.prepare_model(std::shared_ptr<torch::nn::LinearImpl>()), ArgumentError);
}

TEST_F(Backend, AModelTooLargeIsOutOfMemoryAndStaysWhereItWas) {
  TPUBackend b(TPUConfig{.version = TPUVersion::v7, .memory_fraction = 0.1, .v7_memory_gb = 1.0});  // 50 MB
  torch::nn::Sequential model(torch::nn::Linear(10, 10), torch::nn::Linear(4000, 4000));
  EXPECT_THROW(b.prepare_model(model), TPUOutOfMemoryError);
  for (const auto& p : model->parameters()) EXPECT_TRUE(p.device().is_cpu());
}

TEST_F(Backend, AModelWithoutParameters) {
  TPUBackend b;
  torch::nn::Sequential model{torch::nn::ReLU()};
  b.prepare_model(model);
  EXPECT_EQ(model->forward(b.prepare_data(-torch::ones({2}))).sum().item<float>(), 0);
}

TEST_F(Backend, TorchScript) {
  TPUBackend b(in(TPUPrecision::bfloat16));
  torch::jit::Module module("Scaled");
  module.register_parameter("weight", torch::full({3}, 2.0f), false);
  module.register_buffer("count", torch::ones({1}, torch::kLong));
  module.define("def forward(self, x):\n  return torch.matmul(x, self.weight) + self.count\n");
  b.prepare_model(module);
  EXPECT_EQ(compute_type(module.attr("weight").toTensor()), torch::kFloat) << "no Linear";
  EXPECT_EQ(module.attr("count").toTensor().scalar_type(), torch::kLong);
  const auto y = module.forward({b.prepare_data(torch::full({2, 3}, 3.0f))}).toTensor();
  EXPECT_EQ(y.scalar_type(), torch::kFloat);
  EXPECT_EQ(y.sum().item<float>(), 38);
  b.prepare_model(module);
  EXPECT_EQ(b.get_memory_stats().model_cache_stats.hits, 1u);
}

TEST_F(Backend, DataInEveryForm) {
  TPUBackend b(in(TPUPrecision::bfloat16));
  const auto f = torch::full({2}, 0.5f), i = torch::ones({2}, torch::kLong);
  using Nest = std::map<std::string, std::vector<std::pair<torch::Tensor, int>>>;
  const Nest nest = b.prepare_data(Nest{{"a", {{f, 7}, {i, 8}}}, {"b", {}}});
  EXPECT_EQ(nest.at("a")[0].first.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(nest.at("a")[0].first.device(), b.device());
  EXPECT_EQ(nest.at("a")[1].first.scalar_type(), torch::kLong) << "whole numbers keep their type";
  EXPECT_EQ(nest.at("a")[1].first.device(), b.device());
  EXPECT_EQ(nest.at("a")[1].second, 8);
  const auto [x, text] = b.prepare_data(std::pair{f.to(torch::kDouble), std::string("kept")});
  EXPECT_EQ(x.scalar_type(), torch::kDouble) << "only f32 is converted";
  EXPECT_EQ(text, "kept");
  EXPECT_FALSE(b.prepare_data(torch::Tensor()).defined());
  EXPECT_TRUE(f.device().is_cpu()) << "what was given stays";
}

TEST_F(Backend, ForInference) {
  TPUBackend b(in(TPUPrecision::float32));
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Dropout(0.9), torch::nn::Linear(4, 2));
  const auto x = torch::linspace(-1, 1, 8).view({2, 4});
  model->eval();
  const auto want = model->forward(x);
  model->train();
  b.optimize_for_inference(model, x);
  EXPECT_FALSE(model->is_training());
  for (const auto& p : model->parameters()) EXPECT_FALSE(p.requires_grad());
  const auto compiled = expect_no_compile();
  expect_close(model->forward(b.prepare_data(x)), want);
}

TEST_F(Backend, ForInferenceInAnotherType) {
  TPUBackend b(in(TPUPrecision::float32));
  torch::nn::Linear model(2, 2);
  b.optimize_for_inference(model, torch::kHalf);
  EXPECT_EQ(model->weight.scalar_type(), torch::kHalf);
  Net net;
  net->steps.fill_(301);  // bf16 has no such number
  b.optimize_for_inference(net, torch::kBFloat16);
  EXPECT_EQ(net->first->weight.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(net->steps.scalar_type(), torch::kLong) << "counts stay whole numbers";
  EXPECT_EQ(net->steps.item<int64_t>(), 301);
}

TEST_F(Backend, ForInferenceParametersTakeHalfTheMemory) {
  TPUBackend b(in(TPUPrecision::bfloat16));
  torch::nn::Linear model(4, 4);
  const auto x = torch::linspace(-1, 1, 8).view({2, 4});
  b.prepare_model(model);
  const auto want = model->forward(x.to(b.device())).cpu();
  b.optimize_for_inference(model);
  EXPECT_EQ(model->weight.scalar_type(), torch::kBFloat16);
  const auto got = model->forward(x.to(b.device())).cpu();
  EXPECT_EQ(got.scalar_type(), torch::kFloat);
  EXPECT_TRUE(got.equal(want));
  b.optimize_for_training(model);
  EXPECT_EQ(model->weight.scalar_type(), torch::kFloat) << "there are master weights again";
}

TEST_F(Backend, ForTraining) {
  TPUBackend b(in(TPUPrecision::float32));
  torch::nn::Linear model(2, 1);
  model->eval();
  torch::optim::SGD sgd(model->parameters(), 0.5);
  const auto before = model->weight.detach().clone();
  auto [same, optimizer] = b.optimize_for_training(model, sgd);
  EXPECT_EQ(same.get(), model.get());
  EXPECT_EQ(optimizer, &sgd);
  EXPECT_TRUE(model->is_training());
  model->forward(b.prepare_data(torch::ones({1, 2}))).sum().backward();
  optimizer->step();
  expect_close(model->weight, before - 0.5);  // the optimizer has the parameters that went to the device
}

}  // namespace
}  // namespace tpubridge
