#include "tests/faults/scenario.h"

#include <new>

#include "tpubridge/base/errors.h"

namespace tpubridge::faults {

namespace fs = std::filesystem;

// In memory, where it is to be had: thousands of files are written.
[[maybe_unused]] const int in_memory = fs::is_directory("/dev/shm") ? setenv("TMPDIR", "/dev/shm", 0) : 0;

void Scenario::reset() {
  fs::remove_all(folder_);
  fs::create_directory(folder_);
  fs::permissions(folder_, fs::perms::owner_all);
  const Armed no_waiting;  // for the disk
  prepare();
}

std::vector<Named> all_scenarios() {
  std::vector<Named> out = cache_scenarios();
  for (const auto& more : {archive_scenarios(), checkpoint_scenarios(), package_scenarios()})
    out.insert(out.end(), more.begin(), more.end());
  return out;
}

size_t open_files() {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

size_t temporary_files(const Path& folder) {
  size_t out = 0;
  for (const auto& e : fs::recursive_directory_iterator(folder)) {
    const std::string name = e.path().filename().string();
    out += name.ends_with(".tmp") || name.starts_with(".tmp-") ? 1 : 0;
  }
  return out;
}

bool act_with(Scenario& scenario, const Plan& plan) {
  const size_t before = open_files();
  bool well = false;
  std::string said, file;
  try {
    const Armed armed(plan);
    scenario.act();
    well = true;
  } catch (const Error& e) {
    said = e.what();
    file = e.detail("path");
  } catch (const std::bad_alloc&) {
    EXPECT_TRUE(plan.memory);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "no error of ours: " << e.what();
  }
  EXPECT_EQ(open_files(), before) << "files stayed open";
  if (!said.empty() && !plan.memory) {
    EXPECT_TRUE(scenario.throws()) << said;
    const std::string here = scenario.folder().string();  // or a folder that it lies in
    EXPECT_TRUE(!file.empty() && (file.starts_with(here) || here.starts_with(file))) << said;
  }
  return well;
}

void check_after(Scenario& scenario) {
  EXPECT_THAT(scenario.look(), testing::AnyOf("old", "new"));
  EXPECT_LE(temporary_files(scenario.folder()), 4u) << "of one file, or of one checkpoint";
  ASSERT_NO_THROW({
    const Armed no_waiting;
    scenario.act();
  });
  EXPECT_EQ(scenario.look(), "new");
}

}  // namespace tpubridge::faults
