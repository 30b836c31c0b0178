// Packages that were cut, changed in a bit, made by another version, or made to lead astray.
#include <fstream>
#include <random>

#include "tests/package/make.h"
#include "tpubridge/base/hash.h"

namespace tpubridge::package {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

// Executables of a few bytes: small enough to try every place.
Contents tiny() {
  Contents c = contents({1});
  c.programs[0].executables.push_back({this_machine(*pjrt::cpu()), "machine code"});
  c.programs[0].executables[0].machine.cpu = "a cpu";
  c.programs[0].executables[0].machine.topology = "one";
  c.programs[0].executables[0].machine.plugin = "one";
  return c;
}

class BadPackages : public InFolder {
 protected:
  std::string opened(const std::string& bytes) const {
    const Path path = folder_.path() / "changed.tbp";
    std::ofstream(path, std::ios::binary) << bytes;
    return what_of([&] { const Package package(path); });
  }
  // The archive of these entries, opened.
  std::string opened(const std::vector<ZipContent>& entries) const {
    const Path path = folder_.path() / "archive.tbp";
    write_zip(path, entries);
    return what_of([&] { const Package package(path); });
  }
  const std::string sound_ = read_file(write(tiny()));
  const auto refused() const { return AnyOf(StartsWith("FileError"), StartsWith("UnsupportedError")); }
};

TEST_F(BadPackages, OneThatIsSound) {
  EXPECT_EQ(opened(sound_), "nothing was thrown");
  EXPECT_TRUE(is_package(folder_.path() / "changed.tbp"));
}

TEST_F(BadPackages, CutAnywhere) {
  for (size_t length = 0; length < sound_.size(); length += 1 + length / 50)
    EXPECT_THAT(opened(sound_.substr(0, length)), refused()) << length;
  EXPECT_THAT(opened(sound_.substr(0, sound_.size() - 1)), refused());
  EXPECT_THAT(opened(sound_ + "x"), refused());
}

TEST_F(BadPackages, ABitFlippedAnywhere) {
  std::mt19937 random(1);
  size_t opened_well = 0;
  for (size_t i = 0; i < sound_.size(); ++i) {
    std::string changed = sound_;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (random() % 8)));
    const std::string what = opened(changed);
    EXPECT_THAT(what, refused()) << "byte " << i;
    opened_well += what == "nothing was thrown";
    if (opened_well > 5) break;
  }
}

TEST_F(BadPackages, AnotherVersionOrKind) {
  const auto with = [&](const std::string& from, const std::string& to) {
    const Package package(write(tiny()));
    std::string manifest = to_json(package.manifest());
    manifest.replace(manifest.find(from), from.size(), to);
    std::vector<ZipContent> entries{{std::string(kManifestEntry), manifest}};
    const ZipFile zip(folder_.path() / "model.tbp");
    for (const auto& e : zip.entries())
      if (e.name != kManifestEntry)
        entries.push_back({e.name, {reinterpret_cast<const char*>(e.data.data()), e.data.size()}});
    return opened(entries);
  };
  EXPECT_EQ(with("\"version\": 1", "\"version\": 1"), "nothing was thrown");
  EXPECT_THAT(with("\"version\": 1", "\"version\": 2"), HasSubstr("UnsupportedError"));
  EXPECT_THAT(with("tpubridge package", "another package"), HasSubstr("something else"));
  EXPECT_THAT(with("\"weight\": 0", "\"weight\": 1"), HasSubstr("weight 1, which is not there"));
  EXPECT_THAT(with("\"weight\": 0", "\"weight\": -1"), HasSubstr("not there"));
  EXPECT_THAT(with("\"input\": 0", "\"input\": 2"), HasSubstr("input 2, which is not there"));
  EXPECT_THAT(with("\"dtype\": \"f32\"", "\"dtype\": \"f33\""), HasSubstr("no element type"));
  EXPECT_THAT(with("\"platform\": \"any\"", "\"platform\": \"cpu\""), HasSubstr("no code for any platform"));
  EXPECT_THAT(with("weights/0", "weights/9"), HasSubstr("is missing"));
  EXPECT_THAT(with("\"y\"", "\"x\""), HasSubstr("two tensors are named"));
  EXPECT_THAT(with("\"name\": \"w\",\n   \"dtype\": \"f32\"", "\"name\": \"w\",\n   \"dtype\": \"f64\""),
              HasSubstr("FileError"));
  EXPECT_THAT(with("\"model\": \"a test\",", ""), HasSubstr("FileError"));
}

TEST_F(BadPackages, NamesThatLeadElsewhereOrStandTwice) {
  const Package package(write(tiny()));
  const std::string manifest = to_json(package.manifest());
  const auto with = [&](const std::string& name) {
    std::vector<ZipContent> entries{{std::string(kManifestEntry), manifest}};
    for (const auto* e :
         {&package.manifest().programs[0].codes[0].entry,
          &package.manifest().programs[0].executables[0].entry, &package.manifest().weights[0].entry})
      entries.push_back({e->name, package.bytes(*e)});
    if (!name.empty()) entries.push_back({name, "more"});
    return opened(entries);
  };
  EXPECT_EQ(with(""), "nothing was thrown");
  for (const char* name : {"../outside", "/etc/passwd", "a/../../b", "a\\b", "./a"})
    EXPECT_THAT(with(name), HasSubstr("leads elsewhere")) << name;
  EXPECT_THAT(with("weights/0"), HasSubstr("two entries are named"));
  EXPECT_THAT(with("more"), HasSubstr("nothing names its entry"));
  EXPECT_THAT(opened(std::vector<ZipContent>{{"something", "else"}}), HasSubstr("no manifest"));
}

TEST_F(BadPackages, WhatCannotBeReadIsNotWritten) {
  const auto fails = [&](const Contents& c) {
    const Path path = folder_.path() / "never.tbp";
    const std::string what = what_of([&] { write_package(path, c); });
    EXPECT_FALSE(std::filesystem::exists(path));
    return what;
  };
  EXPECT_THAT(fails(contents({})), HasSubstr("no program"));
  EXPECT_THAT(fails(contents({2, 2})), HasSubstr("same shapes"));
  Contents other = contents({1, 2});
  other.programs[1].inputs[0].name = "z";
  EXPECT_THAT(fails(other), HasSubstr("different signatures"));
}

TEST_F(BadPackages, OtherFilesAreNoPackages) {
  const Path path = folder_.path() / "other";
  for (const std::string content :
       {"", "PK", "PK\3\4 and more than thirty bytes of something else, so it goes"}) {
    write_file(path, content);
    EXPECT_FALSE(is_package(path));
    EXPECT_THAT(what_of([&] { const Package package(path); }), StartsWith("FileError"));
  }
}

}  // namespace
}  // namespace tpubridge::package
