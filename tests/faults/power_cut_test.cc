// The power goes after each change of a file, and what was not synced is lost, in whole or in part; and files
// that were cut or zeroed whatever was promised.
#include <fstream>
#include <set>

#include "tests/faults/disk_model.h"
#include "tests/faults/scenario.h"
#include "tpubridge/base/log.h"

namespace tpubridge::faults {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;

struct PowerCut : testing::TestWithParam<Named> {
  PowerCut() { scenario->reset(); }
  std::unique_ptr<Scenario> scenario = GetParam().make();
  const log::Capture quiet;
};

TEST_P(PowerCut, LeavesTheOldOrTheNew) {
  DiskModel disk(scenario->folder());
  std::vector<Change> changes;
  {
    const Armed armed({}, &changes);
    scenario->act();
  }
  ASSERT_GT(changes.size(), 2u);
  std::set<std::string> seen;
  for (size_t done = 0; done <= changes.size(); ++done) {
    if (done > 0) disk.apply(changes[done - 1]);
    for (const Content content : {Content::all, Content::none, Content::half, Content::zeros})
      for (const Names names : {Names::all, Names::none, Names::none_at_the_top, Names::none_below}) {
        // A move from folder to folder is one change to every file system, but two to the model.
        const bool half_moved = names == Names::none_at_the_top || names == Names::none_below;
        if (half_moved && GetParam().name == std::string("CheckpointSetAside")) continue;
        const bool last = done == changes.size();
        if (!seen.insert(disk.describe(content, names)).second && !last) continue;
        SCOPED_TRACE("after change " + std::to_string(done) + " of " + std::to_string(changes.size()) +
                     ", content " + std::to_string(static_cast<int>(content)) + ", names " +
                     std::to_string(static_cast<int>(names)));
        disk.write_out(content, names);
        const std::string found = scenario->look();
        EXPECT_THAT(found, AnyOf("old", "new"));
        EXPECT_TRUE(!last || !scenario->lasts() || found == "new") << "it was said to be done";
        if (HasFailure()) return;
      }
  }
  RecordProperty("states", std::to_string(seen.size()));
  EXPECT_GT(seen.size(), 2u);
}

// Where a file is cut: near its ends, at powers of two, and evenly in between.
std::set<size_t> places(size_t size) {
  std::set<size_t> out;
  for (size_t i = 0; i < 12 && i < size; ++i) out.insert({i, size - 1 - i});
  for (size_t i = 16; i < size; i *= 2) out.insert({i - 1, i, i + 1 < size ? i + 1 : i});
  for (size_t i = 0; i < size; i += size / 16 + 1) out.insert(i);
  return out;
}

TEST_P(PowerCut, WhatIsTornIsNeverTakenForWhole) {
  if (scenario->throws()) scenario->act();
  const DiskModel whole(scenario->folder());
  std::vector<Path> files;
  for (const auto& e : fs::recursive_directory_iterator(scenario->folder()))
    if (e.is_regular_file() && e.file_size() > 0) files.push_back(e.path());
  ASSERT_FALSE(files.empty());
  int64_t torn = 0;
  for (const Path& file : files) {
    const std::string bytes = read_file(file);
    for (const size_t at : places(bytes.size()))
      for (const bool zeros : {false, true}) {
        SCOPED_TRACE(file.string() + " at " + std::to_string(at));
        whole.write_out(Content::all, Names::all);
        std::ofstream(file, std::ios::binary)
            << bytes.substr(0, at) + std::string(zeros ? bytes.size() - at : 0, '\0');
        std::string found;
        EXPECT_NO_THROW(found = scenario->look());
        EXPECT_NE(found, "wrong content");
        torn += found != "new" ? 1 : 0;
        if (HasFailure()) return;
      }
  }
  RecordProperty("torn", std::to_string(torn));
  EXPECT_GT(torn, 50);
}

std::vector<Named> that_write() {
  auto out = all_scenarios();
  std::erase_if(out, [](const Named& n) {
    return std::set<std::string>{"CacheLoad", "CacheVerify", "CheckpointResume"}.contains(n.name);
  });
  return out;
}

INSTANTIATE_TEST_SUITE_P(Faults, PowerCut, testing::ValuesIn(that_write()), name_of);

}  // namespace
}  // namespace tpubridge::faults
