// Hugging Face folders beside what transformers makes of them (tests/python/make_models.py).
#include "tpubridge/models/causal_lm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tpubridge/base/tensor_file.h"
#include "tpubridge/models/weights.h"
#include "tpubridge/tpubridge.h"

namespace tpubridge {
namespace {

Path folder_of(const std::string& family) { return Path(TEST_DATA) / "models" / family; }

struct Reference {
  torch::Tensor tokens, logits;
  explicit Reference(const std::string& family) {
    const TensorFile file = read_safetensors(folder_of(family) / "reference.safetensors");
    tokens = as_torch(*file.find("tokens"), torch::kLong);
    logits = as_torch(*file.find("logits"), torch::kFloat);
  }
  static torch::Tensor as_torch(const HostTensor& t, torch::ScalarType type) {
    return torch::from_blob(const_cast<std::byte*>(t.data.get()), t.shape.dims, type).clone();
  }
};

class Families : public testing::TestWithParam<const char*> {};

TEST_P(Families, LogitsAreThoseOfTransformers) {
  const Reference want(GetParam());
  for (const char* device : {"cpu", "tpu"}) {
    const auto model = CausalLM::of_folder(folder_of(GetParam()), {.device = torch::Device(device)});
    const torch::NoGradGuard no_grad;
    const torch::Tensor got = model->forward(want.tokens.to(torch::Device(device))).cpu();
    ASSERT_EQ(got.sizes(), want.logits.sizes());
    EXPECT_LT((got - want.logits).abs().max().item<double>(), 1e-4) << device;
  }
}

TEST_P(Families, ACacheGivesTheSameTokenByToken) {
  const Reference want(GetParam());
  const auto model = CausalLM::of_folder(folder_of(GetParam()), {});
  const torch::NoGradGuard no_grad;
  const torch::Device tpu("tpu");
  const int64_t length = want.tokens.size(1), start = 3;
  auto cache = model->make_cache(1, 16);
  const auto positions = [&](int64_t from, int64_t to) {
    return torch::arange(from, to).unsqueeze(0).to(tpu);
  };
  torch::Tensor got = model->logits(
      model->hidden(want.tokens.narrow(1, 0, start).to(tpu), positions(0, start), &cache, true));
  for (int64_t at = start; at < length; ++at) {
    const auto next =
        model->hidden(want.tokens.narrow(1, at, 1).to(tpu), positions(at, at + 1), &cache, false);
    got = torch::cat({got, model->logits(next)}, 1);
  }
  EXPECT_LT((got.cpu() - want.logits).abs().max().item<double>(), 1e-4);
}

TEST_P(Families, ParametersHaveTheNamesOfTheFiles) {
  const auto model = CausalLM::of_folder(folder_of(GetParam()), {.device = torch::kCPU});
  const auto parameters = model->named_parameters();
  size_t found = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_of(GetParam()))) {
    if (file.path().extension() != ".safetensors" || file.path().stem() == "reference") continue;
    for (const HostTensor& t : read_safetensors(file.path()).tensors) {
      const auto* parameter = parameters.find(t.name);
      ASSERT_NE(parameter, nullptr) << t.name;
      EXPECT_TRUE(torch::equal(parameter->detach(), Reference::as_torch(t, torch::kFloat))) << t.name;
      ++found;
    }
  }
  EXPECT_EQ(found, parameters.size());
}

TEST_P(Families, GradientsReachEveryWeightAndAreThoseOfTheCpu) {
  const Reference want(GetParam());
  const auto gradients = [&](const torch::Device& device) {
    const auto model = CausalLM::of_folder(folder_of(GetParam()), {.device = device});
    const torch::Tensor tokens = want.tokens.to(device);
    const torch::Tensor logits = model->forward(tokens.narrow(1, 0, 7));
    torch::nn::functional::cross_entropy(logits.squeeze(0), tokens.narrow(1, 1, 7).squeeze(0)).backward();
    std::map<std::string, torch::Tensor> out;
    for (const auto& p : model->named_parameters()) out[p.key()] = p.value().grad();
    return out;
  };
  const auto here = gradients(torch::kCPU), there = gradients(torch::Device("tpu"));
  for (const auto& [name, gradient] : here) {
    ASSERT_TRUE(gradient.defined() && there.at(name).defined()) << name;
    EXPECT_LT((there.at(name).cpu() - gradient).abs().max().item<double>(),
              1e-3 * (1 + gradient.abs().max().item<double>()))
        << name;
  }
}

TEST_P(Families, WeightsAreConvertedOnTheWay) {
  const Reference want(GetParam());
  const auto model = CausalLM::of_folder(folder_of(GetParam()), {.type = torch::kBFloat16});
  for (const auto& p : model->parameters()) ASSERT_EQ(p.scalar_type(), torch::kBFloat16);
  const torch::NoGradGuard no_grad;
  const torch::Tensor got = model->forward(want.tokens.to(torch::Device("tpu"))).to(torch::kFloat).cpu();
  EXPECT_LT((got - want.logits).abs().mean().item<double>(), 0.05 * want.logits.abs().max().item<double>());
}

INSTANTIATE_TEST_SUITE_P(Each, Families,
                         testing::Values("llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma3",
                                         "phi3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tpubridge
