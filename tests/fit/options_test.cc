// `tpubridge fit MODEL`: wrong options and damaged models are named, before anything is compiled.
#include "tests/fit/fit_model.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

using FitOptions = FitModel;

TEST_F(FitOptions, WrongOptionsAreNamed) {
  const aot::FakeChild child(kByBatch);
  EXPECT_THAT(failed({}), HasSubstr("no TPU is named"));
  EXPECT_THAT(failed({"--tpu", "v9"}), HasSubstr("v9"));
  EXPECT_THAT(failed({"--tpu", "v5e:3x"}), HasSubstr("v5e:3x"));
  for (const char* batch : {"0", "-1", "1.5", "many", "1,,2", "99999999999999999999", "auto,2"})
    EXPECT_THAT(failed({"--tpu", "v5e", "--batch", batch}), HasSubstr("--batch")) << batch;
  EXPECT_THAT(failed({"--tpu", "v5e", "--batch", "1000000000"}), HasSubstr("batches of"));
  EXPECT_THAT(failed({"--tpu", "v5e", "--length", "4096"}), HasSubstr("sees 128 tokens"));
  EXPECT_THAT(failed({"--tpu", "v5e", "--train", "adamw", "--weights", "int8"}), HasSubstr("frozen"));
  EXPECT_THAT(failed({"--tpu", "v5e", "--save", "x"}), HasSubstr("--save"));
  EXPECT_THAT(failed({"--tpu", "v5e", "--replicas", "2"}), HasSubstr("--replicas"));
  EXPECT_THAT(failed({"--tpu", "v5e", "--partitions", "2"}), HasSubstr("--partitions"));
  for (const char* mesh : {"data", "=4", "data=", "data=x", "data=0", "data=-2", "data=4;model=4"})
    EXPECT_THAT(failed({"--tpu", "v5e:2x2", "--mesh", mesh}), HasSubstr("--mesh")) << mesh;
  EXPECT_THAT(failed({"--tpu", "v5e:2x2", "--mesh", "rows=4"}), HasSubstr("rows"));
  EXPECT_THAT(failed({"--tpu", "v5e", "--size", "s0=3"}), HasSubstr("no sizes with names"));
  EXPECT_THAT(failed({"--tpu", "v5e"}, (folder_.path() / "nosuch.pt2").string()), HasSubstr("nosuch.pt2"));
  EXPECT_THAT(failed({"--tpu", "v5e"}, folder_.path().string()), HasSubstr("config.json"));
  EXPECT_THAT(failed({"--tpu", "v5e", "--weights", "int8"}, pt2("mlp")), HasSubstr("Hugging Face folders"));
  EXPECT_THAT(failed({"--tpu", "v5e", "--length", "5"}, pt2("mlp")), HasSubstr("one length"));
  EXPECT_EQ(started(child), 0U);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--train", "lion"},
                                                {"--dtype", "f8"},
                                                {"--weights", "int2"},
                                                {"--length", "0"},

                                                {"--timeout", "nan"},
                                                {"--jobs", "-1"}}) {
    std::vector<std::string> all = {"--tpu", "v5e"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(fit(all).code, 64) << words[0];
  }
}

// A program takes none of the options of models.
TEST_F(FitOptions, OptionsOfModelsAreNotForPrograms) {
  const aot::FakeChild child(kByBatch);
  const File program("step.mlir", "func.func @main() { return }");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--train", "sgd"},
                                                {"--batch", "2"},
                                                {"--batch", "auto"},
                                                {"--length", "3"},
                                                {"--size", "a=1"},
                                                {"--dtype", "bf16"},
                                                {"--weights", "int8"},
                                                {"--mesh", "data=2"},

                                                {"--html", "x.html"},
                                                {"--prices", "x.json"},
                                                {"--fresh"}}) {
    std::vector<std::string> all = {"--tpu", "v5e"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_THAT(failed(all, program.str()), HasSubstr(words[0])) << words[0];
  }
}

TEST_F(FitOptions, AnExportOfOneBatchHasNoneToLookFor) {
  const aot::FakeChild child(aot::answering(aot::kFits));
  EXPECT_THAT(failed({"--tpu", "v5e", "--batch", "auto"}, pt2("vit")), HasSubstr("one"));
  const Ran ran = fit({"--tpu", "v5e", "--json"}, pt2("vit"));
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.json()["kind"], "torch.export");
}

TEST_F(FitOptions, DamagedModelsAreToldAsEverywhere) {
  const aot::FakeChild child(kByBatch);
  const File cut("cut.pt2", read_file(pt2("mlp")).substr(0, 3000));
  EXPECT_THAT(failed({"--tpu", "v5e"}, cut.str()), HasSubstr("FileError"));
  const Path folder = folder_.path() / "model";
  for (const char* config : {"", "{", "[]", "{}", R"({"model_type": "nosuch"})",
                             R"({"model_type": "llama", "hidden_size": -1})"}) {
    std::filesystem::create_directories(folder);
    write_file(folder / "config.json", config);
    EXPECT_NE(failed({"--tpu", "v5e"}, folder.string()), "") << config;
  }
  EXPECT_EQ(started(child), 0U);
}

}  // namespace
}  // namespace tpubridge::tools_test
