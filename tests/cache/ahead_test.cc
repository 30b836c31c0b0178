// What a command took at its last start is there before it asks; where that cannot be, nothing else changes.
#include "tpubridge/cache/ahead.h"

#include <functional>
#include <thread>

#include "tests/base/scoped_env.h"
#include "tests/cache/make.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/cache/programs.h"

namespace tpubridge::cache {
namespace {

class LoadAhead : public testing::Test {
 protected:
  std::shared_ptr<DiskCache> disk() const { return std::make_shared<DiskCache>(folder.path(), kRoomy); }
  // As another process would: nothing but the folder is shared.
  std::unique_ptr<ProgramCache> start(const std::string& command = "train --layers 2") const {
    auto made = std::make_unique<ProgramCache>(*client, disk());
    made->load_ahead(command);
    return made;
  }
  static pjrt::Program program(int64_t n) { return {pjrt::doubling(n)}; }
  int64_t loads() const { return fake.count("PJRT_Executable_DeserializeAndLoad"); }
  int64_t compiles() const { return fake.count("PJRT_Client_Compile"); }
  static bool comes(const std::function<bool()>& it) {
    for (int i = 0; i < 5000 && !it(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return it();
  }
  void expect_doubles(const Found& found, int64_t n) const {
    const std::vector<float> x(static_cast<size_t>(n), 2.5f);
    const auto in = client->to_device(x, {DType::f32, {n}}, *found.program->devices()[0]);
    const pjrt::Buffer* const arguments[] = {&in};
    EXPECT_EQ(found.program->execute(arguments)[0].to_vector<float>(),
              std::vector<float>(static_cast<size_t>(n), 5.0f));
  }
  Path start_file() const {
    for (const auto& f : std::filesystem::directory_iterator(folder.path()))
      if (f.path().extension() == ".start") return f.path();
    return {};
  }

  TempFolder folder;
  pjrt::FakePlugin fake;
  std::shared_ptr<pjrt::Client> client = pjrt::Client::create(pjrt::Plugin::load(fake.path()));
};

TEST_F(LoadAhead, WhatTheSameCommandTookIsThereBeforeItAsks) {
  {
    const auto first = start();
    for (int64_t n : {3, 4}) EXPECT_EQ(first->get(program(n)).source, Source::compiler);
  }
  EXPECT_EQ(loads(), 0);
  const DiskCounts before = disk_counts();
  const auto second = start();
  ASSERT_TRUE(comes([&] { return loads() == 2; }));
  for (int64_t n : {4, 3}) {
    const Found found = second->get(program(n));
    EXPECT_EQ(found.source, Source::disk);
    expect_doubles(found, n);
    EXPECT_THAT(found.program->signature()->parameters, testing::ElementsAre(Shape{DType::f32, {n}}));
  }
  const DiskCounts after = disk_counts();
  EXPECT_EQ(loads(), 2);
  EXPECT_EQ(compiles(), 2);
  EXPECT_EQ(after.hits - before.hits, 2);
  EXPECT_EQ(after.ahead - before.ahead, 2);
}

TEST_F(LoadAhead, AnotherCommandOrNoneLoadsNothing) {
  (void)start()->get(program(3));
  { (void)start("train --layers 3"); }
  const ScopedEnv off("TPUBRIDGE_LOAD_AHEAD", "0");
  { (void)start(); }
  EXPECT_EQ(loads(), 0);
}

TEST_F(LoadAhead, WhoAsksMeanwhileWaitsAndLoadsNothingTwice) {
  (void)start()->get(program(3));
  for (int i = 0; i < 20; ++i) {
    const int64_t before = loads();
    const auto next = start();
    EXPECT_EQ(next->get(program(3)).source, Source::disk);
    EXPECT_TRUE(comes([&] { return loads() == before + 1; }));
  }
  EXPECT_EQ(compiles(), 1);
}

TEST_F(LoadAhead, SomethingNewLetsTheRestGo) {
  {
    const auto first = start();
    for (int64_t n : {3, 4}) (void)first->get(program(n));
  }
  const auto second = start();
  ASSERT_TRUE(comes([&] { return loads() == 2; }));
  EXPECT_EQ(second->get(program(5)).source, Source::compiler);
  EXPECT_EQ(second->get(program(3)).source, Source::disk);  // loaded again
  EXPECT_EQ(loads(), 3);
  // The next start knows what this one took.
  const auto third = start();
  ASSERT_TRUE(comes([&] { return loads() == 5; }));
  EXPECT_EQ(third->get(program(5)).source, Source::disk);
  EXPECT_EQ(loads(), 5);
}

TEST_F(LoadAhead, EntriesThatAreGoneOrDamagedAreCompiled) {
  (void)start()->get(program(3));
  for (const bool damaged : {false, true}) {
    const auto files = disk()->list();
    ASSERT_EQ(files.size(), 1u);
    if (damaged)
      std::filesystem::resize_file(files[0].path, 40);
    else
      std::filesystem::remove(files[0].path);
    const auto next = start();
    const Found found = next->get(program(3));
    EXPECT_EQ(found.source, Source::compiler);
    expect_doubles(found, 3);
  }
}

TEST_F(LoadAhead, ListsThatHoldAnythingHarmNothing) {
  (void)start()->get(program(3));
  const Path list = start_file();
  ASSERT_FALSE(list.empty());
  const std::string good = read_file(list);
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string text = i % 2 ? noise(static_cast<uint64_t>(i), random() % 3000) : good + good;
    if (i % 2 == 0 && !text.empty()) text[random() % text.size()] = static_cast<char>(random());
    write_file(list, text);
    EXPECT_EQ(start()->get(program(3)).source, Source::disk) << i;
  }
  EXPECT_EQ(compiles(), 1);
}

TEST_F(LoadAhead, ClearedWithTheProgramsAndForgottenInTime) {
  (void)start()->get(program(3));
  ::utimbuf then{};
  then.actime = then.modtime = ::time(nullptr) - 29 * 24 * 3600;
  ::utime(start_file().c_str(), &then);
  disk()->gc(kRoomy);
  EXPECT_FALSE(start_file().empty());
  then.actime = then.modtime -= 2 * 24 * 3600;
  ::utime(start_file().c_str(), &then);
  disk()->gc(kRoomy);
  EXPECT_TRUE(start_file().empty());
  (void)start()->get(program(3));
  EXPECT_FALSE(start_file().empty());
  disk()->clear();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ThisCommand, NamesTheExecutable) { EXPECT_THAT(this_command(), testing::HasSubstr("test_cache")); }

}  // namespace
}  // namespace tpubridge::cache
