// A cache in one file: written over another one, and read.
#include "tests/cache/make.h"
#include "tests/faults/scenario.h"
#include "tpubridge/cache/archive.h"

namespace tpubridge::faults {
namespace {

using cache::DiskCache;
using cache::info_of;
using cache::key_of;
using cache::kRoomy;
using cache::noise;

class ArchiveScenario : public Scenario {
 public:
  void prepare() override {
    DiskCache from(folder() / "from", kRoomy);
    ASSERT_TRUE(from.store(info_of(1), noise(1, 700)));
    (void)cache::export_to(from, file_);
    ASSERT_TRUE(from.store(info_of(2), noise(2, 500)));
  }

 protected:
  // How many programs a cache holds; -1 where one of them is not what it was.
  static int sound(DiskCache& cache) {
    const auto first = cache.load(key_of(1)), second = cache.load(key_of(2));
    if (first && first->executable != noise(1, 700)) return -1;
    if (second && second->executable != noise(2, 500)) return -1;
    return (first ? 1 : 0) + (second ? 1 : 0);
  }
  const Path file_ = folder() / "all.tpb";
};

class Export : public ArchiveScenario {
 public:
  void act() override { EXPECT_EQ(cache::export_to(DiskCache(folder() / "from", kRoomy), file_).entries, 2); }
  std::string look() override {
    const TempFolder other;
    DiskCache to(other.path() / "to", kRoomy);
    try {
      const Armed no_waiting;
      (void)cache::import_from(to, file_);
    } catch (const Error& e) {
      return e.what();
    }
    const int n = sound(to);
    return n == 2 ? "new" : n == 1 ? "old" : "wrong content";
  }
};

class Import : public ArchiveScenario {
 public:
  void prepare() override {
    ArchiveScenario::prepare();
    (void)cache::export_to(DiskCache(folder() / "from", kRoomy), file_);
  }
  void act() override {
    const DiskCache to(folder() / "to", kRoomy);
    EXPECT_EQ(cache::import_from(to, file_).entries, 2);
  }
  [[nodiscard]] bool lasts() const override { return false; }  // the folder is new: a cache may go
  // One entry is as good as none: each of them is whole.
  std::string look() override {
    DiskCache to(folder() / "to", kRoomy);
    const int n = sound(to);
    return n == 2 ? "new" : n >= 0 ? "old" : "wrong content";
  }
};

}  // namespace

std::vector<Named> archive_scenarios() {
  return {{"ArchiveExport", make_scenario<Export>}, {"ArchiveImport", make_scenario<Import>}};
}

}  // namespace tpubridge::faults
