// `tpubridge compile` and `tpubridge run` of what it makes: Python's values in a process without torch, by
// the executable alone; buckets; StableHLO; what is wrong is named and leaves no file.
#include <cmath>

#include "tests/tools/command.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge::tools_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Nothing can come from the disk.
const Environment kNoCache = {{"TPUBRIDGE_PLUGIN", CPU_PLUGIN}, {"TPUBRIDGE_CACHE", "0"}};

class Packages : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(Path(BUILD_DIR) / "bin/tpubridge-compile"))
      GTEST_SKIP() << "built without torch";
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  static std::string pt2(const std::string& name) { return std::string(TEST_DATA) + "/pt2/" + name + ".pt2"; }
  static std::vector<HostTensor> reference(const std::string& name, const std::string& prefix) {
    std::vector<HostTensor> out;
    for (HostTensor& t : read_safetensors(std::string(TEST_DATA) + "/pt2/" + name + ".safetensors").tensors)
      if (t.name.starts_with(prefix)) t.name.erase(0, prefix.size()), out.push_back(std::move(t));
    return out;
  }
  std::string saved(const std::string& name, const std::vector<HostTensor>& tensors) const {
    write_tensors(path(name), tensors);
    return path(name);
  }
  static Ran command(std::vector<std::string> words, Environment more = {}) {
    Environment all = kNoCache;
    all.insert(all.end(), more.begin(), more.end());
    return tpubridge(std::move(words), all);
  }
  void compiled(const std::string& model, const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"compile", model, "--out", out, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = command(words);
    ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  }
  // The message and hint of the error.
  static std::string failed(std::vector<std::string> words) {
    words.emplace_back("--json");
    const Ran ran = command(std::move(words));
    EXPECT_EQ(ran.code, 1) << ran.out << ran.err;
    const auto e = ran.error();
    return e.value("error_type", "") + ": " + e.value("message", "") + " " + e.value("hint", "");
  }
  static void expect_near(const HostTensor& got, const HostTensor& want) {
    ASSERT_EQ(got.shape, want.shape);
    const auto a = got.as<float>(), b = want.as<float>();
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4 * (1 + std::abs(b[i]))) << i;
  }
  TempFolder folder_;
};

TEST_F(Packages, PythonsValuesWithoutTorchAndWithoutCompiling) {
  // What runs a package has no torch in it.
  const Ran libraries = command({"run", "--help"}, {{"LD_TRACE_LOADED_OBJECTS", "1"}});
  EXPECT_THAT(libraries.out, AllOf(HasSubstr("libtpubridge_core"), Not(HasSubstr("libtorch"))));
  for (const std::string name : {"mlp", "bert", "vit"}) {
    compiled(pt2(name), path("m.tbp"));
    const std::string in = saved("in.safetensors", reference(name, "in."));
    const Ran ran = command({"run", path("m.tbp"), "--in", in, "--out", path("out.safetensors"),
                             "--no-compile", "--repeat", "2", "--json"});
    ASSERT_EQ(ran.code, 0) << name << ran.out << ran.err;
    EXPECT_EQ(ran.json()["kind"], "package");
    EXPECT_EQ(ran.json()["program_from"], "executable");
    EXPECT_EQ(ran.json()["repeat"]["count"], 2);
    const TensorFile got = read_tensors(path("out.safetensors"));
    for (const HostTensor& want : reference(name, "out.")) {
      const bool place = std::isdigit(static_cast<unsigned char>(want.name[0])) != 0;
      const auto* g = got.find(want.name == "out" ? "out0" : place ? "out" + want.name : want.name);
      ASSERT_NE(g, nullptr) << name << ": " << want.name;
      expect_near(*g, want);
    }
  }
}

TEST_F(Packages, ALanguageModelInBuckets) {
  const std::string model = std::string(TEST_DATA) + "/models/gpt2";
  const TensorFile want = read_tensors(model + "/reference.safetensors");
  HostTensor tokens = *want.find("tokens");
  tokens.name = "input_ids";
  std::string sizes;
  for (const int64_t d : tokens.shape.dims) sizes += (sizes.empty() ? "" : "x") + std::to_string(d);
  EXPECT_THAT(failed({"compile", model, "--out", path("gpt2.tbp")}), HasSubstr("--buckets input_ids="));
  compiled(model, path("gpt2.tbp"), {"--buckets", "input_ids=1x3," + sizes});
  const Ran ran = command({"run", path("gpt2.tbp"), "--in", saved("in.safetensors", {tokens}), "--out",
                           path("out.safetensors"), "--no-compile", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.json()["program"], 1);
  expect_near(*read_tensors(path("out.safetensors")).find("logits"), *want.find("logits"));
  const auto other = tensor<int64_t>("input_ids", {DType::s64, {1, 2}}, {1, 2});
  EXPECT_THAT(failed({"run", path("gpt2.tbp"), "--in", saved("other.safetensors", {other})}),
              AllOf(HasSubstr("ArgumentError"), HasSubstr("s64[1,3]")));
}

TEST_F(Packages, StableHloThatRunsByItself) {
  compiled(pt2("mlp"), path("mlp.mlir"));
  EXPECT_THAT(read_file(path("mlp.mlir")), testing::StartsWith("// tpubridge "));
  auto in = reference("mlp", "in.");
  in[0].name = "arg0";
  const Ran ran = command({"run", path("mlp.mlir"), "--in", saved("in.safetensors", in), "--out",
                           path("out.safetensors"), "--json"});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  expect_near(read_tensors(path("out.safetensors")).tensors[0], reference("mlp", "out.")[0]);
}

TEST_F(Packages, OnAnotherMachineItIsCompiledAndSaid) {
  compiled(pt2("mlp"), path("m.tbp"));
  const std::string in = saved("in.safetensors", reference("mlp", "in."));
  const Environment tpu = {{"TPUBRIDGE_PLUGIN", FAKE_PLUGIN}, {"TPUBRIDGE_CACHE", "0"}, {"FAKE_PJRT", ""}};
  const Ran ran = tpubridge({"run", path("m.tbp"), "--in", in, "--out", path("out.safetensors")}, tpu);
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("compiled from the StableHLO"), HasSubstr("it is for cpu, this is tpu")));
  expect_near(read_tensors(path("out.safetensors")).tensors[0], reference("mlp", "out.")[0]);
  const Ran strict = tpubridge({"run", path("m.tbp"), "--in", in, "--no-compile", "--json"}, tpu);
  EXPECT_EQ(strict.code, 1);
  EXPECT_EQ(strict.error().value("error_type", ""), "CompilationError");
  const Ran more = command({"run", path("m.tbp"), "--in", in, "--devices", "2"});
  EXPECT_THAT(more.out, HasSubstr("devices are, here are 2"));
  const Ran own = command({"run", path("m.tbp"), "--in", in, "--no-executable"});
  EXPECT_THAT(own.out, HasSubstr("executables are not to be used"));
}

TEST_F(Packages, WhatIsWrongIsNamedAndNothingIsWritten) {
  const std::string out = path("m.tbp");
  EXPECT_THAT(failed({"compile", pt2("mutates"), "--out", out}), HasSubstr("it writes to"));
  EXPECT_THAT(failed({"compile", pt2("mlp"), "--out", path("m.zip")}), HasSubstr(".tbp or .mlir"));
  EXPECT_THAT(failed({"compile", pt2("mlp"), "--out", out, "--buckets", "z=1x2"}),
              HasSubstr("the model takes x"));
  EXPECT_THAT(failed({"compile", pt2("mlp"), "--out", out, "--buckets", "x=axb"}),
              HasSubstr("\"a\" is no size"));
  EXPECT_THAT(failed({"compile", pt2("mlp"), "--out", out, "--buckets", "x"}), HasSubstr("NAME=SIZES"));
  EXPECT_THAT(failed({"compile", pt2("mlp"), "--out", out, "--buckets", "x=1x1"}), HasSubstr("x"));
  EXPECT_THAT(failed({"compile", pt2("mlp"), "--out", out, "--tpu", "v99"}), HasSubstr("v99"));
  EXPECT_THAT(failed({"compile", pt2("mlp"), "--out", path("m.mlir"), "--tpu", "v6e"}),
              HasSubstr("are for packages"));
  EXPECT_THAT(failed({"compile", path("none.pt2"), "--out", out}), HasSubstr("none.pt2"));
  EXPECT_FALSE(std::filesystem::exists(out));

  compiled(pt2("mlp"), out, {"--no-executable"});
  const auto x = reference("mlp", "in.");
  const std::string in = saved("in.safetensors", x);
  EXPECT_THAT(failed({"run", out}), HasSubstr("input x is missing"));
  EXPECT_THAT(failed({"run", out, "--in", in, in}), HasSubstr("given twice"));
  EXPECT_THAT(failed({"run", out, "--in", in, "--random", "1"}), HasSubstr("is a package"));
  EXPECT_THAT(failed({"run", out, "--in", in, "--no-compile"}), HasSubstr("no executable"));
  EXPECT_THAT(failed({"run", pt2("mlp"), "--in", in, "--no-compile"}), HasSubstr("is for packages"));
  const std::string bytes = read_file(out);
  const File cut("cut.tbp", bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(failed({"run", cut.str(), "--in", in}), AllOf(HasSubstr("FileError"), HasSubstr("cut.tbp")));
}

}  // namespace
}  // namespace tpubridge::tools_test
