// Files of torch.save(): the tensors that Python put in (tests/python/make_state_dicts.py), and files that
// would do something else.
#include "tpubridge/base/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/unpickle.h"
#include "tpubridge/base/zip.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;

Path saved(const std::string& name) { return Path(TEST_DATA) / "torch" / name; }

std::string refused(const Path& path) {
  try {
    (void)read_torch(path);
  } catch (const FileError& e) {
    return e.what();
  }
  return "";
}

TEST(TorchFile, TensorsAreThoseOfPython) {
  for (const std::string name : {"module", "views", "checkpoint"}) {
    const TensorFile got = read_torch(saved(name + ".pt")),
                     want = read_safetensors(saved(name + ".safetensors"));
    EXPECT_EQ(got.tensors.size(), want.tensors.size()) << name;
    for (const HostTensor& w : want.tensors) {
      const HostTensor* g = got.find(w.name);
      ASSERT_NE(g, nullptr) << name << ": " << w.name;
      EXPECT_EQ(g->shape, w.shape) << w.name;
      EXPECT_TRUE(std::ranges::equal(g->bytes(), w.bytes())) << name << ": " << w.name;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(g->data.get()) % kTensorAlignment, 0U);
    }
  }
}

TEST(TorchFile, TensorsOutliveTheFile) {
  HostTensor kept;
  {
    const TensorFile file = read_torch(saved("module.pt"));
    kept = *file.find("0.weight");
  }
  EXPECT_TRUE(std::ranges::equal(kept.bytes(),
                                 read_safetensors(saved("module.safetensors")).find("0.weight")->bytes()));
}

TEST(TorchFile, NothingIsExecuted) {
  EXPECT_THAT(refused(saved("hostile.pt")), HasSubstr("posix system"));
  EXPECT_THAT(refused(saved("whole.pt")), HasSubstr("torch.nn.modules.container Sequential"));
}

// The archive with another pickle.
std::string with_pickle(const std::string& pickle) {
  static const TempFolder folder;
  const ZipFile zip(saved("module.pt"));
  std::vector<ZipContent> entries;
  for (const ZipEntry& e : zip.entries())
    entries.push_back(
        {e.name, e.name.ends_with("data.pkl")
                     ? std::string_view(pickle)
                     : std::string_view(reinterpret_cast<const char*>(e.data.data()), e.data.size())});
  const Path path = folder.path() / "other.pt";
  write_zip(path, entries);
  return path.string();
}

TEST(TorchFile, PicklesThatMakeNoSense) {
  using namespace std::string_literals;
  EXPECT_THAT(refused(with_pickle("")), HasSubstr("ends too early"));
  EXPECT_THAT(refused(with_pickle("\x80\x02."s)), HasSubstr("not there"));
  EXPECT_THAT(refused(with_pickle("\x80\x02}X\xff\xff\xff\x7f"s)), HasSubstr("ends too early"));
  EXPECT_THAT(refused(with_pickle("\x80\x02h\x05."s)), HasSubstr("not there"));
  EXPECT_THAT(refused(with_pickle("\x80\x02]q\x00h\x00"
                                  "a."s)),
              HasSubstr("in themselves"));  // a list in itself
  EXPECT_THAT(refused(with_pickle("\x80\x02"
                                  "i."s)),
              HasSubstr("0x69"));
  EXPECT_THAT(refused(with_pickle("\x80\x02(]s."s)), HasSubstr("not there"));
  EXPECT_THAT(refused(with_pickle("\x80\x02"
                                  "cbuiltins\neval\n."s)),
              HasSubstr("builtins eval"));
  EXPECT_EQ(refused(with_pickle("\x80\x02}."s)), "");
  // Lists of lists of lists …: 2^40 of them.
  std::string laughs = "\x80\x02]q\x00"s;
  for (char i = 0; i < 40; ++i) laughs += "](h"s + i + "h"s + i + "eq"s + static_cast<char>(i + 1);
  EXPECT_THAT(refused(with_pickle(laughs + ".")), HasSubstr("too deep"));
}

// Every item of a list has the key above it in its name.
TEST(TorchFile, NamesWithoutEndAreRefused) {
  using namespace std::string_literals;
  const auto lists_below = [](const std::string& key, size_t items, const std::string& item) {
    std::string size;
    for (int i = 0; i < 4; ++i) size += static_cast<char>(key.size() >> (8 * i));
    std::string pickle = "\x80\x02}X"s + size + key + "](";
    for (size_t i = 0; i < items; ++i) pickle += item;
    return pickle + "es.";
  };
  const std::string key(size_t{1} << 20, 'k');
  EXPECT_THAT(refused(with_pickle(lists_below(key, 1000, "]"))), HasSubstr("the names in it are too long"));
  EXPECT_EQ(refused(with_pickle(lists_below(key, 1000, "K\7"))), "") << "numbers are no tensors";
  EXPECT_EQ(refused(with_pickle(lists_below("key", 1000, "]"))), "");
}

TEST(TorchFile, WhatIsNoArchiveOfTorch) {
  const TempFolder folder;
  write_file(folder.path() / "old.pt", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.");
  EXPECT_NE(refused(folder.path() / "old.pt"), "");
  EXPECT_FALSE(is_zip(folder.path() / "old.pt"));
  write_zip(folder.path() / "other.pt", std::vector<ZipContent>{{"a", "b"}});
  EXPECT_THAT(refused(folder.path() / "other.pt"), HasSubstr("data.pkl"));
  EXPECT_TRUE(is_zip(folder.path() / "other.pt"));
  const std::string whole = read_file(saved("module.pt"));
  for (size_t n = 0; n < whole.size(); n += 37) {
    write_file(folder.path() / "cut.pt", whole.substr(0, n));
    EXPECT_NE(refused(folder.path() / "cut.pt"), "") << n;
  }
}

}  // namespace
}  // namespace tpubridge
