// From program to executable through memory, disk and compiler, on the fake plugin (which counts) and on the
// CPU plugin (whose values are checked).
#include "tpubridge/cache/programs.h"

#include <thread>

#include "tests/cache/make.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/base/log.h"

namespace tpubridge::cache {
namespace {

using pjrt::FakePlugin;
using std::chrono::milliseconds;
using std::chrono::minutes;

std::vector<float> run(const pjrt::Client& client, const pjrt::LoadedExecutable& program,
                       const std::vector<float>& x) {
  const Shape shape{DType::f32, {std::ssize(x)}};
  const pjrt::Buffer in = client.to_device(x, shape, *program.devices()[0]);
  const pjrt::Buffer* const arguments[] = {&in};
  return program.execute(arguments)[0].to_vector<float>();
}

class Programs : public testing::Test {
 protected:
  std::shared_ptr<DiskCache> disk() const { return std::make_shared<DiskCache>(folder.path(), kRoomy); }
  // As another process would: nothing but the folder is shared.
  ProgramCache fresh() const { return ProgramCache(*client, disk()); }
  int64_t compiles() const { return fake.count("PJRT_Client_Compile"); }
  void expect_doubles(const Found& found) const {
    EXPECT_EQ(run(*client, *found.program, {1, 2, 3}), (std::vector<float>{2, 4, 6}));
  }

  TempFolder folder;
  FakePlugin fake;
  std::shared_ptr<pjrt::Client> client = pjrt::Client::create(pjrt::Plugin::load(fake.path()));
  const pjrt::Program doubling{pjrt::doubling(3)};
  log::Capture log{log::Level::warn};
};

TEST_F(Programs, MemoryThenDiskThenCompiler) {
  const DiskCounts before = disk_counts();
  ProgramCache first = fresh();
  const Found compiled = first.get(doubling);
  EXPECT_EQ(compiled.source, Source::compiler);
  const Found held = first.get(doubling);
  EXPECT_EQ(held.source, Source::memory);
  EXPECT_EQ(held.program, compiled.program);
  const Found loaded = fresh().get(doubling);
  EXPECT_EQ(loaded.source, Source::disk);
  expect_doubles(compiled);
  expect_doubles(loaded);
  EXPECT_EQ(compiles(), 1);
  EXPECT_EQ(fresh().get({pjrt::doubling(4)}).source, Source::compiler);
  const DiskCounts after = disk_counts();
  EXPECT_EQ(after.hits - before.hits, 1);
  EXPECT_EQ(after.misses - before.misses, 2);
  EXPECT_EQ(after.stores - before.stores, 2);
  EXPECT_EQ(after.drops, before.drops);
  const auto files = disk()->list();
  ASSERT_EQ(files.size(), 2);
  EXPECT_EQ(files[0].info->platform, client->platform_name());
  EXPECT_EQ(files[0].info->device_kind, client->addressable_devices()[0]->info().kind);
  EXPECT_TRUE(log.records().empty());
}

TEST_F(Programs, AnEntryOfAnotherProgramUnderTheSameKeyIsNotRun) {
  std::string text = doubling.code;
  text.replace(text.find("stablehlo.add"), 13, "stablehlo.multiply");
  const pjrt::Program squaring{text};
  (void)fresh().get(squaring);
  const ProgramId wanted = fresh().id(doubling, {}), other = fresh().id(squaring, {});
  EXPECT_NE(wanted.check, other.check);
  Entry entry = *disk()->load(other);
  entry.info.key = wanted.key;  // as if the two had one
  ASSERT_TRUE(disk()->store(entry.info, entry.executable));
  const Found found = fresh().get(doubling);
  EXPECT_EQ(found.source, Source::compiler);
  expect_doubles(found);
  EXPECT_EQ(fresh().get(doubling).source, Source::disk) << "it took the other's place";
}

TEST_F(Programs, WithoutADiskEachCompiles) {
  ProgramCache a(*client, nullptr), b(*client, nullptr);
  expect_doubles(a.get(doubling));
  expect_doubles(b.get(doubling));
  EXPECT_EQ(compiles(), 2);
}

TEST_F(Programs, AnotherMachineCompilesForItself) {
  (void)fresh().get(doubling);
  fake.configure("generation=v5p");
  const auto other = pjrt::Client::create(pjrt::Plugin::load(fake.path()));
  EXPECT_EQ(ProgramCache(*other, disk()).get(doubling).source, Source::compiler);
  EXPECT_EQ(ProgramCache(*other, disk()).get(doubling).source, Source::disk);
  EXPECT_EQ(fresh().get(doubling).source, Source::disk);
}

TEST_F(Programs, WhatThePluginRefusesIsCompiledAnew) {
  fake.configure("fail=serialize_flip");  // sound for us, damaged for the plugin
  (void)fresh().get(doubling);
  const Found again = fresh().get(doubling);
  EXPECT_EQ(again.source, Source::compiler);
  expect_doubles(again);
  const auto dropped = log.records("cache.dropped");
  ASSERT_EQ(dropped.size(), 1);
  EXPECT_THAT(dropped[0].field("reason"), testing::HasSubstr("corrupt"));
  EXPECT_EQ(fresh().get(doubling).source, Source::disk);
}

TEST_F(Programs, APluginThatCannotSerialiseStillCompiles) {
  fake.configure("fail=call_error:function=PJRT_Executable_Serialize:times=always");
  expect_doubles(fresh().get(doubling));
  expect_doubles(fresh().get(doubling));
  EXPECT_EQ(compiles(), 2);
  EXPECT_TRUE(disk()->list().empty());
  EXPECT_EQ(log.records().size(), 1);
}

TEST_F(Programs, ErrorsOfTheCompilerComeThroughAndAreNotKept) {
  fake.configure("fail=compile_error");
  ProgramCache programs = fresh();
  EXPECT_THROW((void)programs.get(doubling), XLACompilationError);
  EXPECT_TRUE(names_in(folder.path()).empty());
  expect_doubles(programs.get(doubling));
}

TEST_F(Programs, ThoseThatStartTogetherCompileOnce) {
  fake.configure("fail=compile_slow:ms=150:times=always");
  std::vector<ProgramCache> caches;
  for (int i = 0; i < 3; ++i) caches.push_back(fresh());
  std::vector<std::thread> threads;
  std::atomic<int> compiled{0};
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      const Found found = caches[static_cast<size_t>(i % 3)].get(doubling);
      compiled += found.source == Source::compiler;
      expect_doubles(found);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(compiles(), 1);
  EXPECT_EQ(compiled, 1);
}

TEST_F(Programs, AnOwnerThatDoesNotEndIsNotWaitedForForEver) {
  ProgramCache programs = fresh();
  programs.set_patience(milliseconds(20));
  const FileLock stuck = disk()->lock(programs.key(doubling, {}), milliseconds(0));
  ASSERT_TRUE(stuck.held());
  expect_doubles(programs.get(doubling));
  EXPECT_EQ(log.records("cache.lock_held").size(), 1);
}

TEST_F(Programs, ProcessesOfOneProgramDoNotWaitForEachOther) {
  fake.configure("chips=8,hosts=2");
  const auto part = pjrt::Client::create(pjrt::Plugin::load(fake.path()));
  ProgramCache programs(*part, disk());
  const FileLock held = disk()->lock(programs.key(doubling, {}), milliseconds(0));
  EXPECT_EQ(programs.get(doubling).source, Source::compiler);
  EXPECT_TRUE(log.records().empty());
}

TEST_F(Programs, PastTheDeadlineTheCallerIsTold) {
  fake.configure("fail=compile_hang");
  ProgramCache programs = fresh();
  EXPECT_EQ(programs.deadline(), milliseconds(0));
  EXPECT_EQ(programs.set_deadline(milliseconds(30)), milliseconds(0));
  try {
    (void)programs.get(doubling);
    FAIL() << "no error";
  } catch (const XLACompilationTimeoutError& e) {
    EXPECT_EQ(e.message(), "XLA compilation failed: timeout after 0.03s");
    EXPECT_EQ(e.code(), Code::deadline_exceeded);
    EXPECT_EQ(e.detail("timeout_seconds"), "0.03");
  }
  EXPECT_THROW((void)programs.get(doubling), XLACompilationTimeoutError);
  // Whoever asks while it goes on waits for the same compile.
  programs.set_deadline(minutes(1));
  fake.configure("release");
  expect_doubles(programs.get(doubling));
  EXPECT_EQ(compiles(), 1);
}

TEST_F(Programs, ALateResultIsCachedInMemoryAndOnDisk) {
  fake.configure("fail=compile_hang");
  ProgramCache programs = fresh();
  programs.set_deadline(milliseconds(10));
  EXPECT_THROW((void)programs.get(doubling), XLACompilationTimeoutError);
  while (compiles() == 0) std::this_thread::sleep_for(milliseconds(1));  // it hangs by now
  std::this_thread::sleep_for(milliseconds(20));
  fake.configure("release");
  ProgramCache other = fresh();
  const Found waited = other.get(doubling);  // for the lock, and so for the late compile
  EXPECT_EQ(waited.source, Source::disk);
  programs.set_deadline(minutes(1));
  const Found late = programs.get(doubling);
  EXPECT_EQ(late.source, Source::compiler);
  expect_doubles(late);
  EXPECT_EQ(compiles(), 1);
}

TEST_F(Programs, ALateFailureIsLoggedAndTriedAnew) {
  fake.configure("fail=compile_hang,fail=compile_error");
  ProgramCache programs = fresh();
  programs.set_deadline(milliseconds(10));
  EXPECT_THROW((void)programs.get(doubling), XLACompilationTimeoutError);
  while (compiles() == 0) std::this_thread::sleep_for(milliseconds(1));  // it hangs by now
  std::this_thread::sleep_for(milliseconds(20));
  fake.configure("release");
  while (log.records("compile.failed_late").empty()) std::this_thread::sleep_for(milliseconds(1));
  programs.set_deadline(minutes(1));
  expect_doubles(programs.get(doubling));
  EXPECT_EQ(compiles(), 2);
}

TEST_F(Programs, WhatItsUserDropsIsGoneAtOnce) {
  ProgramCache programs(*client, nullptr);
  programs.set_deadline(minutes(1));
  for (int i = 0; i < 300; ++i) ASSERT_EQ(programs.get(doubling).source, Source::compiler) << i;
}

TEST_F(Programs, NothingIsLeftBehind) {
  {
    ProgramCache programs = fresh();
    programs.set_deadline(minutes(1));
    (void)programs.get(doubling);
    (void)fresh().get(doubling);
  }
  client.reset();
  // The thread of the compile lets go a moment after the result is there.
  while (fake.count("live.client") > 0) std::this_thread::sleep_for(milliseconds(1));
  fake.expect_nothing_left();
}

TEST(ProgramsOnCpu, DonationAndPlaceSurvive) {
  const TempFolder folder;
  const auto client = pjrt::cpu();
  pjrt::CompileOptions options;
  options.devices = {2};
  for (const Source expected : {Source::compiler, Source::disk}) {
    ProgramCache programs(*client, std::make_shared<DiskCache>(folder.path(), kRoomy));
    const Found found = programs.get({pjrt::kDonateFirst}, options);
    EXPECT_EQ(found.source, expected);
    ASSERT_EQ(found.program->devices().size(), 1);
    EXPECT_EQ(found.program->devices()[0]->id(), 2);
    ASSERT_TRUE(found.program->signature());
    EXPECT_EQ(found.program->signature()->donated, (std::vector<bool>{true, false}));
    EXPECT_EQ(found.program->signature()->parameters[0], (Shape{DType::f32, {4}}));
    const pjrt::Buffer a =
        client->to_device(std::vector<float>{1, 2, 3, 4}, {DType::f32, {4}}, client->device(2));
    const pjrt::Buffer b =
        client->to_device(std::vector<float>{5, 6, 7, 8}, {DType::f32, {4}}, client->device(2));
    const pjrt::Buffer* const arguments[] = {&a, &b};
    const auto out = found.program->execute(arguments);
    EXPECT_EQ(out[0].to_vector<float>(), (std::vector<float>{5, 12, 21, 32}));
    EXPECT_EQ(out[1].to_vector<int32_t>(), (std::vector<int32_t>{7}));
    EXPECT_TRUE(a.deleted());
    EXPECT_FALSE(b.deleted());
  }
}

TEST(ProgramsOnCpu, DamageNeverGivesAWrongResult) {
  const TempFolder folder;
  const auto client = pjrt::cpu();
  const auto disk = std::make_shared<DiskCache>(folder.path(), kRoomy);
  const pjrt::Program program{pjrt::doubling(5)};
  const log::Capture log(log::Level::warn);
  std::mt19937_64 random(11);
  for (int i = 0; i < 20; ++i) {
    ProgramCache programs(*client, disk);
    const Found found = programs.get(program);
    EXPECT_EQ(found.source, Source::compiler);
    EXPECT_EQ(run(*client, *found.program, {1, 2, 3, 4, 5}), (std::vector<float>{2, 4, 6, 8, 10}));
    const Path path = disk->path_of(programs.key(program, {}));
    std::string bytes = read_file(path);
    if (i % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    overwrite(path, bytes);
  }
  EXPECT_EQ(log.records("cache.dropped").size(), 19);
}

}  // namespace
}  // namespace tpubridge::cache
