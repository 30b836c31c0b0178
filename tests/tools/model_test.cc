// `tpubridge run` with models of torch.export and Hugging Face folders: Python's values, by name and by
// place; arguments and files that are wrong.
#include <cmath>

#include "tests/tools/command.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

const Environment kModelOnCpu = {{"TPUBRIDGE_PLUGIN", CPU_PLUGIN}};

std::string pt2(const std::string& name) { return std::string(TEST_DATA) + "/pt2/" + name; }

// The tensors whose names begin so, without it.
std::vector<HostTensor> reference(const std::string& name, const std::string& prefix) {
  std::vector<HostTensor> out;
  for (HostTensor& t : read_safetensors(pt2(name + ".safetensors")).tensors) {
    if (!t.name.starts_with(prefix)) continue;
    t.name.erase(0, prefix.size());
    out.push_back(std::move(t));
  }
  return out;
}

void expect_as_in_python(const HostTensor& got, const HostTensor& want) {
  ASSERT_EQ(got.shape, want.shape) << want.name;
  const auto bytes = static_cast<size_t>(want.shape.bytes());
  if (want.shape.dtype != DType::f32) {
    EXPECT_EQ(std::memcmp(got.data.get(), want.data.get(), bytes), 0) << want.name;
    return;
  }
  const auto* a = reinterpret_cast<const float*>(got.data.get());
  const auto* b = reinterpret_cast<const float*>(want.data.get());
  for (size_t i = 0; i < bytes / sizeof(float); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-4 * (1 + std::abs(b[i]))) << want.name << " at " << i;
}

class RunModel : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(Path(BUILD_DIR) / "bin/tpubridge-model"))
      GTEST_SKIP() << "built without torch";
  }
  std::string file(const std::string& name, const std::vector<HostTensor>& tensors) const {
    const std::string path = (folder_.path() / name).string();
    write_tensors(path, tensors);
    return path;
  }
  static Ran run(std::vector<std::string> words) {
    words.insert(words.begin(), "run");
    return tpubridge(words, kModelOnCpu);
  }
  // The message of the error.
  static std::string failed(std::vector<std::string> words) {
    words.emplace_back("--json");
    const Ran ran = run(words);
    EXPECT_EQ(ran.code, 1) << ran.out;
    return ran.error().value("message", "") + " " + ran.error().value("hint", "");
  }
  TempFolder folder_;
};

TEST_F(RunModel, ResultsAreThoseOfPython) {
  const std::string out = (folder_.path() / "out.safetensors").string();
  for (const std::string name : {"mlp", "dynamic", "bert", "mutates", "cond"}) {
    const std::string in = file("in.safetensors", reference(name, "in."));
    const Ran ran = run({pt2(name + ".pt2"), "--in", in, "--out", out, "--json"});
    ASSERT_EQ(ran.code, 0) << name << ran.out << ran.err;
    EXPECT_EQ(ran.json()["kind"], "torch.export");
    const TensorFile got = read_tensors(out);
    const auto want = reference(name, "out.");
    EXPECT_GE(got.tensors.size(), want.size());  // numbers, too
    for (const HostTensor& w : want) {
      const bool place = std::isdigit(static_cast<unsigned char>(w.name[0])) != 0;
      const auto* g = got.find(w.name == "out" ? "out0" : place ? "out" + w.name : w.name);
      ASSERT_NE(g, nullptr) << name << ": " << w.name;
      expect_as_in_python(*g, w);
    }
  }
}

TEST_F(RunModel, ArgumentsByPlaceAndAsArrays) {
  const std::string out = (folder_.path() / "out.npy").string();
  auto x = reference("mlp", "in.");
  const auto want = reference("mlp", "out.");
  x[0].name = "arg0";
  for (const std::string& in : {file("in.safetensors", x), file("anything.npy", x)}) {
    const Ran ran = run({pt2("mlp.pt2"), "--in", in, "--out", out, "--repeat", "2"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("then 2 runs"));
    EXPECT_THAT(ran.out, HasSubstr("out0"));
    expect_as_in_python(read_npy(out), want[0]);
  }
}

TEST_F(RunModel, AFolderGivesLogits) {
  const std::string folder = std::string(TEST_DATA) + "/models/gpt2";
  const TensorFile want = read_tensors(folder + "/reference.safetensors");
  HostTensor tokens = *want.find("tokens");
  tokens.name = "input_ids";
  const std::string out = (folder_.path() / "out.safetensors").string();
  const Ran ran = run({folder, "--in", file("in.safetensors", {tokens}), "--out", out, "--json"});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.json()["kind"], "gpt2");
  expect_as_in_python(*read_tensors(out).find("logits"), *want.find("logits"));

  const auto far = tensor<int64_t>("input_ids", {DType::s64, {1, 2}}, {1, 100000});
  EXPECT_THAT(failed({folder, "--in", file("far.safetensors", {far})}), HasSubstr("does not have"));
  EXPECT_THAT(failed({folder}), HasSubstr("input_ids"));
}

TEST_F(RunModel, WhatIsWrongIsNamed) {
  const std::string model = pt2("mlp.pt2");
  const auto x = reference("mlp", "in.");
  const std::string in = file("in.safetensors", x);
  EXPECT_THAT(failed({model}), HasSubstr("input x: it is missing"));
  EXPECT_THAT(failed({model, "--in", in, in}), HasSubstr("x is given twice"));
  const auto narrow = tensor<float>("x", {DType::f32, {4, 2}}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(failed({model, "--in", file("narrow.safetensors", {narrow})}), HasSubstr("dimension 1"));
  auto named = x;
  named[0].name = "y";
  EXPECT_THAT(failed({model, "--in", file("named.safetensors", named)}), HasSubstr("no input of this name"));
  EXPECT_THAT(failed({model, "--in", in, "--out", (folder_.path() / "out.txt").string()}),
              HasSubstr(".safetensors or .npy"));
  EXPECT_THAT(failed({model, "--in", in, "--random", "1"}), HasSubstr("--random is for StableHLO programs"));
  EXPECT_THAT(failed({model, "--in", in, "--show", "ascii"}), HasSubstr("--show"));
  EXPECT_THAT(failed({model, "--in", (folder_.path() / "none.safetensors").string()}), HasSubstr("none"));
}

TEST_F(RunModel, FilesThatHoldNoModel) {
  const File cut("model.pt2", read_file(pt2("mlp.pt2")).substr(0, 2000));
  EXPECT_NE(failed({cut.str()}), " ");
  const File zip("model.pt2", "PK\x03\x04 and nothing else");
  EXPECT_NE(failed({zip.str()}), " ");
  write_file(folder_.path() / "config.json", "{\"model_type\": \"unheard-of\"}");
  EXPECT_THAT(failed({folder_.path().string()}), HasSubstr("unheard-of"));
}

}  // namespace
}  // namespace tpubridge::tools_test
