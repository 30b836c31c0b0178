// `tpubridge fit MODEL` with a child that plays the TPU compiler: a thousand million bytes of temporaries for
// each sample.
#pragma once

#include "tests/aot/fake_child.h"
#include "tests/tools/command.h"

namespace tpubridge::tools_test {

// In bytes of the program's own text: the first parameter that is whole numbers is [batch, 16].
inline const std::string kByBatch = R"(
echo x >> "$(dirname "$0")/started"
cp "$1" "$(dirname "$0")/request.json"
program="$(dirname "$1")/program.mlir"
batch=$(sed -n 's/.*tensor<\([0-9]*\)x16xi64>.*/\1/p' "$program" | head -1)
while [ -e "$(dirname "$0")/slow" ] && [ "$batch" -ge 8 ]; do sleep 0.1; done
cat > "$2" <<END
{"stage": "done", "compile_seconds": 2.5,
 "topology": {"devices": 1, "chips": 1, "hosts": 1, "device_kind": "TPU v5 lite", "hbm_bytes": 16909336064},
 "memory": {"arguments": 200000, "outputs": 131072, "temporaries": ${batch}000000000, "aliased": 65536, "code": 4096,
            "peak": 0},
 "cost": {"flops": ${batch}000000000.0, "bytes accessed": ${batch}000000.0, "optimal_seconds": 0.000${batch}}}
END
)";

class FitModel : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(Path(BUILD_DIR) / "bin/tpubridge-plan"))
      GTEST_SKIP() << "built without torch";
  }
  static std::string folder_of(const std::string& family) {
    return std::string(TEST_DATA) + "/models/" + family;
  }
  static std::string pt2(const std::string& name) { return std::string(TEST_DATA) + "/pt2/" + name + ".pt2"; }
  [[nodiscard]] Environment cache() const {
    return {{"TPUBRIDGE_CACHE", "1"}, {"TPUBRIDGE_CACHE_DIR", (folder_.path() / "cache").string()}};
  }
  [[nodiscard]] Ran fit(std::vector<std::string> more, const std::string& model = folder_of("llama")) const {
    std::vector<std::string> words = {"fit", model};
    words.insert(words.end(), more.begin(), more.end());
    return tpubridge(words, cache());
  }
  [[nodiscard]] std::vector<std::string> search() const {
    return {"--tpu", "v5e", "--batch", "auto", "--length", "16", "--json"};
  }
  // The message and hint of the error.
  [[nodiscard]] std::string failed(std::vector<std::string> more,
                                   const std::string& model = folder_of("llama")) const {
    more.emplace_back("--json");
    const Ran ran = fit(more, model);
    EXPECT_EQ(ran.code, 1) << ran.out << ran.err;
    const auto e = ran.error();
    return e.value("error_type", "") + ": " + e.value("message", "") + " " + e.value("hint", "");
  }
  static size_t started(const aot::FakeChild& child) {
    std::error_code none;
    const Path path = child.folder() / "started";
    return std::filesystem::exists(path, none) ? read_file(path).size() / 2 : 0;
  }
  TempFolder folder_;
};

}  // namespace tpubridge::tools_test
