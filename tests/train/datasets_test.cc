// Data sets: what they give, where they stand, and files that are not what they should be.
#include "tpubridge/train/datasets.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "tests/device/check.h"
#include "tpubridge/base/files.h"

namespace tpubridge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> values(const at::Tensor& t) {
  const auto dense = t.cpu().to(at::kLong).contiguous();
  return {dense.const_data_ptr<int64_t>(), dense.const_data_ptr<int64_t>() + dense.numel()};
}

std::vector<int64_t> epoch(DataSource& data) {
  std::vector<int64_t> out;
  while (const auto batch = data.next())
    for (const int64_t v : values(batch->at(0))) out.push_back(v);
  return out;
}

TEST(TensorData, EachRowOnceAnEpochInAnotherOrder) {
  TensorData data({torch::arange(10), torch::arange(10) * 2}, {.batch = 4, .drop_last = false});
  EXPECT_EQ(data.batches_per_epoch(), 3);
  const auto first = epoch(data), second = epoch(data);
  EXPECT_THAT(first, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(second, testing::UnorderedElementsAreArray(first));
  EXPECT_NE(first, second);
  TensorData again({torch::arange(10)}, {.batch = 4, .drop_last = false});
  EXPECT_EQ(epoch(again), first);
  TensorData other({torch::arange(10)}, {.batch = 4, .drop_last = false, .seed = 2});
  EXPECT_NE(epoch(other), first);
  TensorData plain({torch::arange(10)}, {.batch = 4, .shuffle = false});
  EXPECT_THAT(epoch(plain), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  const auto batch = data.next();
  EXPECT_EQ(values(batch->at(1)), values(batch->at(0) * 2));  // rows belong together
}

TEST(TensorData, GoesOnFromAPosition) {
  TensorData data({torch::arange(12)}, {.batch = 3});
  (void)epoch(data);
  (void)data.next();
  const auto position = data.position();
  const auto rest = epoch(data);
  TensorData fresh({torch::arange(12)}, {.batch = 3});
  fresh.seek(position);
  EXPECT_EQ(epoch(fresh), rest);
  for (const char* bad : {"null", "{}", R"({"epoch":0,"index":5})", R"({"epoch":-1,"index":0})", R"([1])",
                          R"({"epoch":"a","index":0})"})
    EXPECT_THROW(fresh.seek(nlohmann::json::parse(bad)), ArgumentError) << bad;
}

TEST(TensorData, WhatCannotBeUsed) {
  EXPECT_THROW(TensorData({}), ArgumentError);
  EXPECT_THROW(TensorData({torch::ones({})}), ArgumentError);
  EXPECT_THROW(TensorData({torch::ones({3}), torch::ones({4})}, {.batch = 1}), ArgumentError);
  EXPECT_THROW(TensorData({torch::ones({3})}, {.batch = 0}), ArgumentError);
  EXPECT_THROW(TensorData({torch::ones({3})}, {.batch = 4}), ArgumentError);
  EXPECT_THROW(TensorData({torch::ones({0, 2})}, {.batch = 4, .drop_last = false}), ArgumentError);
}

TEST(TextData, WindowsOfTheText) {
  const Tokens tokens("hello\xff world");
  EXPECT_EQ(tokens.characters, " dehlorw\xff");
  EXPECT_THAT(tokens.encode("heZ\xff"), ElementsAre(3, 2, 8));
  EXPECT_EQ(tokens.decode({3, 2}), "he");
  TextData data(tokens.all, 4, 2);
  EXPECT_EQ(data.batches_per_epoch(), 1);
  std::set<int64_t> starts;
  for (int i = 0; i < 60; ++i) {
    const auto batch = data.next();
    if (!batch) continue;
    ASSERT_EQ(batch->at(0).sizes(), (std::vector<int64_t>{2, 4}));
    for (int row = 0; row < 2; ++row) {
      const auto x = values(batch->at(0)[row]), y = values(batch->at(1)[row]);
      const auto at = std::search(tokens.all.begin(), tokens.all.end(), x.begin(), x.end());
      ASSERT_NE(at, tokens.all.end());
      starts.insert(at - tokens.all.begin());
      EXPECT_EQ(y, std::vector<int64_t>(at + 1, at + 5));
    }
  }
  EXPECT_EQ(*starts.begin(), 0);
  EXPECT_EQ(*starts.rbegin(), 7);  // then y ends with the text's last token
  const auto position = data.position();
  const auto next = data.next();
  TextData fresh(tokens.all, 4, 2);
  fresh.seek(position);
  const auto same = fresh.next();
  EXPECT_EQ(next.has_value(), same.has_value());
  EXPECT_TRUE(!next || torch::equal(next->at(0), same->at(0)));
  EXPECT_THROW(TextData(tokens.all, 12, 2), ArgumentError);
  EXPECT_THROW(TextData({}, 1, 1), ArgumentError);
}

TEST(Prefetcher, TheSameBatchesOnTheDevice) {
  TensorData data({torch::arange(12)}, {.batch = 4}), host({torch::arange(12)}, {.batch = 4});
  Prefetcher ahead(data, tpu());
  for (int i = 0; i < 9; ++i) {
    const auto before = host.position();
    const auto want = host.next();
    const Fetched got = ahead.next();
    EXPECT_EQ(got.before, before);
    EXPECT_EQ(got.after, host.position());
    ASSERT_EQ(got.host.has_value(), want.has_value());
    if (!want) continue;
    EXPECT_EQ(got.parts.at(0).batch.at(0).device().type(), tpu().type());
    EXPECT_EQ(values(got.parts[0].batch[0]), values(want->at(0)));
  }
}

TEST(Prefetcher, PartsCanChangeOnTheWay) {
  TensorData data({torch::arange(15)}, {.batch = 5, .shuffle = false});
  Prefetcher ahead(data, tpu(), 3);
  (void)ahead.next();
  ahead.set_parts(2, 1);
  const Fetched got = ahead.next();
  ASSERT_EQ(got.parts.size(), 2u);
  EXPECT_THAT(values(got.parts[0].batch[0]), ElementsAre(5, 6, 7));
  EXPECT_THAT(values(got.parts[1].batch[0]), ElementsAre(8, 9));
  EXPECT_DOUBLE_EQ(got.parts[0].weight, 0.6);
  EXPECT_DOUBLE_EQ(got.parts[1].weight, 0.4);
  EXPECT_EQ(split({torch::ones({2})}, 3, tpu()).size(), 2u);  // no part without a row
}

struct Counting : DataSource {
  std::optional<Batch> next() override { return Batch{torch::full({1}, static_cast<int>(++calls))}; }
  nlohmann::json position() const override { return calls.load(); }
  void seek(const nlohmann::json&) override {}
  std::atomic<int> calls = 0;
};

TEST(Prefetcher, NeverMoreAheadThanItMayBe) {
  for (const size_t depth : {0, 1, 2, 3, 5}) {
    Counting source;
    Prefetcher ahead(source, torch::kCPU, depth);
    for (int i = 1; i <= 40; ++i) {
      EXPECT_THAT(values(ahead.next().host->at(0)), ElementsAre(i));
      // The batch that is in the making when one is taken counts beside those that wait.
      EXPECT_LE(source.calls, i + static_cast<int>(depth)) << depth;
    }
  }
}

TEST(Prefetcher, HowFarAheadIsFoundByTheSize) {
  struct Sized : Counting {
    explicit Sized(int64_t bytes) : size(bytes) {}
    std::optional<Batch> next() override {
      ++calls;
      return Batch{torch::empty({size}, torch::kByte)};
    }
    int64_t size;
  };
  constexpr int64_t kMiB = 1 << 20;
  for (const auto& [bytes, batches] : {std::pair<int64_t, int>{1000, 16}, {16 * kMiB, 4}, {100 * kMiB, 2}}) {
    Sized source(bytes);
    const Prefetcher ahead(source, torch::kCPU);
    while (source.calls < batches) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(source.calls, batches) << "of " << bytes << " bytes";
  }
}

struct Failing : DataSource {
  std::optional<Batch> next() override {
    if (++calls == 2) throw FileError("the disk is gone");
    return Batch{torch::full({1}, calls)};
  }
  nlohmann::json position() const override { return calls; }
  void seek(const nlohmann::json&) override {}
  int calls = 0;
};

TEST(Prefetcher, ErrorsComeWithTheBatch) {
  Failing source;
  Prefetcher ahead(source, tpu(), 4);
  EXPECT_THAT(values(ahead.next().host->at(0)), ElementsAre(1));
  EXPECT_THROW((void)ahead.next(), FileError);
  EXPECT_THAT(values(ahead.next().host->at(0)), ElementsAre(3));
}

class Files : public testing::Test {
 protected:
  Path file(const std::string& name, const std::string& content) {
    write_file(folder_.path() / name, content);
    return folder_.path() / name;
  }
  template <class F>
  FileError thrown(F f) {
    try {
      f();
    } catch (const FileError& e) {
      return e;
    }
    ADD_FAILURE() << "nothing was thrown";
    return FileError("");
  }
  TempFolder folder_;
};

using CsvFiles = Files;
using IdxFiles = Files;

TEST_F(CsvFiles, Read) {
  const Csv csv = read_csv(file("a.csv", "x, \"y, z\" ,class\r\n1,-2.5e1,0\r\n\n+3,\"4\",1"));
  EXPECT_THAT(csv.names, ElementsAre("x", "y, z", "class"));
  EXPECT_TRUE(torch::equal(csv.values, torch::tensor({{1.f, -25.f, 0.f}, {3.f, 4.f, 1.f}})));
  EXPECT_TRUE(read_csv(file("b.csv", "1,2\n")).names.empty());
  const Batch examples = read_examples(folder_.path() / "a.csv");
  EXPECT_TRUE(torch::equal(examples[0], torch::tensor({{1.f, -25.f}, {3.f, 4.f}})));
  EXPECT_THAT(values(examples[1]), ElementsAre(0, 1));
}

TEST_F(CsvFiles, WhatIsWrongIsNamed) {
  const auto e1 = thrown([&] { (void)read_csv(file("a.csv", "a,b\n1,2\n3,four\n")); });
  EXPECT_EQ(e1.detail("line"), "3");
  EXPECT_EQ(e1.detail("column"), "2");
  EXPECT_THAT(e1.what(), HasSubstr("\"four\" is no number"));
  const auto e2 = thrown([&] { (void)read_csv(file("a.csv", "1,2\n3\n")); });
  EXPECT_EQ(e2.detail("line"), "2");
  for (const char* bad : {"", "\n\n", "a,b\n", "1,2\n3,\n", "1,2\n3,nan\n", "1,2\n1e99,3\n", "1,2\n0x10,3\n"})
    (void)thrown([&] { (void)read_csv(file("a.csv", bad)); });
  (void)thrown([&] { (void)read_csv(folder_.path() / "none.csv"); });
  (void)thrown([&] { (void)read_examples(file("a.csv", "1,2.5\n")); });
  (void)thrown([&] { (void)read_examples(file("a.csv", "1,-1\n")); });
  (void)thrown([&] { (void)read_examples(file("a.csv", "1\n")); });
  (void)thrown([&] { (void)read_examples(file("a.bin", "1\n")); });
}

const std::string kImages{"\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\3\0\1\2\3\4\xff", 22};
const std::string kLabels{"\0\0\x08\x01\0\0\0\2\7\5", 10};

TEST_F(IdxFiles, Read) {
  const auto images = read_idx(file("t-images-idx3-ubyte", kImages));
  EXPECT_EQ(images.scalar_type(), torch::kByte);
  EXPECT_TRUE(torch::equal(images, torch::tensor({0, 1, 2, 3, 4, 255}, torch::kByte).view({2, 1, 3})));
  (void)file("t-labels-idx1-ubyte", kLabels);
  const Batch examples = read_examples(folder_.path() / "t-images-idx3-ubyte");
  EXPECT_EQ(examples[0].sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_FLOAT_EQ(examples[0][1][2].item<float>(), 1.f);
  EXPECT_THAT(values(examples[1]), ElementsAre(7, 5));
  // Numbers are big-endian: 0x01020304, and 1.5 as a float and as a double.
  EXPECT_THAT(values(read_idx(file("i", std::string("\0\0\x0c\1\0\0\0\1\1\2\3\4", 12)))),
              ElementsAre(0x01020304));
  EXPECT_EQ(read_idx(file("f", std::string("\0\0\x0d\1\0\0\0\1\x3f\xc0\0\0", 12))).item<float>(), 1.5f);
  EXPECT_EQ(read_idx(file("d", std::string("\0\0\x0e\1\0\0\0\1\x3f\xf8\0\0\0\0\0\0", 16))).item<double>(),
            1.5);
  EXPECT_EQ(read_idx(file("s", std::string("\0\0\x0b\1\0\0\0\1\xff\xfe", 10))).item<int64_t>(), -2);
  EXPECT_EQ(read_idx(file("z", std::string("\0\0\x08\1\0\0\0\0", 8))).numel(), 0);
}

TEST_F(IdxFiles, HostileFiles) {
  const auto e3 = thrown([&] { (void)read_idx(file("a", std::string("\x1f\x8b\x08\0", 4))); });
  EXPECT_THAT(e3.hint(), HasSubstr("gunzip"));
  const auto e4 = thrown([&] { (void)read_idx(file("a", std::string("\0\0\x07\1\0\0\0\0", 8))); });
  EXPECT_EQ(e4.detail("offset"), "2");
  // Sizes whose product overflows, and sizes larger than the file.
  std::string huge("\0\0\x08\x03", 4);
  huge += std::string(12, '\xff');
  EXPECT_THAT(thrown([&] { (void)read_idx(file("a", huge + "x")); }).what(), HasSubstr("do not fit"));
  EXPECT_THAT(thrown([&] { (void)read_idx(file("a", kImages + "x")); }).what(), HasSubstr("do not fit"));
  for (size_t size = 0; size < kImages.size(); ++size)
    (void)thrown([&] { (void)read_idx(file("a", kImages.substr(0, size))); });
  (void)file("u-images-idx3-ubyte", kImages);
  (void)thrown([&] { (void)read_examples(folder_.path() / "u-images-idx3-ubyte"); });  // no labels
  (void)file("u-labels-idx1-ubyte", kImages);
  (void)thrown([&] { (void)read_examples(folder_.path() / "u-images-idx3-ubyte"); });
}

// Random changes: a tensor or a FileError, nothing else.
TEST_F(Files, Fuzz) {
  std::mt19937 random(7);
  const std::string csv = "a,b,c\n1,2.5,0\n\"3\",-4e2,1\n5,6,2\n";
  int refused = 0, read = 0;
  for (int i = 0; i < 1200; ++i) {
    std::string bytes = i % 2 == 0 ? csv : kImages;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 3);
          if (bytes.empty()) bytes = "0";
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(random()));
      }
    }
    const Path path = folder_.path() / "f";
    {
      std::FILE* out = std::fopen(path.c_str(), "wb");
      std::fwrite(bytes.data(), 1, bytes.size(), out);
      std::fclose(out);
    }
    try {
      const auto t = i % 2 == 0 ? read_csv(path).values : read_idx(path);
      EXPECT_LE(t.numel(), static_cast<int64_t>(bytes.size()));
      ++read;
    } catch (const FileError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(read, 20);
}

}  // namespace
}  // namespace tpubridge
