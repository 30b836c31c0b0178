// What is done to files while operations fail, and how to look at what is there afterwards.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/interpose.h"
#include "tpubridge/base/files.h"

namespace tpubridge::faults {

class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual void prepare() = 0;  // the old state, in an empty folder
  virtual void act() = 0;      // may throw an Error that names a file of the folder
  // "old" or "new": each of them whole. Anything else is what is wrong.
  [[nodiscard]] virtual std::string look() = 0;
  [[nodiscard]] virtual bool throws() const { return true; }  // whether act tells of bad files by throwing
  [[nodiscard]] virtual bool lasts() const { return true; }   // a power cut after act takes nothing of it
  [[nodiscard]] const Path& folder() const { return folder_; }
  void reset();  // an empty folder, then prepare

 private:
  TempFolder home_;
  Path folder_ = home_.path() / "here";
};

struct Named {
  const char* name;
  std::unique_ptr<Scenario> (*make)();
};
inline void PrintTo(const Named& n, std::ostream* out) { *out << n.name; }
inline std::string name_of(const testing::TestParamInfo<Named>& info) { return info.param.name; }

[[nodiscard]] std::vector<Named> cache_scenarios();
[[nodiscard]] std::vector<Named> archive_scenarios();
[[nodiscard]] std::vector<Named> checkpoint_scenarios();
[[nodiscard]] std::vector<Named> package_scenarios();
[[nodiscard]] std::vector<Named> all_scenarios();

template <class T>
std::unique_ptr<Scenario> make_scenario() {
  return std::make_unique<T>();
}

[[nodiscard]] size_t open_files();                         // of this process
[[nodiscard]] size_t temporary_files(const Path& folder);  // unfinished ones, in all folders of it
// Runs act with a plan. What is thrown must be an Error that names a file (of memory: or bad_alloc), and no
// file may stay open. Whether it went well.
bool act_with(Scenario& scenario, const Plan& plan);
// The state after a failed act: old or new, and whole; then act once more, which must go well.
void check_after(Scenario& scenario);

}  // namespace tpubridge::faults
