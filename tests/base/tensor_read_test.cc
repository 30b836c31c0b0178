// Files that numpy, ml_dtypes and the safetensors package wrote (data/make_tensor_files.py), read by us.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Path file(const std::string& name) { return Path(TEST_DATA) / "tensors" / name; }

template <class T>
void expect_npy(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                const std::vector<T>& values) {
  SCOPED_TRACE(name);
  const HostTensor t = read_npy(file(name + ".npy"));
  EXPECT_EQ(t.shape, (Shape{dtype, dims}));
  EXPECT_EQ(t.name, name);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data.get()) % kTensorAlignment, 0u);
  EXPECT_THAT(t.as<T>(), ElementsAreArray(values));
}

TEST(Npy, EveryPlainType) {
  const std::vector<int64_t> dims = {2, 3};
  expect_npy<int8_t>("plain_i1", DType::s8, dims, {-2, -1, 0, 1, 2, 3});
  expect_npy<int16_t>("plain_i2", DType::s16, dims, {-2, -1, 0, 1, 2, 3});
  expect_npy<int32_t>("plain_i4", DType::s32, dims, {-2, -1, 0, 1, 2, 3});
  expect_npy<int64_t>("plain_i8", DType::s64, dims, {-2, -1, 0, 1, 2, 3});
  expect_npy<uint8_t>("plain_u1", DType::u8, dims, {250, 251, 252, 253, 254, 255});
  expect_npy<uint16_t>("plain_u2", DType::u16, dims, {250, 251, 252, 253, 254, 255});
  expect_npy<uint32_t>("plain_u4", DType::u32, dims, {250, 251, 252, 253, 254, 255});
  expect_npy<uint64_t>("plain_u8", DType::u64, dims, {250, 251, 252, 253, 254, 255});
  expect_npy<float>("plain_f4", DType::f32, dims, {-2, -1, 0, 1, 2, 3});
  expect_npy<double>("plain_f8", DType::f64, dims, {-2, -1, 0, 1, 2, 3});
  expect_npy<std::complex<float>>("plain_c8", DType::c64, dims, {-2, -1, 0, 1, 2, 3});
  expect_npy<std::complex<double>>("plain_c16", DType::c128, dims, {-2, -1, 0, 1, 2, 3});
  expect_npy<uint8_t>("plain_b1", DType::pred, dims, {1, 0, 1, 0, 0, 1});
  // -2 -1 0 1 2 3 by hand, from sign, exponent and mantissa
  expect_npy<uint16_t>("plain_f2", DType::f16, dims, {0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200});
  expect_npy<uint16_t>("bf16", DType::bf16, dims, {0xc000, 0xbf80, 0, 0x3f80, 0x4000, 0x4040});
  expect_npy<uint8_t>("f8e5m2", DType::f8e5m2, dims, {0xc0, 0xbc, 0, 0x3c, 0x40, 0x42});
}

TEST(Npy, OrderAndEndian) {
  std::vector<float> counting(24);
  for (size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<float>(i);
  expect_npy<float>("fortran", DType::f32, {2, 3, 4}, counting);
  expect_npy<int16_t>("fortran_i2", DType::s16, {3, 2}, {0, 1, 2, 3, 4, 5});
  expect_npy<float>("big_f4", DType::f32, {2, 3}, {-2, -1, 0, 1, 2, 3});
  expect_npy<std::complex<float>>("big_c8", DType::c64, {2}, {{1, 2}, {-3.5, 0.25}});
  expect_npy<int64_t>("big_fortran", DType::s64, {2, 3}, {0, 1, 2, 3, 4, 5});
}

TEST(Npy, ShapesAndVersions) {
  expect_npy<double>("scalar", DType::f64, {}, {7.5});
  expect_npy<int32_t>("empty", DType::s32, {0, 3}, {});
  expect_npy<int32_t>("version2", DType::s32, {3}, {0, 1, 2});
  expect_npy<int32_t>("version3", DType::s32, {3}, {0, 1, 2});
}

TEST(Npy, TypesWithoutAMeaningHere) {
  for (const auto* name : {"opaque.npy", "text.npy", "record.npy"}) {
    try {
      (void)read_npy(file(name));
      FAIL() << name;
    } catch (const FileError& e) {
      EXPECT_THAT(e.what(), HasSubstr(name));
    }
  }
}

template <class T>
void expect_named(const TensorFile& f, const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                  const std::vector<T>& values) {
  SCOPED_TRACE(name);
  const HostTensor* t = f.find(name);
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->shape, (Shape{dtype, dims}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t->data.get()) % kTensorAlignment, 0u);
  EXPECT_THAT(t->as<T>(), ElementsAreArray(values));
}

class Safetensors : public ::testing::TestWithParam<Load> {};

TEST_P(Safetensors, EveryType) {
  const TensorFile f = read_safetensors(file("all.safetensors"), GetParam());
  EXPECT_EQ(f.tensors.size(), 22u);
  EXPECT_THAT(f.metadata, ElementsAre(std::pair("format", "np"), std::pair("note", "ö")));
  const std::vector<int64_t> dims = {2, 3};
  expect_named<int8_t>(f, "int8", DType::s8, dims, {0, 1, 2, 3, 4, 5});
  expect_named<int16_t>(f, "int16", DType::s16, dims, {0, 1, 2, 3, 4, 5});
  expect_named<int32_t>(f, "int32", DType::s32, dims, {0, 1, 2, 3, 4, 5});
  expect_named<int64_t>(f, "int64", DType::s64, dims, {0, 1, 2, 3, 4, 5});
  expect_named<uint8_t>(f, "uint8", DType::u8, dims, {0, 1, 2, 3, 4, 5});
  expect_named<uint16_t>(f, "uint16", DType::u16, dims, {0, 1, 2, 3, 4, 5});
  expect_named<uint32_t>(f, "uint32", DType::u32, dims, {0, 1, 2, 3, 4, 5});
  expect_named<uint64_t>(f, "uint64", DType::u64, dims, {0, 1, 2, 3, 4, 5});
  expect_named<uint16_t>(f, "float16", DType::f16, dims, {0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200});
  expect_named<float>(f, "float32", DType::f32, dims, {-2, -1, 0, 1, 2, 3});
  expect_named<double>(f, "float64", DType::f64, dims, {-2, -1, 0, 1, 2, 3});
  expect_named<std::complex<float>>(f, "complex64", DType::c64, dims, {-2, -1, 0, 1, 2, 3});
  expect_named<uint16_t>(f, "bfloat16", DType::bf16, dims, {0xc000, 0xbf80, 0, 0x3f80, 0x4000, 0x4040});
  expect_named<uint8_t>(f, "float8_e4m3fn", DType::f8e4m3fn, dims, {0xc0, 0xb8, 0, 0x38, 0x40, 0x44});
  expect_named<uint8_t>(f, "float8_e5m2", DType::f8e5m2, dims, {0xc0, 0xbc, 0, 0x3c, 0x40, 0x42});
  expect_named<uint8_t>(f, "float8_e4m3fnuz", DType::f8e4m3fnuz, dims, {0xc8, 0xc0, 0, 0x40, 0x48, 0x4c});
  expect_named<uint8_t>(f, "float8_e5m2fnuz", DType::f8e5m2fnuz, dims, {0xc4, 0xc0, 0, 0x40, 0x44, 0x46});
  expect_named<uint8_t>(f, "float8_e8m0fnu", DType::f8e8m0fnu, {4}, {126, 127, 128, 129});
  expect_named<uint8_t>(f, "bool", DType::pred, {3}, {1, 0, 1});
  expect_named<float>(f, "scalar", DType::f32, {}, {3.5});
  expect_named<float>(f, "empty", DType::f32, {0, 4}, {});
  expect_named<float>(f, "näme.with/odd \"letters\"", DType::f32, {1}, {1});
}

TEST_P(Safetensors, FourBitsAreUnpacked) {
  const TensorFile f = read_safetensors(file("f4.safetensors"), GetParam());
  expect_named<uint8_t>(f, "f4", DType::f4e2m1fn, {6}, {1, 2, 3, 4, 5, 15});
}

TEST_P(Safetensors, NoTensorsAtAll) {
  EXPECT_TRUE(read_safetensors(file("none.safetensors"), GetParam()).tensors.empty());
}

INSTANTIATE_TEST_SUITE_P(Load, Safetensors, ::testing::Values(Load::copy, Load::map),
                         [](const auto& info) { return info.param == Load::copy ? "copy" : "map"; });

TEST(TensorFile, TheEndingDecides) {
  EXPECT_EQ(read_tensors(file("plain_f4.npy")).tensors.at(0).shape.str(), "f32[2,3]");
  EXPECT_EQ(read_tensors(file("all.safetensors")).tensors.size(), 22u);
  EXPECT_EQ(read_tensors(file("all.safetensors")).find("none"), nullptr);
  for (const auto* name : {"x.npz", "x.pt", "x"}) {
    try {
      (void)read_tensors(name);
      FAIL() << name;
    } catch (const FileError& e) {
      EXPECT_THAT(e.hint(), HasSubstr(".safetensors or .npy"));
    }
  }
}

}  // namespace
}  // namespace tpubridge
