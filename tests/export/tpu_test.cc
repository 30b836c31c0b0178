// Executables for TPUs that are not here, by a child that plays the TPU compiler: what it is asked, what the
// package says of them, and that nothing is written where one fails.
#include <gmock/gmock.h>

#include "tests/aot/fake_child.h"
#include "tests/export/run.h"

namespace tpubridge {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Writes what it was given to compile as the executable.
const std::string kCompiles =
    "to=$(sed -n 's/.*\"executable\": *\"\\([^\"]*\\)\".*/\\1/p' \"$1\")\n"
    "cp \"$(dirname \"$1\")/program.mlir\" \"$to\"\n" +
    aot::answering(aot::kFits);

PackageWriter& two_programs(PackageWriter& writer) {
  const at::Tensor weight = torch::randn({4, 3}, tpu());
  for (const int64_t rows : {1, 2})
    writer.add(export_program({{"x", torch::zeros({rows, 4})}}, [&](const Tensors& a) {
      return Tensors{torch::softmax(a[0].matmul(weight), 1)};
    }));
  return writer;
}

TEST(ExportForTpus, AnExecutableForEachProgramAndTpu) {
  const aot::FakeChild child(kCompiles);
  PackageWriter writer("test");
  const TempFolder folder;
  const auto report =
      two_programs(writer).save(folder.path() / "m.tbp", {.this_machine = false, .tpus = {"v5e", "v6e:2x2"}});
  ASSERT_EQ(report.executables.size(), 4U);
  EXPECT_EQ(report.executables[0].compile_seconds, 3.5);
  const auto package = std::make_shared<const package::Package>(folder.path() / "m.tbp");
  for (const auto& program : package->manifest().programs) {
    ASSERT_EQ(program.executables.size(), 2U);
    const auto& [five, six] = std::tie(program.executables[0], program.executables[1]);
    EXPECT_EQ(five.machine.target, "v5e:1x1");
    EXPECT_EQ(six.machine.target, "v6e:2x2");
    EXPECT_EQ(six.machine.device_kind, "TPU v6 lite");
    EXPECT_EQ(six.machine.devices, 4);
    // What was compiled is the text for TPUs, which the package holds too.
    const auto code = std::ranges::find(program.codes, "tpu", &package::ProgramCode::platform);
    EXPECT_EQ(package->bytes(five.entry), package->bytes(code->entry));
    package::Machine there = six.machine;
    there.plugin = "pjrt 0.116\nname=value\n" + six.machine.plugin;
    there.platform_version = "libtpu";
    there.topology = "where they lie";
    EXPECT_EQ(package::difference(six.machine, there), "");
    EXPECT_THAT(package::difference(five.machine, there), HasSubstr("TPU v5 lite"));
    there.plugin += "0";
    EXPECT_THAT(package::difference(six.machine, there), HasSubstr("another build"));
  }
  const std::shared_ptr<pjrt::Client> client(&exec::client(), [](auto*) {});
  package::Runner runner(package, client);
  const std::vector<ExportInput> in = {{"x", torch::randn({2, 4})}};
  EXPECT_EQ(runner.run(host_inputs(in)).size(), 1U);
  EXPECT_THAT(runner.prepare(1).why,
              AllOf(HasSubstr("for v5e:1x1"), HasSubstr("it is for tpu, this is cpu")));
}

TEST(ExportForTpus, OneThatFailsLeavesNoFile) {
  PackageWriter writer("test");
  two_programs(writer);
  const TempFolder folder;
  const Path path = folder.path() / "m.tbp";
  const auto fails = [&](const std::string& answer, const std::string& target) {
    const aot::FakeChild child(aot::answering(answer));
    const std::string what =
        refusal([&] { (void)writer.save(path, {.this_machine = false, .tpus = {target}}); });
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    return what;
  };
  EXPECT_THAT(
      fails(R"({"stage": "compile", "error": {"type": "PjrtError", "message": "no such op", "hint": "",
                        "code": 3, "xla_code": ""}})",
            "v6e"),
      AllOf(HasSubstr("XLACompilationError"), HasSubstr("v6e:1x1"), HasSubstr("no such op")));
  EXPECT_THAT(fails("", "v6e"), HasSubstr("XLACompilationError"));
  EXPECT_THAT(fails(aot::kFits, "v99"), HasSubstr("ArgumentError"));
  EXPECT_THAT(fails(aot::kFits, "v6e"), HasSubstr("FileError"));  // says that it fits, and wrote nothing
}

}  // namespace
}  // namespace tpubridge
