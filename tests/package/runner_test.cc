// Packages run: by executables and by compiling, the program that fits the shapes; inputs that are wrong.
#include <atomic>
#include <thread>

#include "tests/base/scoped_env.h"
#include "tests/package/make.h"

namespace tpubridge::package {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class RunsPackages : public InFolder {
 protected:
  const HostTensor one_ = floats("x", {DType::f32, {1, 2}}, {1, 2});
  const HostTensor three_ = floats("x", {DType::f32, {3, 2}}, {1, 2, 3, 4, 5, 6});
  const HostTensor y_ = number("y", 7);
  const ScopedEnv no_cache_{"TPUBRIDGE_CACHE", "0"};
};

TEST_F(RunsPackages, TheExecutableOfThisMachineAndNothingIsCompiled) {
  Runner runner(packed(with_executables(contents())), pjrt::cpu(), {.may_compile = false});
  const auto out = runner.run({three_, y_});
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].name, "scaled");
  EXPECT_THAT(out[0].as<float>(), ElementsAre(11, 42, 33, 84, 55, 126));
  EXPECT_THAT(out[1].as<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(runner.run({y_, one_})[0].as<float>(), ElementsAre(11, 42));
  EXPECT_EQ(runner.prepare(0).source, How::Source::executable);
  EXPECT_EQ(runner.prepare(0).target, "cpu");
  EXPECT_EQ(runner.prepare(0).why, "");
}

TEST_F(RunsPackages, WhereNoExecutableFitsItIsCompiledAndSaid) {
  struct Change {
    std::function<void(Machine&)> change;
    const char* says;
  };
  const std::vector<Change> changes = {
      {[](Machine& m) { m.cpu += "flags: none"; }, "CPU with other features"},
      {[](Machine& m) { m.platform = "tpu"; }, "it is for tpu, this is cpu"},
      {[](Machine& m) { m.platform_version = "an older one"; }, "an older one"},
      {[](Machine& m) { m.device_kind = "TPU v6 lite"; }, "TPU v6 lite"},
      {[](Machine& m) { m.plugin = "another"; }, "another build of the plugin"},
      {[](Machine& m) { m.flags += "X=1"; }, "other flags"},
      {[](Machine& m) { m.devices = 9; }, "where 9 devices are"},
      {[](Machine& m) { m.topology += "."; }, "lie otherwise"},
  };
  for (const auto& c : changes) {
    Contents made = with_executables(contents({1}));
    c.change(made.programs[0].executables[0].machine);
    const auto package = packed(made);
    Runner runner(package, pjrt::cpu());
    EXPECT_THAT(runner.run({one_, y_})[0].as<float>(), ElementsAre(11, 42)) << c.says;
    EXPECT_EQ(runner.prepare(0).source, How::Source::compiler);
    EXPECT_THAT(runner.prepare(0).why, HasSubstr(c.says));
    Runner strict(package, pjrt::cpu(), {.may_compile = false});
    EXPECT_THAT(
        what_of([&] {
          (void)strict.run({one_, y_});
        }),
        AllOf(HasSubstr("CompilationError"), HasSubstr("nothing may be compiled"), HasSubstr(c.says)));
  }
}

TEST_F(RunsPackages, AnExecutableThatThePluginRefusesIsCompiledInstead) {
  Contents made = with_executables(contents({1}));
  made.programs[0].executables[0].bytes = "no machine code";
  Runner runner(packed(made), pjrt::cpu());
  EXPECT_THAT(runner.run({one_, y_})[0].as<float>(), ElementsAre(11, 42));
  EXPECT_THAT(runner.prepare(0).why, HasSubstr("the plugin refuses it"));
}

TEST_F(RunsPackages, ExecutablesAreLeftAloneWhereAsked) {
  Runner runner(packed(with_executables(contents({1}))), pjrt::cpu(), {.use_executables = false});
  EXPECT_THAT(runner.run({one_, y_})[0].as<float>(), ElementsAre(11, 42));
  EXPECT_EQ(runner.prepare(0).source, How::Source::compiler);
}

// The manifest may say anything; what a program is given is checked against the program.
TEST_F(RunsPackages, AProgramThatIsNotWhatTheManifestSays) {
  Contents swapped = with_executables(contents({1, 3}));
  std::swap(swapped.programs[0].executables, swapped.programs[1].executables);
  Runner runner(packed(swapped), pjrt::cpu());
  EXPECT_THAT(what_of([&] { (void)runner.run({one_, y_}); }), HasSubstr("FileError"));
  Contents fewer = contents({1});
  fewer.programs[0].parameters.pop_back();
  Runner other(packed(fewer), pjrt::cpu());
  EXPECT_THAT(what_of([&] { (void)other.run({one_, y_}); }), HasSubstr("than the manifest says"));
}

TEST_F(RunsPackages, InputsByPlaceAndWrongOnes) {
  Runner runner(packed(contents()), pjrt::cpu());
  const auto wrong = [&](std::vector<HostTensor> inputs) {
    return what_of([&] { (void)runner.run(inputs); });
  };
  HostTensor arg0 = one_, arg1 = y_, z = one_;
  arg0.name = "arg0", arg1.name = "arg1", z.name = "z";
  EXPECT_THAT(runner.run({arg1, arg0})[0].as<float>(), ElementsAre(11, 42));
  EXPECT_THAT(wrong({one_}), AllOf(HasSubstr("ArgumentError"), HasSubstr("input y is missing")));
  EXPECT_THAT(wrong({one_, y_, z}), HasSubstr("no input \"z\"; it takes x, y"));
  EXPECT_THAT(wrong({one_, arg0, y_}), HasSubstr("input x is given twice"));
  EXPECT_THAT(wrong({number("x", 1), y_}), HasSubstr("input x is s32[], the package takes f32"));
  EXPECT_THAT(wrong({floats("x", {DType::f32, {2, 2}}, {1, 2, 3, 4}), y_}),
              AllOf(HasSubstr("input x is f32[2,2]"), HasSubstr("f32[1,2]"), HasSubstr("f32[3,2]")));
  HostTensor empty = one_;
  empty.data = nullptr;
  EXPECT_THAT(wrong({empty, y_}), HasSubstr("ArgumentError"));
}

TEST_F(RunsPackages, FromSeveralThreads) {
  Runner runner(packed(with_executables(contents())), pjrt::cpu());
  std::vector<std::jthread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const auto out = runner.run({(t + i) % 2 ? one_ : three_, y_});
        right += out[0].as<float>()[0] == 11 && out[0].as<float>()[1] == 42;
      }
    });
  threads.clear();
  EXPECT_EQ(right, 80);
}

}  // namespace
}  // namespace tpubridge::package
