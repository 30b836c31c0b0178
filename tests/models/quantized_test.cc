// Language models with weights of few bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tpubridge/models/generate.h"
#include "tpubridge/tpubridge.h"

namespace tpubridge {
namespace {

Path model_folder(const std::string& family) { return Path(TEST_DATA) / "models" / family; }

class QuantizedModels : public testing::TestWithParam<const char*> {};

// The same model on the CPU, with the weights that the quantised ones stand for.
std::shared_ptr<CausalLM> same_on_cpu(const Path& folder, CausalLM& quantized) {
  auto cpu = CausalLM::of_folder(folder, {.device = torch::kCPU});
  const torch::NoGradGuard no_grad;
  auto from = quantized.named_parameters();
  for (auto& p : cpu->named_parameters()) p.value().copy_(from[p.key()].cpu());
  return cpu;
}

TEST_P(QuantizedModels, LogitsAreThoseOfTheRoundedWeights) {
  const Path folder = model_folder(GetParam());
  for (const auto type : {QuantType::int8, QuantType::int4}) {
    const auto loaded =
        CausalLM::of_folder(folder, {.quantize = QuantizeOptions{.weights = type, .group = 8}});
    const auto later = CausalLM::of_folder(folder);
    const auto report = quantize(*later, {.weights = type, .group = 8});
    EXPECT_EQ(report.layers.size(), loaded->linear_weights().size());
    for (const auto& w : loaded->linear_weights())
      EXPECT_TRUE(is_quantized(loaded->named_parameters()[w.parameter])) << w.parameter;
    const auto ids = torch::tensor({{3, 1, 4, 1, 5}, {9, 2, 6, 5, 3}});
    const auto want = same_on_cpu(folder, *loaded)->forward(ids).detach();
    const auto got = loaded->forward(ids.to(torch::Device("tpu"))).detach().cpu();
    EXPECT_TRUE(torch::allclose(got, want, 1e-4, 1e-4));
    EXPECT_TRUE(torch::equal(later->forward(ids.to(torch::Device("tpu"))).detach().cpu(), got));
  }
}

TEST_P(QuantizedModels, TokensAreThoseOfTheRoundedWeights) {
  const Path folder = model_folder(GetParam());
  const auto tokenizer = Tokenizer::of_file(folder);
  const auto model =
      CausalLM::of_folder(folder, {.quantize = QuantizeOptions{.weights = QuantType::int4, .group = 8}});
  const auto cpu = same_on_cpu(folder, *model);
  const std::vector<std::string> prompts = {"one two", "a"};
  const auto got = generate(*model, tokenizer, prompts, {.tokens = 12});
  const auto want = generate(*cpu, tokenizer, prompts, {.tokens = 12});
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(got.rows[i].ids, want.rows[i].ids);
}

INSTANTIATE_TEST_SUITE_P(Some, QuantizedModels, testing::Values("llama", "gpt2", "gemma2", "phi3"),
                         [](const auto& info) { return std::string(info.param); });

TEST(QuantizedModel, IsForTheDevice) {
  EXPECT_THROW((void)CausalLM::of_folder(model_folder("llama"),
                                         {.device = torch::kCPU, .quantize = QuantizeOptions{}}),
               ArgumentError);
}

TEST(QuantizedModel, AGroupThatDoesNotDivideNamesTheWeight) {
  try {
    (void)CausalLM::of_folder(model_folder("llama"), {.quantize = QuantizeOptions{.group = 1000}});
    FAIL();
  } catch (const ArgumentError& e) {
    EXPECT_EQ(e.detail("weight"), "model.embed_tokens.weight");
  }
}

}  // namespace
}  // namespace tpubridge
