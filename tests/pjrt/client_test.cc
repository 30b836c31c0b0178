#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tests/pjrt/cpu.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::pjrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ClientCreate, DevicesAndMemories) {
  const auto client = cpu();
  EXPECT_EQ(client->platform_name(), "cpu");
  EXPECT_FALSE(client->platform_version().empty());
  EXPECT_EQ(client->process_index(), 0);
  ASSERT_EQ(client->devices().size(), 4u);
  ASSERT_EQ(client->addressable_devices().size(), 4u);
  for (int i = 0; i < 4; ++i) {
    const Device& d = client->device(i);
    EXPECT_EQ(d.id(), i);
    EXPECT_TRUE(d.addressable());
    EXPECT_FALSE(d.memories().empty());
    EXPECT_FALSE(d.info().kind.empty());
  }
  EXPECT_THROW(static_cast<void>(client->device(99)), ArgumentError);
  EXPECT_THROW(static_cast<void>(client->device(0).memory_stats()), UnsupportedError);
  EXPECT_THAT(client->default_device_assignment(2, 2), testing::SizeIs(4));
}
TEST(ClientCreate, OptionOfWrongTypeIsRefused) {
  const auto plugin = Plugin::load(CPU_PLUGIN);
  EXPECT_THROW(static_cast<void>(Client::create(plugin, {{"cpu_device_count", std::string("4")}})),
               ArgumentError);
  EXPECT_THROW(static_cast<void>(Client::create(plugin, {{"cpu_device_count", int64_t{0}}})), ArgumentError);
}

class Transfer : public testing::Test {
 protected:
  const Device& d0 = *cpu()->addressable_devices()[0];
};

TEST_F(Transfer, StridedHostArray) {
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};  // 2x3, read as its transpose
  const Buffer b = cpu()->to_device(HostArray{rows.data(), {DType::f32, {3, 2}}, {4, 12}}, d0);
  EXPECT_THAT(b.to_vector<float>(), ElementsAre(1, 4, 2, 5, 3, 6));
}
TEST_F(Transfer, ZeroCopyAliasesAlignedMemoryAndLetsItGo) {
  constexpr size_t kBytes = 4096;
  std::weak_ptr<void> watch;
  {
    const std::shared_ptr<void> memory(std::aligned_alloc(64, kBytes), std::free);
    watch = memory;
    static_cast<float*>(memory.get())[5] = 8.5f;
    const Buffer b = cpu()->to_device(HostArray{memory.get(), {DType::f32, {kBytes / 4}}, {}}, d0,
                                      HostSemantics::zero_copy, memory);
    b.wait();
    EXPECT_EQ(b.unsafe_pointer(), reinterpret_cast<uintptr_t>(memory.get()));
    EXPECT_EQ(b.to_vector<float>()[5], 8.5f);
    EXPECT_EQ(watch.use_count(), 2);
  }
  // The plugin lets go on a thread of its own.
  for (int i = 0; i < 1000 && !watch.expired(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(watch.expired());
}
TEST_F(Transfer, UntilTransferCompletesLetsTheMemoryGo) {
  auto values = std::make_shared<std::vector<int32_t>>(1000, 3);
  const std::weak_ptr<void> watch = values;
  const Buffer b = cpu()->to_device(HostArray{values->data(), {DType::s32, {1000}}, {}}, d0,
                                    HostSemantics::until_transfer_completes, values);
  values.reset();
  EXPECT_EQ(b.to_vector<int32_t>(), std::vector<int32_t>(1000, 3));
}
TEST_F(Transfer, AsyncToHost) {
  const Buffer b = cpu()->to_device(std::vector<int64_t>{4, 5, 6}, {DType::s64, {3}}, d0);
  std::vector<int64_t> out(3);
  const Event done = b.to_host_async(out.data(), 24);
  done.wait();
  EXPECT_THAT(out, ElementsAre(4, 5, 6));
  EXPECT_THROW(b.to_host(out.data(), 23), ArgumentError);
}
TEST_F(Transfer, BetweenDevicesAndEmptyArrays) {
  const Buffer b = cpu()->to_device(std::vector<float>{1, 2}, {DType::f32, {2}}, d0);
  const Buffer c = b.copy_to(cpu()->device(3));
  EXPECT_EQ(c.device().id(), 3);
  EXPECT_THAT(c.to_vector<float>(), ElementsAre(1, 2));
  const Buffer none = cpu()->to_device(std::vector<float>{}, {DType::f32, {0, 7}}, d0);
  EXPECT_TRUE(none.to_vector<float>().empty());
  EXPECT_EQ(none.shape().str(), "f32[0,7]");
}
TEST_F(Transfer, BadHostData) {
  EXPECT_THROW(static_cast<void>(cpu()->to_device(std::vector<float>(3), {DType::f32, {4}}, d0)),
               ArgumentError);
  EXPECT_THROW(static_cast<void>(cpu()->to_device(HostArray{nullptr, {DType::f32, {4}}, {}}, d0)),
               ArgumentError);
  const float x = 0;
  EXPECT_THROW(static_cast<void>(cpu()->to_device(HostArray{&x, {DType::f32, {1}}, {4, 4}}, d0)),
               ArgumentError);
}
TEST_F(Transfer, ErasedBuffer) {
  Buffer b = cpu()->to_device(std::vector<float>{1}, {DType::f32, {1}}, d0);
  EXPECT_EQ(b.device_bytes(), 4);
  b.erase();
  EXPECT_TRUE(b.deleted());
  EXPECT_THROW(b.wait(), ArgumentError);
  EXPECT_THROW(static_cast<void>(b.copy_to(d0)), ArgumentError);
}

}  // namespace
}  // namespace tpubridge::pjrt
