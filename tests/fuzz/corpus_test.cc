// Every target over its corpus and some thousands of changes of it: what libFuzzer does for hours, in
// seconds.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"

namespace tpubridge::fuzz {

static void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kChanges = 1000;  // of a target's corpus
constexpr std::chrono::seconds kPatience{1};

struct Seed {
  std::string name, bytes;
};

std::vector<Seed> corpus_of(const Target& target) {
  std::vector<Seed> out;
  for (const auto& entry : std::filesystem::directory_iterator(Path(CORPUS) / target.name))
    out.push_back({entry.path().filename().string(), read_file(entry.path())});
  std::ranges::sort(out, {}, &Seed::name);
  return out;
}

// False, and told, where a target throws what is none of our errors, or takes long.
bool goes_well(const Target& target, const std::string& bytes, const std::string& what) {
  const auto began = Clock::now();
  try {
    run(target, bytes);
  } catch (const std::exception& e) {
    const Path kept = std::filesystem::temp_directory_path() / fmt::format("fuzz-{}", target.name);
    write_file(kept, bytes);
    ADD_FAILURE() << target.name << ", " << what << ": " << e.what() << "\nthe input is kept in " << kept;
    return false;
  }
  EXPECT_LT(Clock::now() - began, kPatience) << target.name << ", " << what;
  return true;
}

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, ItselfAndChangesOfIt) {
  const Target& target = GetParam();
  const auto seeds = corpus_of(target);
  ASSERT_GE(seeds.size(), 2U) << "a corpus of nothing finds nothing";
  for (const Seed& seed : seeds) {
    EXPECT_LE(seed.bytes.size(), 1U << 20) << seed.name;
    ASSERT_TRUE(goes_well(target, seed.bytes, seed.name));
  }
  for (size_t i = 0; i < kChanges; ++i) {
    const Seed &seed = seeds[i % seeds.size()], &other = seeds[(i * 7 + 3) % seeds.size()];
    if (seed.bytes.size() > 1 << 16) continue;  // these are for one thing each
    ASSERT_TRUE(goes_well(target, Mutator(i)(seed.bytes, other.bytes),
                          fmt::format("{} changed by {}", seed.name, i)));
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, testing::ValuesIn(targets()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Fuzz, EveryTargetHasACorpusAndTheOtherWayRound) {
  std::set<std::string> names, folders;
  for (const Target& t : targets()) names.insert(t.name);
  for (const auto& entry : std::filesystem::directory_iterator(CORPUS))
    folders.insert(entry.path().filename().string());
  EXPECT_EQ(names, folders);
}

// What is sound in each corpus is read: a target that refuses everything would test nothing.
TEST(Fuzz, SoundFilesAreRead) {
  for (const Target& target : targets()) {
    size_t sound = 0;
    for (const Seed& seed : corpus_of(target)) {
      try {
        target.read(seed.bytes);
        ++sound;
      } catch (const Error&) {
      }
    }
    EXPECT_GE(sound, 1U) << target.name;
  }
}

TEST(Fuzz, ChangesAreTheSameEverywhere) {
  EXPECT_EQ(Mutator(7)("{\"steps\": 3}", "abc"), Mutator(7)("{\"steps\": 3}", "abc"));
  std::set<std::string> all;
  for (uint64_t i = 0; i < 200; ++i) all.insert(Mutator(i)("{\"steps\": 3, \"mesh\": [1, 2]}", "abcdef"));
  EXPECT_GT(all.size(), 180U);
}

}  // namespace
}  // namespace tpubridge::fuzz
