// What a plugin and its client say of themselves.
#include <set>

#include "tests/conformance/conformance.h"

namespace tpubridge::pjrt {
namespace {

using testing::HasSubstr;

TPUBRIDGE_CONFORMANCE();

TEST_P(Conformance, LoadingTwiceGivesTheSamePlugin) {
  const auto plugin = Plugin::load(GetParam().path);
  EXPECT_EQ(plugin, Plugin::load(GetParam().path));
  EXPECT_EQ(&client().plugin(), plugin.get());
  EXPECT_EQ(plugin->api_version().major, header_version().major);
  EXPECT_GT(plugin->api_version().minor, 0);
}

TEST_P(Conformance, AttributesAndExtensionsAreRead) {
  supported([&] {
    const Values attributes = client().plugin().attributes();
    const auto version = attributes.find("stablehlo_current_version");
    ASSERT_NE(version, attributes.end());
    const auto& numbers = std::get<std::vector<int64_t>>(version->second);
    ASSERT_EQ(numbers.size(), 3U);
    EXPECT_GE(numbers[0], 1);
  });
  for (const std::string& name : client().plugin().extensions()) EXPECT_FALSE(name.empty());
  if (is_fake()) {
    EXPECT_THAT(client().plugin().extensions(), testing::ElementsAre("FFI", "type 24"));
  }
}

TEST_P(Conformance, PlatformHasNameAndVersion) {
  EXPECT_FALSE(client().platform_name().empty());
  EXPECT_FALSE(client().platform_version().empty());
  if (is_fake()) {
    EXPECT_EQ(client().platform_name(), "tpu");
  }
  if (is_cpu()) {
    EXPECT_EQ(client().platform_name(), "cpu");
  }
}

TEST_P(Conformance, DevicesHaveIdsOfTheirOwn) {
  std::set<int> ids;
  for (const Device& d : client().devices()) {
    EXPECT_TRUE(ids.insert(d.id()).second) << "two devices have the id " << d.id();
    EXPECT_FALSE(d.info().kind.empty());
    EXPECT_FALSE(d.info().debug_string.empty());
    EXPECT_EQ(&client().device(d.id()), &d);
    EXPECT_EQ(d.addressable(), d.info().process_index == client().process_index());
  }
  ASSERT_GE(device_count(), 1U);
  for (const Device* d : client().addressable_devices()) {
    EXPECT_TRUE(d->addressable());
    EXPECT_TRUE(ids.contains(d->id()));
  }
  const std::string said = thrown<ArgumentError>([&] { (void)client().device(1'000'000); });
  EXPECT_THAT(said, HasSubstr("1000000"));
}

TEST_P(Conformance, EveryDeviceHasItsMemories) {
  for (const Device* d : client().addressable_devices()) {
    ASSERT_FALSE(d->memories().empty());
    for (const Memory* m : d->memories()) {
      EXPECT_FALSE(m->kind.empty());
      EXPECT_EQ(d->memory(m->kind)->kind, m->kind);
    }
    EXPECT_EQ(d->memory("no such kind"), nullptr);
  }
}

TEST_P(Conformance, MemoryStatisticsCountABuffer) {
  const bool there = supported([&] {
    const MemoryStats before = device().memory_stats();
    const Buffer held = floats(std::vector<float>(1 << 18, 1));
    held.wait();
    const MemoryStats after = device().memory_stats();
    EXPECT_GE(after.bytes_in_use - before.bytes_in_use, 1 << 20);
    if (after.bytes_limit) {
      EXPECT_GE(*after.bytes_limit, after.bytes_in_use);
    }
    if (after.peak_bytes_in_use) {
      EXPECT_GE(*after.peak_bytes_in_use, after.bytes_in_use);
    }
  });
  if (is_fake()) {
    EXPECT_TRUE(there);
  }
}

TEST_P(Conformance, DefaultAssignmentNamesRealDevices) {
  const auto one = client().default_device_assignment(1, 1);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_TRUE(client().device(one[0]).addressable());
  if (device_count() < 2) return;
  const auto two = client().default_device_assignment(2, 1);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_NE(two[0], two[1]);
}

TEST_P(Conformance, ASecondClientIsIndependent) {
  if (GetParam().name == "named") GTEST_SKIP() << "a TPU belongs to one client";
  auto other = Client::create(Plugin::load(GetParam().path), GetParam().options);
  const Buffer theirs =
      other->to_device(std::vector<float>{1, 2, 3, 4}, {DType::f32, {4}}, *other->addressable_devices()[0]);
  const Buffer ours = floats({1, 2, 3, 4});
  const auto program = client().compile({kAddSub});
  const Buffer* const mixed[] = {&ours, &theirs};
  EXPECT_THAT(thrown<ArgumentError>([&] { (void)program.execute(mixed); }), HasSubstr("another client"));
  other.reset();
  EXPECT_EQ(theirs.to_vector<float>(),
            (std::vector<float>{1, 2, 3, 4}));  // a buffer keeps what it needs alive
}

}  // namespace
}  // namespace tpubridge::pjrt
