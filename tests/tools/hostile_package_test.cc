// Packages of somebody who means harm: what is in them ends the child that looks first, not the command.
#include <sys/stat.h>

#include "tests/pjrt/cpu.h"
#include "tests/tools/command.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/base/zip.h"
#include "tpubridge/package/package.h"

namespace tpubridge::tools_test {
namespace {

using package::Contents;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

const Shape kScalar{DType::s32, {}};

constexpr const char* kDouble =
    "func.func @main(%a: tensor<i32>) -> tensor<i32> {\n  %0 = stablehlo.add %a, %a : tensor<i32>\n"
    "  return %0 : tensor<i32>\n}\n";
constexpr const char* kRecursion =
    "func.func @main(%a: tensor<i32>) -> tensor<i32> {\n  %0 = func.call @f(%a) : (tensor<i32>) -> "
    "tensor<i32>\n  return %0 : tensor<i32>\n}\n"
    "func.func private @f(%a: tensor<i32>) -> tensor<i32> {\n  %0 = func.call @f(%a) : (tensor<i32>) -> "
    "tensor<i32>\n  return %0 : tensor<i32>\n}\n";

// One program of a scalar.
Contents of(const std::string& code, const std::string& input = "x") {
  Contents out{"a test", {}, {}, {}};
  out.programs = {{{{input, kScalar}}, {{"y", kScalar}}, {{false, 0}}, {{"any", code}}}};
  return out;
}

class HostilePackages : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string packed(const Contents& contents) const {
    write_package(path("m.tbp"), contents);
    return path("m.tbp");
  }
  // The package with another manifest: whatever the writer would not write.
  std::string changed(const std::string& from, const std::string& to) const {
    const ZipFile zip(packed(of(kDouble)));
    std::string manifest(package::to_json(package::Package(path("m.tbp")).manifest()));
    const size_t at = manifest.find(from);
    EXPECT_NE(at, manifest.npos) << manifest;
    manifest.replace(at, from.size(), to);
    std::vector<ZipContent> entries{{std::string(package::kManifestEntry), manifest}};
    for (const ZipEntry& e : zip.entries())
      if (e.name != package::kManifestEntry)
        entries.push_back({e.name, {reinterpret_cast<const char*>(e.data.data()), e.data.size()}});
    write_zip(path("changed.tbp"), entries);
    return path("changed.tbp");
  }
  Ran run(const std::string& file, std::vector<std::string> more = {}, Environment environment = {}) const {
    write_tensors(path("in.safetensors"), std::vector<HostTensor>{tensor<int32_t>("arg0", kScalar, {21})});
    std::vector<std::string> words = {"run", file, "--in", path("in.safetensors"), "--plugin", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return tpubridge(words, std::move(environment));
  }
  std::string failed(const std::string& file, std::vector<std::string> more = {}) const {
    more.emplace_back("--json");
    const Ran ran = run(file, more);
    EXPECT_EQ(ran.code, 1) << ran.out << ran.err;
    const auto e = ran.error();
    return e.value("error_type", "") + ": " + e.value("message", "");
  }
  TempFolder folder_;
};

TEST_F(HostilePackages, ASoundOneIsTakenByAChildOnce) {
  const TempFolder cache;
  const Environment here = {{"TPUBRIDGE_CACHE", "1"}, {"TPUBRIDGE_CACHE_DIR", cache.path().string()}};
  const auto checked = [&] {
    size_t out = 0;
    for (const auto& e : std::filesystem::recursive_directory_iterator(cache.path()))
      out += e.path().extension() == ".checked";
    return out;
  };
  const std::string file = packed(of(kDouble));
  const auto first = run(file, {"--json"}, here).json();
  EXPECT_EQ(first["outputs"][0]["first"], nlohmann::json({42}));
  EXPECT_EQ(first["program_from"], "compiler");
  EXPECT_EQ(checked(), 1U);
  EXPECT_EQ(run(file, {"--json"}, here).json()["program_from"], "disk");
  EXPECT_EQ(checked(), 1U);
  EXPECT_EQ(run(file, {"--json", "--trusted"}, here).json()["outputs"][0]["first"], nlohmann::json({42}));
  // Other bytes are another package.
  EXPECT_EQ(run(packed(of(std::string(kDouble) + "\n")), {"--json"}, here).code, 0);
  EXPECT_EQ(checked(), 2U);
}

TEST_F(HostilePackages, WhatKillsTheCompilerIsAnError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer itself tells how the child ended";
#endif
  EXPECT_THAT(failed(packed(of(kRecursion))),
              HasSubstr("ProgramError: " + path("m.tbp") + ": the process that compiled it died of signal"));
}

TEST_F(HostilePackages, OpsThatWaitAreRefused) {
  EXPECT_THAT(
      failed(packed(of("func.func @main(%a: tensor<i32>) -> tensor<i32> {\n  %t = stablehlo.create_token : "
                       "!stablehlo.token\n  %0:2 = \"stablehlo.infeed\"(%t) {infeed_config = \"\", layout = "
                       "[[]]} : (!stablehlo.token) -> (tensor<i32>, !stablehlo.token)\n  return %0#0 : "
                       "tensor<i32>\n}\n"))),
      HasSubstr("stablehlo.infeed"));
}

// The machine is this one, so it is the plugin that has to refuse the code. (Code that it takes, it runs.)
TEST_F(HostilePackages, MachineCodeThatIsNone) {
  Contents c = of(kDouble);
  const auto cpu = pjrt::Client::create(pjrt::Plugin::load(CPU_PLUGIN), {});
  const std::string sound = cpu->compile({kDouble}).info().serialize();
  for (const std::string& bytes : {std::string("machine code"), sound.substr(0, sound.size() / 2),
                                   std::string(sound.size(), '\0'), "\x0a\xff\xff\xff\xff\x0f" + sound}) {
    c.programs[0].executables = {{package::this_machine(*cpu), bytes}};
    const Ran ran = run(packed(c), {"--json"}, {{"TPUBRIDGE_CACHE", "0"}});
    // Refused, and compiled from the StableHLO instead; or it ended the child.
    if (ran.code == 0)
      EXPECT_EQ(ran.json()["outputs"][0]["first"], nlohmann::json({42}));
    else
      EXPECT_THAT(ran.error()["error_type"], AnyOf("ProgramError", "FileError")) << ran.out;
  }
}

TEST_F(HostilePackages, TheCompilersFilesAreNotThePackagesToName) {
  for (const std::string option :
       {R"("xla_dump_to": "DIR/dump")", R"("xla_gpu_cuda_data_dir": "x")", R"("xla_cpu_max_isa": "../x")",
        R"("xla_gpu_kernel_cache_file": "x")", R"("XLA_FLAGS": "x")", R"("xla_dump_hlo_as_text": true)"}) {
    std::string there = option;
    if (const size_t at = there.find("DIR"); at != there.npos) there.replace(at, 3, path(""));
    EXPECT_THAT(failed(changed("\"xla_options\": {}", "\"xla_options\": {" + there + "}")),
                HasSubstr("not for a package to say"))
        << option;
  }
  EXPECT_FALSE(std::filesystem::exists(path("dump")));
  EXPECT_THAT(failed(changed("\"xla_options\": {}", "\"xla_options\": {\"xla_no_such_option\": 1}")),
              HasSubstr("xla_no_such_option"));
}

TEST_F(HostilePackages, NamesDoNotSteerTheTerminal) {
  const std::string evil = "x\x1b]0;owned\x07\x1b[2J\xc2\x9b";
  Contents c = of(kDouble, evil);
  c.model = evil;
  const Ran good = run(packed(c)), bad = run(packed(c), {"--in", path("in.safetensors")});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(bad.code, 1) << "given twice";
  for (const Ran& ran : {good, bad}) {
    EXPECT_EQ((ran.out + ran.err).find_first_of("\x1b\x07"), std::string::npos) << ran.out << ran.err;
    EXPECT_THAT(ran.out + ran.err, Not(HasSubstr("\xc2\x9b")));
  }
}

TEST_F(HostilePackages, APipeADeviceAFolder) {
  const std::string pipe = path("pipe.tbp");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& bad : {pipe, std::string("/dev/zero"), path("")})
    EXPECT_THAT(failed(bad), HasSubstr("FileError")) << bad;
  std::filesystem::create_symlink("/dev/full", path("full.safetensors"));
  EXPECT_THAT(failed(packed(of(kDouble)), {"--out", path("full.safetensors")}), HasSubstr("No space left"));
}

// Sizes that nobody has, and as many programs as fit: told, and soon.
TEST_F(HostilePackages, LargeOnes) {
  EXPECT_THAT(failed(changed("\"dims\": []", "\"dims\": [9223372036854775807, 9]")), HasSubstr("no sense"));
  EXPECT_THAT(failed(changed("\"dims\": []", "\"dims\": [4000000000000000]")), HasSubstr("ArgumentError"));
  const std::string one =
      R"({"inputs": [{"name": "x", "dtype": "s32", "dims": [SIZE]}], "outputs": [{"name": "y", "dtype": "s32", "dims": []}],
      "parameters": [], "executables": [], "code": [{"platform": "any", "entry": "a", "hash": "b", "xla_options": {}}]})";
  const std::string start = R"({"format": "tpubridge package", "version": 1, "model": "", "made_with": {},
    "weights": [], "programs": [)";
  std::string many = start;
  for (int i = 0; i < 60'000; ++i) {
    std::string next = one;
    next.replace(next.find("SIZE"), 4, std::to_string(i));
    many += (i ? "," : "") + next;
  }
  write_zip(path("many.tbp"), std::vector<ZipContent>{{std::string(package::kManifestEntry), many + "]}"}});
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(failed(path("many.tbp")), HasSubstr("FileError"));
  // Each beside each would be minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
}

}  // namespace
}  // namespace tpubridge::tools_test
