// Folders that are wrong in one place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "tpubridge/base/json.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/models/causal_lm.h"

namespace tpubridge {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// A copy of a model's folder that may be changed.
class BrokenFolder : public testing::Test {
 protected:
  void copy(const std::string& family) {
    family_ = family;
    for (const auto& file : std::filesystem::directory_iterator(Path(TEST_DATA) / "models" / family))
      std::filesystem::copy_file(file.path(), at(file.path().filename().string()),
                                 std::filesystem::copy_options::overwrite_existing);
  }
  void copy_again() { copy(std::string(family_)); }
  [[nodiscard]] Path at(const std::string& file) const { return folder_.path() / file; }
  void set(const std::string& key, const json& value) {
    json config = parse_json_file(at("config.json"));
    config[key] = value;
    write_file(at("config.json"), config.dump());
  }
  void change_weights(const std::function<void(std::vector<HostTensor>&)>& change) {
    auto tensors = read_safetensors(at("model.safetensors")).tensors;
    change(tensors);
    write_safetensors(at("model.safetensors"), tensors);
  }
  [[nodiscard]] std::string said() const {
    try {
      (void)CausalLM::of_folder(folder_.path(), {.device = torch::kCPU});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

 private:
  TempFolder folder_;
  std::string family_;
};

TEST_F(BrokenFolder, AWholeOneLoads) {
  copy("llama");
  EXPECT_EQ(said(), "");
}

TEST_F(BrokenFolder, FilesThatAreNotThere) {
  EXPECT_THAT(said(), HasSubstr("config.json"));
  copy("llama");
  std::filesystem::remove(at("model.safetensors"));
  EXPECT_THAT(said(), AllOf(HasSubstr("model.safetensors.index.json"), HasSubstr("save_pretrained")));
}

TEST_F(BrokenFolder, AnArchitectureThatIsNotKnown) {
  copy("llama");
  set("model_type", "mamba");
  EXPECT_THAT(said(),
              AllOf(HasSubstr("mamba"), HasSubstr("llama"), HasSubstr("gpt2"), HasSubstr("gemma3_text")));
}

TEST_F(BrokenFolder, BrokenJson) {
  copy("llama");
  write_file(at("config.json"), "{\"model_type\": ");
  EXPECT_THAT(said(), HasSubstr("config.json"));
  write_file(at("config.json"), "{}");
  EXPECT_THAT(said(), HasSubstr("model_type"));
}

TEST_F(BrokenFolder, NumbersThatMakeNoSense) {
  copy("llama");
  set("num_attention_heads", 3);
  EXPECT_THAT(said(), HasSubstr("num_attention_heads"));
  set("num_attention_heads", 0);
  EXPECT_THAT(said(), HasSubstr("num_attention_heads"));
  set("num_attention_heads", 4);
  set("hidden_size", -16);
  EXPECT_THAT(said(), HasSubstr("hidden_size"));
  set("hidden_size", "wide");
  EXPECT_THAT(said(), HasSubstr("hidden_size"));
  set("hidden_size", 16);
  set("num_hidden_layers", 900000000);
  EXPECT_THAT(said(), HasSubstr("layers"));
}

TEST_F(BrokenFolder, WhatAFamilyAsksForAndIsNotThere) {
  copy("llama");
  set("rope_parameters", {{"rope_type", "yarn"}, {"factor", 4}});
  EXPECT_THAT(said(), AllOf(HasSubstr("yarn"), HasSubstr("llama3")));
  copy_again();
  set("hidden_act", "mish");
  EXPECT_THAT(said(), AllOf(HasSubstr("mish"), HasSubstr("silu")));
  copy_again();
  set("quantization_config", {{"quant_method", "gptq"}});
  EXPECT_THAT(said(), HasSubstr("gptq"));
}

TEST_F(BrokenFolder, ATensorOfAnotherSize) {
  copy("llama");
  set("intermediate_size", 25);
  EXPECT_THAT(said(), AllOf(HasSubstr("model.layers.0.mlp.gate_proj.weight"), HasSubstr("[24,16]"),
                            HasSubstr("[25,16]")));
}

TEST_F(BrokenFolder, MissingAndExtraTensors) {
  copy("llama");
  change_weights([](auto& tensors) {
    std::erase_if(tensors, [](const HostTensor& t) {
      return t.name.find("layers.1.self_attn.k_proj.weight") != std::string::npos;
    });
  });
  EXPECT_THAT(said(), AllOf(HasSubstr("lacks 1"), HasSubstr("model.layers.1.self_attn.k_proj.weight")));
  copy_again();
  change_weights([](auto& tensors) {
    tensors.push_back(tensors[0]);
    tensors.back().name = "model.vision.weight";
  });
  EXPECT_THAT(said(), AllOf(HasSubstr("should not have"), HasSubstr("model.vision.weight")));
}

TEST_F(BrokenFolder, NamesWithoutTheirFirstWord) {
  copy("gpt2");
  change_weights([](auto& tensors) {
    for (HostTensor& t : tensors)
      if (t.name.starts_with("transformer.")) t.name = t.name.substr(12);
  });
  EXPECT_EQ(said(), "");
}

TEST_F(BrokenFolder, WeightsOfIntegers) {
  copy("llama");
  change_weights([](auto& tensors) {
    for (HostTensor& t : tensors) t.shape.dtype = DType::s32;
  });
  EXPECT_THAT(said(), HasSubstr("s32"));
}

TEST_F(BrokenFolder, AnIndexThatLies) {
  copy("qwen2");
  const auto with = [&](const std::function<void(json&)>& change) {
    std::filesystem::copy_file(Path(TEST_DATA) / "models/qwen2/model.safetensors.index.json",
                               at("model.safetensors.index.json"),
                               std::filesystem::copy_options::overwrite_existing);
    json index = parse_json_file(at("model.safetensors.index.json"));
    change(index["weight_map"]);
    write_file(at("model.safetensors.index.json"), index.dump());
    return said();
  };
  EXPECT_EQ(with([](json&) {}), "");
  EXPECT_THAT(with([](json& map) { map["model.norm.weight"] = "../../etc/x.safetensors"; }),
              HasSubstr("cannot be a part"));
  EXPECT_THAT(with([](json& map) { map["model.norm.weight"] = "model-00009-of-00003.safetensors"; }),
              HasSubstr("model-00009-of-00003.safetensors"));
  EXPECT_THAT(with([](json& map) { map["nothing"] = "model-00001-of-00003.safetensors"; }),
              HasSubstr("nothing"));
  EXPECT_THAT(with([](json& map) { map["model.norm.weight"] = 3; }), HasSubstr("model.norm.weight"));
}

TEST_F(BrokenFolder, WeightsThatAreCutOff) {
  copy("llama");
  const std::string all = read_file(at("model.safetensors"));
  write_file(at("model.safetensors"), all.substr(0, all.size() / 2));
  EXPECT_THAT(said(), HasSubstr("model.safetensors"));
}

TEST(CausalLMCalls, TokensThatMakeNoSense) {
  const auto model = CausalLM::of_folder(Path(TEST_DATA) / "models/llama", {.device = torch::kCPU});
  EXPECT_THROW((void)model->forward(torch::zeros({3}, torch::kLong)), ArgumentError);
  EXPECT_THROW((void)model->forward(torch::zeros({1, 0}, torch::kLong)), ArgumentError);
  EXPECT_THROW((void)model->forward(torch::zeros({1, 3})), ArgumentError);
  EXPECT_THROW((void)model->forward(torch::zeros({1, 129}, torch::kLong)), ArgumentError);
}

}  // namespace
}  // namespace tpubridge
