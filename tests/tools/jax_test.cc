// `tpubridge run` on programs that JAX wrote, against the numbers that JAX computed (tests/data/jax/make.py).
#include <bit>
#include <cmath>
#include <complex>

#include "tests/tools/command.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge::tools_test {
namespace {

double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double value = exponent == 31  ? (mantissa ? NAN : INFINITY)
                       : exponent == 0 ? std::ldexp(mantissa, -24)
                                       : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

template <class T>
std::vector<std::complex<double>> widen(const HostTensor& t) {
  std::vector<std::complex<double>> out;
  for (const T v : t.as<T>()) out.emplace_back(static_cast<double>(v));
  return out;
}

std::vector<std::complex<double>> numbers(const HostTensor& t) {
  std::vector<std::complex<double>> out;
  switch (t.shape.dtype) {
    case DType::pred:
      return widen<uint8_t>(t);
    case DType::s8:
      return widen<int8_t>(t);
    case DType::s32:
      return widen<int32_t>(t);
    case DType::s64:
      return widen<int64_t>(t);
    case DType::u16:
      return widen<uint16_t>(t);
    case DType::u32:
      return widen<uint32_t>(t);
    case DType::u64:
      return widen<uint64_t>(t);
    case DType::f32:
      return widen<float>(t);
    case DType::f64:
      return widen<double>(t);
    case DType::bf16:
      for (const uint16_t v : t.as<uint16_t>()) out.emplace_back(std::bit_cast<float>(uint32_t{v} << 16));
      return out;
    case DType::f16:
      for (const uint16_t v : t.as<uint16_t>()) out.emplace_back(half(v));
      return out;
    case DType::c64:
      for (const auto v : t.as<std::complex<float>>()) out.emplace_back(v);
      return out;
    default:
      ADD_FAILURE() << "no such type among the cases: " << t.shape.str();
      return out;
  }
}

double tolerance(DType t) {
  if (t == DType::bf16) return 1e-2;
  if (t == DType::f16) return 2e-3;
  if (t == DType::f64) return 1e-12;
  return is_int(t) || t == DType::pred ? 0 : 1e-5;
}

void expect_near(const HostTensor& got, const HostTensor& want) {
  ASSERT_EQ(got.shape, want.shape) << got.shape.str() << " instead of " << want.shape.str();
  const auto a = numbers(got), b = numbers(want);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i].real())) {
      EXPECT_TRUE(std::isnan(a[i].real())) << want.name << "[" << i << "]";
    } else if (a[i] != b[i]) {
      EXPECT_LE(std::abs(a[i] - b[i]), tolerance(want.shape.dtype) * (1 + std::abs(b[i])))
          << want.name << "[" << i << "]";
    }
  }
}

// Runs it and compares everything it saved.
nlohmann::json expect_as_jax(const std::string& program, const std::string& name,
                             const std::vector<std::string>& inputs,
                             const std::vector<std::string>& more = {}) {
  const TempFolder folder;
  const std::string out = (folder.path() / "out.safetensors").string();
  std::vector<std::string> arguments = {"run",    data(program), "--out", out,
                                        "--json", "--repeat",    "2",     "--in"};
  arguments.insert(arguments.end(), inputs.begin(), inputs.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Ran ran = tpubridge(arguments);
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  if (ran.code != 0) return {};
  const TensorFile got = read_tensors(out), want = read_tensors(data(name + ".out.safetensors"));
  EXPECT_EQ(got.tensors.size(), want.tensors.size());
  for (const HostTensor& w : want.tensors) {
    const HostTensor* g = got.find(w.name);
    EXPECT_NE(g, nullptr) << w.name;
    if (g != nullptr) expect_near(*g, w);
  }
  return ran.json();
}

class Jax : public testing::TestWithParam<const char*> {};

TEST_P(Jax, ComputesWhatJaxComputed) {
  const std::string name = GetParam();
  const auto report = expect_as_jax(name + ".mlir", name, {data(name + ".in.safetensors")});
  EXPECT_EQ(report["outputs"].size(), read_tensors(data(name + ".out.safetensors")).tensors.size());
}

INSTANTIATE_TEST_SUITE_P(Programs, Jax,
                         testing::Values("attention", "convolution", "gather_scatter", "collatz",
                                         "random_bits", "sort", "wide_types", "narrow_types", "complex_fft",
                                         "odd_shapes", "donated", "portable", "partitioned", "manual"),
                         [](const auto& info) { return std::string(info.param); });

TEST(JaxFiles, PortableArtifactAndExportFile) {
  const std::vector<std::string> npy = {data("portable.x.npy"), data("portable.w.npy"),
                                        data("portable.b.npy")};
  for (const char* file : {"portable.mlirbc", "portable.jax"}) {
    const auto report = expect_as_jax(file, "portable", npy);
    EXPECT_EQ(report["arguments"][1], nlohmann::json({{"dtype", "f32"}, {"dims", {6, 3}}})) << file;
  }
}

TEST(JaxFiles, TheModuleSaysHowManyDevicesItNeeds) {
  const auto report = expect_as_jax("partitioned.mlir", "partitioned", {data("partitioned.in.safetensors")});
  EXPECT_EQ(report["partitions"], 4);
  EXPECT_EQ(report["devices"], nlohmann::json({0, 1, 2, 3}));
  EXPECT_EQ(report["arguments"][0]["dims"], nlohmann::json({2, 6}));  // of each device
}

TEST(JaxFiles, BytecodeIsToldHowManyDevicesItNeeds) {
  const std::vector<std::string> in = {data("partitioned.in.safetensors")};
  const auto report = expect_as_jax("partitioned.mlirbc", "partitioned", in, {"--partitions", "4"});
  EXPECT_EQ(report["devices"].size(), 4U);
}

TEST(JaxFiles, SummariesAndTimes) {
  const auto report = expect_as_jax("odd_shapes.mlir", "odd_shapes", {data("odd_shapes.in.safetensors")});
  const auto& scalar = report["outputs"][0];  // 2.5 * 2
  EXPECT_EQ(scalar["dims"], nlohmann::json::array());
  EXPECT_EQ(scalar["min"], 5.0);
  EXPECT_EQ(scalar["mean"], 5.0);
  const auto& empty = report["outputs"][1];
  EXPECT_EQ(empty["elements"], 0);
  EXPECT_TRUE(empty["min"].is_null());
  const auto& odd = report["outputs"][3];  // [nan, inf, -inf, 1] * 2.5
  EXPECT_EQ(odd["nan"], 1);
  EXPECT_EQ(odd["inf"], 2);
  EXPECT_EQ(odd["first"], nlohmann::json({nullptr, nullptr, nullptr, 2.5}));
  EXPECT_EQ(report["platform"], "cpu");
  EXPECT_EQ(report["repeat"]["count"], 2);
  EXPECT_GT(report["compile_s"], 0.0);
  EXPECT_GT(report["first_run_s"], 0.0);
  EXPECT_LE(report["repeat"]["min_s"], report["repeat"]["median_s"]);
  EXPECT_LE(report["repeat"]["median_s"], report["repeat"]["max_s"]);
}

}  // namespace
}  // namespace tpubridge::tools_test
