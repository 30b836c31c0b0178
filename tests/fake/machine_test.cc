// What the fake says it is. The expected values are what libtpu 0.0.51 itself printed for these topologies.
#include "tests/fake/raw.h"

namespace fake_test {
namespace {

class Machine : public Raw {
 protected:
  struct Seen {
    int id, process;
    std::string kind, text;
    std::vector<int64_t> coords;
    int64_t core, cores, hbm;
  };
  Seen see(PJRT_DeviceDescription* d) const {
    Seen out{};
    auto id = args<PJRT_DeviceDescription_Id_Args>();
    id.device_description = d;
    ok(api_->PJRT_DeviceDescription_Id(&id));
    out.id = id.id;
    auto process = args<PJRT_DeviceDescription_ProcessIndex_Args>();
    process.device_description = d;
    ok(api_->PJRT_DeviceDescription_ProcessIndex(&process));
    out.process = process.process_index;
    auto kind = args<PJRT_DeviceDescription_Kind_Args>();
    kind.device_description = d;
    ok(api_->PJRT_DeviceDescription_Kind(&kind));
    out.kind.assign(kind.device_kind, kind.device_kind_size);
    auto text = args<PJRT_DeviceDescription_DebugString_Args>();
    text.device_description = d;
    ok(api_->PJRT_DeviceDescription_DebugString(&text));
    out.text.assign(text.debug_string, text.debug_string_size);
    auto a = args<PJRT_DeviceDescription_Attributes_Args>();
    a.device_description = d;
    ok(api_->PJRT_DeviceDescription_Attributes(&a));
    for (size_t i = 0; i < a.num_attributes; ++i) {
      const PJRT_NamedValue& v = a.attributes[i];
      const std::string name(v.name, v.name_size);
      if (name == "coords") out.coords.assign(v.int64_array_value, v.int64_array_value + v.value_size);
      if (name == "core_on_chip") out.core = v.int64_value;
      if (name == "num_cores") out.cores = v.int64_value;
      if (name == "device_memory_bytes_limit") out.hbm = v.int64_value;
    }
    return out;
  }
};

TEST_F(Machine, EveryGenerationNamesItselfAsLibtpuDoes) {
  const struct {
    const char *name, *kind;
    int64_t hbm, cores;
    size_t devices;
  } rows[] = {{"v4", "TPU v4", 32745971712, 2, 4},
              {"v5e", "TPU v5 lite", 16909334528, 1, 4},
              {"v5p", "TPU v5", 102786660352, 2, 4},
              {"v6e", "TPU v6 lite", 33546041344, 1, 4},
              {"v7", "TPU7x", 101724450816, 1, 8}};
  for (const auto& row : rows) {
    PJRT_Client* client = make_client(std::string("generation=") + row.name);
    const auto all = devices(client);
    ASSERT_EQ(all.size(), row.devices) << row.name;
    const Seen first = see(description(all[0]));
    EXPECT_EQ(first.kind, row.kind);
    EXPECT_EQ(first.hbm, row.hbm);
    EXPECT_EQ(first.cores, row.cores) << row.name;
    EXPECT_EQ(first.text, "TPU_0(process=0,(0,0,0,0))");
    EXPECT_EQ(memory(all[0]).bytes_limit, row.hbm);
    auto name = args<PJRT_Client_PlatformName_Args>();
    name.client = client;
    ok(api_->PJRT_Client_PlatformName(&name));
    EXPECT_EQ(std::string(name.platform_name, name.platform_name_size), "tpu");
    auto version = args<PJRT_Client_PlatformVersion_Args>();
    version.client = client;
    ok(api_->PJRT_Client_PlatformVersion(&version));
    EXPECT_EQ(std::string(version.platform_version, version.platform_version_size)
                  .find(std::string("TFRT ") + row.kind),
              0);
    destroy(client);
  }
}

TEST_F(Machine, ChipsOfOtherHostsAreDescribedButNotAddressable) {
  PJRT_Client* client = make_client("generation=v5e,bounds=4x4,host=1");
  const auto all = devices(client, false), ours = devices(client);
  ASSERT_EQ(all.size(), 16U);
  ASSERT_EQ(ours.size(), 4U);
  const int ids[] = {2, 3, 6, 7};  // libtpu: the second 2x2 block along x
  for (size_t i = 0; i < 4; ++i) {
    const Seen s = see(description(ours[i]));
    EXPECT_EQ(s.id, ids[i]);
    EXPECT_EQ(s.process, 1);
    EXPECT_EQ(s.coords, (std::vector<int64_t>{ids[i] % 4, ids[i] / 4, 0}));
    auto local = args<PJRT_Device_LocalHardwareId_Args>();
    local.device = ours[i];
    ok(api_->PJRT_Device_LocalHardwareId(&local));
    EXPECT_EQ(local.local_hardware_id, static_cast<int>(i));
  }
  EXPECT_EQ(see(description(all[0])).process, 0);
  const auto refused = try_buffer(client, all[0], {1, 2});
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(refused.error->message.find("TPU_0(process=0"), std::string::npos);
  auto process = args<PJRT_Client_ProcessIndex_Args>();
  process.client = client;
  ok(api_->PJRT_Client_ProcessIndex(&process));
  EXPECT_EQ(process.process_index, 1);
  destroy(client);
}

TEST_F(Machine, ChipsAndHostsAreLaidOut) {
  PJRT_Client* client = make_client("generation=v5p,chips=8,hosts=2,host=0");
  const auto all = devices(client, false);
  ASSERT_EQ(all.size(), 8U);  // libtpu's v5p:2x2x2
  for (int i = 0; i < 8; ++i) {
    const Seen s = see(description(all[static_cast<size_t>(i)]));
    EXPECT_EQ(s.id, i);
    EXPECT_EQ(s.process, i / 4);
    EXPECT_EQ(s.coords, (std::vector<int64_t>{i % 2, i / 2 % 2, i / 4}));
  }
  EXPECT_EQ(devices(client).size(), 4U);
  destroy(client);
}

TEST_F(Machine, EachDeviceHasHbmAndPinnedHostMemory) {
  PJRT_Client* client = make_client("chips=2");
  auto all = args<PJRT_Client_AddressableMemories_Args>();
  all.client = client;
  ok(api_->PJRT_Client_AddressableMemories(&all));
  EXPECT_EQ(all.num_addressable_memories, 4U);
  auto of = args<PJRT_Device_AddressableMemories_Args>();
  of.device = devices(client)[1];
  ok(api_->PJRT_Device_AddressableMemories(&of));
  ASSERT_EQ(of.num_memories, 2U);
  const char* const kinds[] = {"device", "pinned_host"};
  for (size_t i = 0; i < 2; ++i) {
    auto kind = args<PJRT_Memory_Kind_Args>();
    kind.memory = of.memories[i];
    ok(api_->PJRT_Memory_Kind(&kind));
    EXPECT_EQ(std::string(kind.kind, kind.kind_size), kinds[i]);
  }
  auto standard = args<PJRT_Device_DefaultMemory_Args>();
  standard.device = devices(client)[1];
  ok(api_->PJRT_Device_DefaultMemory(&standard));
  EXPECT_EQ(standard.memory, of.memories[0]);
  destroy(client);
}

TEST_F(Machine, WrongSettingsAreRefusedAndChangeNothing) {
  void* library = dlopen(FAKE_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  const auto set = reinterpret_cast<const char* (*)(const char*)>(dlsym(library, "fake_pjrt_configure"));
  const std::pair<const char*, const char*> rows[] = {{"generation=v9", "v9"},
                                                      {"chips=0", "chips=0"},
                                                      {"chips=two", "chips=two"},
                                                      {"fail=tea_break", "tea_break"},
                                                      {"colour=red", "colour"},
                                                      {"missing=PJRT_Nothing", "PJRT_Nothing"},
                                                      {"fail=compile_oom:colour=1", "colour"},
                                                      {"fail=call_error", "function"},
                                                      {"args=PJRT_Client_Create", "NAME+BYTES"}};
  for (const auto& [text, named] : rows) {
    const std::string both = std::string("chips=8,") + text;
    const char* problem = set(both.c_str());
    ASSERT_NE(problem, nullptr) << text;
    EXPECT_NE(std::string(problem).find(named), std::string::npos) << problem;
  }
  PJRT_Client* client = make_client();
  EXPECT_EQ(devices(client).size(), 4U);
  destroy(client);
}

TEST_F(Machine, ImpossibleMachinesAreRefusedByTheClient) {
  for (const char* text : {"chips=3,hosts=2", "bounds=3x5", "bounds=4", "hosts=2,chips=4,host=2"}) {
    configure("reset");
    configure(text);
    auto a = args<PJRT_Client_Create_Args>();
    const auto error = failed(api_->PJRT_Client_Create(&a));
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->code, PJRT_Error_Code_INVALID_ARGUMENT) << text;
  }
}

}  // namespace
}  // namespace fake_test
