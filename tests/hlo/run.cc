#include "tests/hlo/run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tpubridge::hlo {
namespace {

template <class T>
void put(std::vector<std::byte>& out, const std::vector<long double>& data) {
  for (const long double v : data) {
    const T item = static_cast<T>(v);
    const auto* bytes = reinterpret_cast<const std::byte*>(&item);
    out.insert(out.end(), bytes, bytes + sizeof item);
  }
}

template <class T>
void take(std::vector<long double>& out, const std::vector<std::byte>& bytes) {
  for (size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T item;
    std::memcpy(&item, &bytes[i], sizeof item);
    out.push_back(static_cast<long double>(item));
  }
}

// Calls f with a null pointer to the host type that holds the numbers of `t`.
template <class F>
void with_host_type(DType t, F f) {
  switch (t) {
    case DType::pred:
    case DType::u8:
      return f(static_cast<uint8_t*>(nullptr));
    case DType::s8:
      return f(static_cast<int8_t*>(nullptr));
    case DType::s16:
      return f(static_cast<int16_t*>(nullptr));
    case DType::u16:
      return f(static_cast<uint16_t*>(nullptr));
    case DType::s32:
      return f(static_cast<int32_t*>(nullptr));
    case DType::u32:
      return f(static_cast<uint32_t*>(nullptr));
    case DType::s64:
      return f(static_cast<int64_t*>(nullptr));
    case DType::u64:
      return f(static_cast<uint64_t*>(nullptr));
    case DType::f32:
    case DType::c64:
      return f(static_cast<float*>(nullptr));
    case DType::f64:
    case DType::c128:
      return f(static_cast<double*>(nullptr));
    default:
      FAIL() << "no host type for " << name(t);
  }
}

Reference read(const pjrt::Buffer& buffer) {
  std::vector<std::byte> bytes(static_cast<size_t>(buffer.shape().bytes()));
  buffer.to_host(bytes.data(), bytes.size());
  return decode(buffer.shape(), bytes);
}

}  // namespace

std::shared_ptr<pjrt::Client> cpu() {
  static const auto client =
      pjrt::Client::create(pjrt::Plugin::load(CPU_PLUGIN), {{"cpu_device_count", int64_t{4}}});
  return client;
}

std::vector<std::byte> encode(const Reference& r) {
  std::vector<std::byte> out;
  with_host_type(r.shape.dtype, [&]<class T>(T*) { put<T>(out, r.data); });
  return out;
}

Reference decode(const Shape& shape, const std::vector<std::byte>& bytes) {
  Reference out{shape, {}};
  with_host_type(shape.dtype, [&]<class T>(T*) { take<T>(out.data, bytes); });
  return out;
}

std::vector<Reference> run_on_cpu(const std::string& text, const std::vector<Reference>& inputs) {
  return run_on_cpus({"", text}, {inputs})[0];
}

std::vector<std::vector<Reference>> run_on_cpus(const Sample& sample,
                                                const std::vector<std::vector<Reference>>& inputs) {
  pjrt::CompileOptions options;
  options.num_replicas = static_cast<int>(sample.replicas);
  options.num_partitions = static_cast<int>(sample.partitions);
  options.use_spmd_partitioning = sample.partitions > 1;
  options.use_shardy = sample.shardy;
  // By default the CPU plugin lets a NaN get lost in maximum and minimum; StableHLO does not.
  options.overrides["xla_cpu_enable_fast_min_max"] = false;
  const auto program = cpu()->compile({sample.text}, options);
  std::vector<std::vector<pjrt::Buffer>> buffers(inputs.size());
  std::vector<std::vector<const pjrt::Buffer*>> arguments(inputs.size());
  for (size_t d = 0; d < inputs.size(); ++d) {
    for (const Reference& r : inputs[d]) {
      const auto bytes = encode(r);
      buffers[d].push_back(
          cpu()->to_device(pjrt::HostArray{bytes.data(), r.shape, {}}, *program.devices().at(d)));
    }
    for (const pjrt::Buffer& b : buffers[d]) arguments[d].push_back(&b);
  }
  std::vector<std::vector<Reference>> out;
  for (const auto& results : program.execute_all(arguments)) {
    out.emplace_back();
    for (const pjrt::Buffer& b : results) out.back().push_back(read(b));
  }
  return out;
}

void expect_equal(const Reference& got, const Reference& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.shape.str(), want.shape.str()) << what;
  ASSERT_EQ(got.data.size(), want.data.size()) << what;
  for (size_t i = 0; i < want.data.size(); ++i) {
    const long double g = got.data[i], w = want.data[i];
    if (std::isnan(w)) {
      EXPECT_TRUE(std::isnan(g)) << what << " [" << i << "]: " << g;
    } else if (std::isinf(w)) {
      EXPECT_EQ(g, w) << what << " [" << i << "]";
    } else {
      EXPECT_LE(std::fabs(g - w), tolerance * std::max(1.0L, std::fabs(w)))
          << what << " [" << i << "]: " << g << ", not " << w;
    }
  }
}

}  // namespace tpubridge::hlo
