// Host to device to host, in every element type and shape, by every semantics.
#include <cstdlib>
#include <numeric>
#include <thread>

#include "tests/conformance/conformance.h"

namespace tpubridge::pjrt {
namespace {

using testing::HasSubstr;

class Transfer : public Conformance {};
INSTANTIATE_TEST_SUITE_P(Plugin, Transfer, testing::ValuesIn(plugins_under_test()), plugin_name);

std::vector<DType> array_types() {
  std::vector<DType> out;
  for (int i = 0; i < kDTypeCount; ++i)
    if (static_cast<DType>(i) != DType::token) out.push_back(static_cast<DType>(i));
  return out;
}

// Bytes that are values of the type: small ones stand in the low bits of their byte.
std::vector<uint8_t> pattern(const Shape& shape) {
  std::vector<uint8_t> bytes(static_cast<size_t>(shape.bytes()));
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto byte = static_cast<uint8_t>(i * 37 + 11);
    if (shape.dtype == DType::pred || shape.dtype == DType::s2) byte &= 1;
    if (shape.dtype == DType::u2) byte &= 3;
    if (shape.dtype == DType::s4 || shape.dtype == DType::f4e2m1fn) byte &= 7;
    if (shape.dtype == DType::u4) byte &= 15;
    bytes[i] = byte;
  }
  return bytes;
}

constexpr DType kEverywhere[] = {DType::pred, DType::s8,   DType::s32, DType::u8,
                                 DType::u32,  DType::bf16, DType::f32};

TEST_P(Transfer, EveryElementTypeComesBackAsItWent) {
  std::vector<DType> taken;
  for (const DType type : array_types()) {
    const Shape shape{type, {3, 5}};
    const auto bytes = pattern(shape);
    const bool works = supported([&] {
      const Buffer there = client().to_device(HostArray{bytes.data(), shape, {}}, device());
      EXPECT_EQ(there.shape(), shape);
      EXPECT_EQ(there.to_vector<uint8_t>(), bytes) << name(type);
    });
    if (works) taken.push_back(type);
  }
  for (const DType type : kEverywhere) EXPECT_THAT(taken, testing::Contains(type)) << name(type);
}

TEST_P(Transfer, EveryElementTypeGoesThroughAProgram) {
  std::vector<DType> taken;
  for (const DType type : array_types()) {
    const Shape shape{type, {2, 3}};
    const auto bytes = pattern(shape);
    try {
      const auto t = shape.mlir();
      const auto program = client().compile(
          {"func.func @main(%x: " + t + ") -> tensor<3x2x" + std::string(mlir(type)) +
           "> { %y = stablehlo.transpose %x, dims = [1, 0] : (" + t + ") -> tensor<3x2x" +
           std::string(mlir(type)) + "> return %y : tensor<3x2x" + std::string(mlir(type)) + "> }"});
      const Buffer in = client().to_device(HostArray{bytes.data(), shape, {}}, device());
      const Buffer* const arguments[] = {&in};
      const auto out = program.execute(arguments)[0].to_vector<uint8_t>();
      const size_t size = bytes.size() / 6;
      std::vector<uint8_t> turned(bytes.size());
      for (size_t row = 0; row < 2; ++row)
        for (size_t column = 0; column < 3; ++column)
          std::copy_n(&bytes[(row * 3 + column) * size], size, &turned[(column * 2 + row) * size]);
      EXPECT_EQ(out, turned) << name(type);
      taken.push_back(type);
    } catch (const UnsupportedError&) {  // a plugin need not know every type
    } catch (const XLACompilationError& e) {
      EXPECT_STRNE(e.what(), "");
    }
  }
  for (const DType type : kEverywhere) EXPECT_THAT(taken, testing::Contains(type)) << name(type);
}

TEST_P(Transfer, EmptyAndScalarArrays) {
  for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{0}, {3, 0, 2}}) {
    const Buffer empty = client().to_device(HostArray{nullptr, {DType::f32, dims}, {}}, device());
    EXPECT_EQ(empty.shape().bytes(), 0);
    EXPECT_TRUE(empty.to_vector<float>().empty());
  }
  const Buffer scalar = floats({2.5F}, {});
  EXPECT_EQ(scalar.shape().rank(), 0);
  EXPECT_EQ(scalar.to_vector<float>(), std::vector<float>{2.5F});
}

TEST_P(Transfer, StridedArraysAreReadAsTheyLie) {
  std::vector<int32_t> host(12);  // [3,4], row-major
  std::iota(host.begin(), host.end(), 0);
  const Buffer turned = client().to_device(HostArray{host.data(), {DType::s32, {4, 3}}, {4, 16}}, device());
  EXPECT_EQ(turned.to_vector<int32_t>(), (std::vector<int32_t>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  const Buffer part = client().to_device(HostArray{host.data() + 1, {DType::s32, {3, 2}}, {16, 8}}, device());
  EXPECT_EQ(part.to_vector<int32_t>(), (std::vector<int32_t>{1, 3, 5, 7, 9, 11}));
}

TEST_P(Transfer, EverySemanticsHoldsItsOwnerLongEnough) {
  for (const auto semantics : {HostSemantics::copy, HostSemantics::until_transfer_completes,
                               HostSemantics::zero_copy, HostSemantics::mutable_zero_copy}) {
    constexpr size_t kCount = 4096;
    const std::shared_ptr<float> owner(static_cast<float*>(std::aligned_alloc(64, kCount * sizeof(float))),
                                       std::free);
    std::fill_n(owner.get(), kCount, 3.5F);
    {
      const Buffer there =
          client().to_device(HostArray{owner.get(), {DType::f32, {kCount}}, {}}, device(), semantics, owner);
      EXPECT_EQ(there.to_vector<float>(), std::vector<float>(kCount, 3.5F));
    }
    for (int i = 0; i < 3000 && owner.use_count() > 1; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(owner.use_count(), 1) << "the owner was never let go, semantics "
                                    << static_cast<int>(semantics);
  }
}

TEST_P(Transfer, ACopyDoesNotSeeLaterChanges) {
  std::vector<float> host(1000, 1);
  const Buffer there = client().to_device(host, {DType::f32, {1000}}, device());
  std::fill(host.begin(), host.end(), 2.0F);
  EXPECT_EQ(there.to_vector<float>(), std::vector<float>(1000, 1));
}

TEST_P(Transfer, AsynchronousReadsArrive) {
  const Buffer there = floats({1, 2, 3, 4, 5});
  std::vector<float> to(5);
  const Event done = there.to_host_async(to.data(), 20);
  done.wait();
  EXPECT_TRUE(done.ready());
  EXPECT_EQ(to, (std::vector<float>{1, 2, 3, 4, 5}));
}

TEST_P(Transfer, DeviceToDevice) {
  const Buffer there = floats({1, 2, 3});
  if (device_count() > 1) {
    const Buffer copy = there.copy_to(device(1));
    EXPECT_EQ(&copy.device(), &device(1));
    EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{1, 2, 3}));
    EXPECT_FALSE(there.deleted());
  }
  for (const Memory* m : device().memories()) {
    if (m->kind == there.memory_kind()) continue;
    supported([&] {
      const Buffer copy = there.copy_to(*m);
      EXPECT_EQ(copy.memory_kind(), m->kind);
      EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{1, 2, 3}));
    });
  }
}

TEST_P(Transfer, WrongArgumentsAreRefusedBeforeTheCall) {
  const std::vector<float> four(4);
  const auto refused = [&](const HostArray& array) {
    return thrown<ArgumentError>([&] { (void)client().to_device(array, device()); });
  };
  EXPECT_THAT(refused({nullptr, {DType::f32, {4}}, {}}), HasSubstr("null"));
  EXPECT_THAT(refused({four.data(), {DType::f32, {2, 2}}, {4}}), HasSubstr("strides"));
  EXPECT_NE(refused({four.data(), {DType::f32, {-4}}, {}}), "");
  EXPECT_NE(refused({four.data(), {DType::token, {}}, {}}), "");
  EXPECT_THAT(thrown<ArgumentError>([&] {
                (void)client().to_device(four, {DType::f32, {5}}, device());
              }),
              HasSubstr("20 bytes"));
  const Buffer there = floats(four);
  std::vector<float> small(3);
  EXPECT_THAT(thrown<ArgumentError>([&] { there.to_host(small.data(), 12); }), HasSubstr("16 bytes"));
}

TEST_P(Transfer, ADeletedBufferSaysSo) {
  Buffer there = floats({1, 2});
  EXPECT_FALSE(there.deleted());
  EXPECT_GE(there.device_bytes(), 8);
  there.erase();
  EXPECT_TRUE(there.deleted());
  EXPECT_EQ(there.shape().str(), "f32[2]");
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { (void)there.to_vector<float>(); }, [&] { there.wait(); },
           [&] { (void)there.copy_to(device()); }, [&] { (void)there.device_bytes(); },
           [&] { (void)there.unsafe_pointer(); }, [&] { (void)there.memory_kind(); }})
    EXPECT_THAT(thrown<ArgumentError>(use), HasSubstr("deleted"));
  there.erase();  // twice is nothing
  Buffer moved = floats({3});
  const Buffer taken = std::move(moved);
  EXPECT_TRUE(moved.deleted());  // NOLINT(bugprone-use-after-move): that it can be asked is the point
  EXPECT_EQ(taken.to_vector<float>(), std::vector<float>{3});
}

}  // namespace
}  // namespace tpubridge::pjrt
