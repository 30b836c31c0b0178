// What a key is made of: whatever could make a compiled program wrong here changes it.
#include "tpubridge/cache/key.h"

#include <set>

#include "tests/base/scoped_env.h"
#include "tests/cache/make.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/cache/bytes.h"
#include "tpubridge/cache/programs.h"

namespace tpubridge::cache {
namespace {

using pjrt::CompileOptions;
using pjrt::FakePlugin;

std::shared_ptr<pjrt::Client> open(const FakePlugin& fake) {
  return pjrt::Client::create(pjrt::Plugin::load(fake.path()));
}

TEST(Key, EveryPartCounts) {
  std::set<std::string> seen = {KeyParts{}.hash().hex()};
  for (std::string KeyParts::*part :
       {&KeyParts::program, &KeyParts::format, &KeyParts::options, &KeyParts::flags, &KeyParts::platform,
        &KeyParts::platform_version, &KeyParts::plugin, &KeyParts::device_kind, &KeyParts::cpu,
        &KeyParts::topology}) {
    KeyParts changed;
    changed.*part = "x";
    EXPECT_TRUE(seen.insert(changed.hash().hex()).second) << "the same text in two parts gives one key";
  }
  EXPECT_EQ(seen.size(), 11);
}

TEST(Key, PartsDoNotRunTogether) {
  KeyParts a, b;
  a.program = "ab", a.format = "c";
  b.program = "a", b.format = "bc";
  EXPECT_NE(a.hash(), b.hash());
}

TEST(Key, OptionsAndProgramCount) {
  ProgramCache programs(*pjrt::cpu(), nullptr);
  CompileOptions on_one, fast, flagged;
  on_one.devices = {1};
  fast.optimization_level = 0;
  flagged.overrides = {{"xla_cpu_enable_fast_min_max", false}};
  const pjrt::Program program{pjrt::kAdd};
  const std::set<std::string> keys = {programs.key(program, {}).hex(), programs.key(program, on_one).hex(),
                                      programs.key(program, fast).hex(), programs.key(program, flagged).hex(),
                                      programs.key({pjrt::kDonateFirst}, {}).hex()};
  EXPECT_EQ(keys.size(), 5);
  EXPECT_EQ(programs.key(program, fast), ProgramCache(*pjrt::cpu(), nullptr).key(program, fast));
}

TEST(Key, MachinesDiffer) {
  const FakePlugin fake;
  std::set<std::string> keys;
  for (const char* machine : {"generation=v5e,chips=4", "generation=v5p", "generation=v5e,chips=8",
                              "generation=v5e,chips=4,hosts=1,cores=2"}) {
    fake.configure(machine);
    keys.insert(target_of(*open(fake)).hash().hex());
  }
  EXPECT_EQ(keys.size(), 4);
  fake.configure("generation=v5e,chips=16,hosts=4,cores=1,host=0");
  const auto first = target_of(*open(fake));
  fake.configure("host=1");
  EXPECT_NE(first.hash(), target_of(*open(fake)).hash()) << "each process has programs of its own";
}

TEST(Key, TheCompilersVariablesCount) {
  const auto plain = target_of(*pjrt::cpu());
  const ScopedEnv flags("XLA_FLAGS", "--xla_cpu_enable_fast_math=true");
  EXPECT_NE(plain.hash(), target_of(*pjrt::cpu()).hash());
}

TEST(Key, TheCpuCountsWhereItRunsThePrograms) {
  const auto cpu = target_of(*pjrt::cpu());
  EXPECT_THAT(cpu.cpu, testing::AnyOf(testing::HasSubstr("Features"), testing::HasSubstr("flags")));
  const FakePlugin fake;
  EXPECT_EQ(target_of(*open(fake)).cpu, "");
}

TEST(Key, CpuFeaturesAreModelAndFlagsOnce) {
  const std::string core = "model name\t: Fast 9\nflags\t\t: fpu avx2\ncpu MHz\t\t: 2100.5\n\n";
  const std::string other = "model name\t: Fast 9\nflags\t\t: fpu avx2\ncpu MHz\t\t: 1800.1\n\n";
  EXPECT_EQ(cpu_features(core + other), "flags\t\t: fpu avx2\nmodel name\t: Fast 9\n");
  EXPECT_NE(cpu_features(core), cpu_features("model name\t: Fast 9\nflags\t\t: fpu avx2 avx512f\n"));
  EXPECT_NE(cpu_features("CPU part\t: 0xd40\n"), cpu_features("CPU part\t: 0xd0c\n"));
}

TEST(Key, ARebuiltPluginIsAnother) {
  const TempFolder folder;
  const Path file = folder.path() / "plugin.so";
  std::string content = noise(1, 300'000);
  write_file(file, content);
  const std::string before = file_digest(file);
  EXPECT_EQ(before, file_digest(file));
  content[10] ^= 1;
  write_file(file, content);
  EXPECT_NE(before, file_digest(file));
  content[10] ^= 1;
  write_file(file, content + "x");
  EXPECT_NE(before, file_digest(file));
}

TEST(Key, TextRoundTrip) {
  const Hash128 key{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(parse_key("0123456789abcdeffedcba9876543210"), key);
  EXPECT_EQ(parse_key(key.hex()), key);
  EXPECT_EQ(parse_key(key.hex().substr(1)), std::nullopt);
  EXPECT_EQ(parse_key("0123456789ABCDEFfedcba9876543210"), std::nullopt);
}

}  // namespace
}  // namespace tpubridge::cache
