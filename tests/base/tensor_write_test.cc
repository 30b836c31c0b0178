// What we write reads back the same: random tensors of every type, in both formats, both ways of loading.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge {
namespace {

using ::testing::HasSubstr;

const std::vector<DType> kSafetensorsTypes = {
    DType::pred,     DType::f4e2m1fn,  DType::u8,         DType::s8,         DType::f8e5m2,
    DType::f8e4m3fn, DType::f8e8m0fnu, DType::f8e4m3fnuz, DType::f8e5m2fnuz, DType::s16,
    DType::u16,      DType::f16,       DType::bf16,       DType::s32,        DType::u32,
    DType::f32,      DType::c64,       DType::f64,        DType::s64,        DType::u64};
const std::vector<DType> kNpyTypes = {DType::pred, DType::s8,  DType::s16, DType::s32,  DType::s64,
                                      DType::u8,   DType::u16, DType::u32, DType::u64,  DType::f16,
                                      DType::f32,  DType::f64, DType::c64, DType::c128, DType::bf16};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  size_t below(size_t n) { return engine_() % n; }

  HostTensor tensor(std::string name, DType dtype) {
    Shape shape{dtype, {}};
    for (size_t rank = below(4); rank > 0; --rank) shape.dims.push_back(static_cast<int64_t>(below(6)));
    if (dtype == DType::f4e2m1fn) shape.dims.push_back(2);
    std::vector<std::byte> bytes(static_cast<size_t>(shape.bytes()));
    const unsigned mask = dtype == DType::pred ? 1 : dtype == DType::f4e2m1fn ? 15 : 255;
    for (auto& b : bytes) b = static_cast<std::byte>(engine_() & mask);
    return make_tensor(std::move(name), shape, bytes);
  }

 private:
  std::mt19937 engine_;
};

void expect_same(const HostTensor& a, const HostTensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data.get()) % kTensorAlignment, 0u);
  EXPECT_TRUE(std::ranges::equal(a.bytes(), b.bytes())) << a.name;
}

TEST(TensorWrite, SafetensorsRoundTrip) {
  const TempFolder folder;
  Random random(11);
  for (int i = 0; i < 60; ++i) {
    std::vector<HostTensor> written;
    for (size_t n = random.below(8); n > 0; --n)
      written.push_back(random.tensor("t" + std::to_string(n) + (n % 2 ? "" : " \"é\"\n"),
                                      kSafetensorsTypes[random.below(kSafetensorsTypes.size())]));
    const Path path = folder.path() / "x.safetensors";
    const std::map<std::string, std::string> metadata = {{"step", std::to_string(i)}, {"ü", "\"quoted\""}};
    write_safetensors(path, written, metadata);
    for (const Load load : {Load::copy, Load::map}) {
      const TensorFile back = read_safetensors(path, load);
      EXPECT_EQ(back.metadata, metadata);
      ASSERT_EQ(back.tensors.size(), written.size());
      for (const auto& t : written) {
        ASSERT_NE(back.find(t.name), nullptr) << t.name;
        expect_same(t, *back.find(t.name));
      }
    }
  }
}

TEST(TensorWrite, NpyRoundTrip) {
  const TempFolder folder;
  Random random(12);
  for (const DType dtype : kNpyTypes)
    for (int i = 0; i < 6; ++i) {
      const HostTensor t = random.tensor("x", dtype);
      write_npy(folder.path() / "x.npy", t);
      const HostTensor back = read_npy(folder.path() / "x.npy");
      expect_same(t, back);
      EXPECT_EQ(back.name, "x");
    }
}

// The bytes of both formats, written out by hand from their specifications.
TEST(TensorWrite, ExactBytes) {
  const TempFolder folder;
  const float values[] = {1, 2};
  const HostTensor t = make_tensor("a", {DType::f32, {2}}, std::as_bytes(std::span(values)));
  const std::string data("\0\0\x80\x3f\0\0\0\x40", 8);
  write_npy(folder.path() / "x.npy", t);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  EXPECT_EQ(read_file(folder.path() / "x.npy"),
            std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" + data);
  write_safetensors(folder.path() / "x.safetensors", std::span(&t, 1));
  header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.resize(56, ' ');
  EXPECT_EQ(read_file(folder.path() / "x.safetensors"), std::string("\x38\0\0\0\0\0\0\0", 8) + header + data);
}

TEST(TensorWrite, MappedTensorsOutliveTheFileAndItsList) {
  const TempFolder folder;
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const HostTensor t = make_tensor("a", {DType::f32, {64}}, std::as_bytes(std::span(values)));
  const Path path = folder.path() / "x.safetensors";
  write_safetensors(path, std::span(&t, 1));
  const HostTensor kept = read_safetensors(path, Load::map).tensors.at(0);
  write_file(path, "replaced");
  EXPECT_EQ(kept.as<float>()[63], 63.0f);
}

TEST(TensorWrite, TypesThatAFormatDoesNotHave) {
  const TempFolder folder;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const HostTensor t{"a", {dtype, {2}}, aligned_bytes(32)};
    std::memset(const_cast<std::byte*>(t.data.get()), 0, 32);
    const auto in = [&](const std::vector<DType>& all) { return std::ranges::find(all, dtype) != all.end(); };
    SCOPED_TRACE(name(dtype));
    if (in(kSafetensorsTypes))
      EXPECT_NO_THROW(write_safetensors(folder.path() / "a.safetensors", std::span(&t, 1)));
    else
      EXPECT_THROW(write_safetensors(folder.path() / "b.safetensors", std::span(&t, 1)), ArgumentError);
    if (in(kNpyTypes))
      EXPECT_NO_THROW(write_npy(folder.path() / "a.npy", t));
    else
      EXPECT_THROW(write_npy(folder.path() / "b.npy", t), ArgumentError);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "b.npy"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "b.safetensors"));
}

TEST(TensorWrite, RefusesWhatCouldNotBeReadBack) {
  const TempFolder folder;
  const Path path = folder.path() / "x.safetensors";
  const auto byte = [](std::string name) {
    return make_tensor(std::move(name), {DType::u8, {1}}, std::vector{std::byte{1}});
  };
  const auto refused = [&](const std::vector<HostTensor>& tensors) {
    EXPECT_THROW(write_safetensors(path, tensors), ArgumentError);
    EXPECT_FALSE(std::filesystem::exists(path));
  };
  refused({byte("a"), byte("a")});
  refused({byte("__metadata__")});
  refused({byte("\xff")});
  refused({HostTensor{"none", {DType::f32, {2}}, nullptr}});
  refused({HostTensor{"odd", {DType::f4e2m1fn, {3}}, aligned_bytes(3)}});
  const std::vector<HostTensor> two = {byte("a"), byte("b")};
  EXPECT_THROW(write_tensors(folder.path() / "x.npy", two), ArgumentError);
  EXPECT_THROW(write_tensors(folder.path() / "x.bin", two), FileError);
  write_tensors(path, two);
  EXPECT_EQ(read_tensors(path).tensors.size(), 2u);
}

TEST(HostTensor, BytesAndTypesAreChecked) {
  EXPECT_THROW((void)make_tensor("a", {DType::f32, {2}}, std::vector<std::byte>(7)), ArgumentError);
  const HostTensor t = make_tensor("a", {DType::f32, {2}}, std::vector<std::byte>(8));
  EXPECT_THROW((void)t.as<double>(), ArgumentError);
  EXPECT_EQ(t.as<float>().size(), 2u);
  const HostTensor missing{"m", {DType::f32, {2}}, nullptr};
  EXPECT_THROW((void)missing.bytes(), ArgumentError);
  EXPECT_TRUE((HostTensor{"z", {DType::f32, {0}}, nullptr}.bytes().empty()));
  for (const size_t n : {size_t{0}, size_t{1}, size_t{100}, size_t{4097}})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned_bytes(n).get()) % 64, 0u);
}

TEST(TensorWrite, ManyTensors) {
  const TempFolder folder;
  const Path path = folder.path() / "x.safetensors";
  const std::byte one[] = {std::byte{7}};
  std::vector<HostTensor> written;
  for (int i = 0; i < 100'000; ++i)
    written.push_back(make_tensor("layer." + std::to_string(i), {DType::u8, {1}}, one));
  const auto begin = std::chrono::steady_clock::now();
  write_safetensors(path, written);
  const TensorFile back = read_safetensors(path);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  ASSERT_EQ(back.tensors.size(), written.size());
  ASSERT_NE(back.find("layer.99999"), nullptr);
  EXPECT_EQ(back.find("layer.99999")->bytes()[0], std::byte{7});
}

}  // namespace
}  // namespace tpubridge
