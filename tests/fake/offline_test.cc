// Topologies by name, offline compiles, and serialised executables. Ids and hosts are those that libtpu
// prints.
#include "tests/fake/raw.h"

namespace fake_test {
namespace {

class Offline : public Raw {
 protected:
  struct Made {
    std::optional<Failed> error;
    PJRT_TopologyDescription* topology = nullptr;
  };
  Made make(const std::string& name) const {
    auto a = args<PJRT_TopologyDescription_Create_Args>();
    a.topology_name = name.data();
    a.topology_name_size = name.size();
    Made out;
    out.error = failed(api_->PJRT_TopologyDescription_Create(&a));
    if (!out.error) out.topology = a.topology;
    return out;
  }
  void destroy_topology(PJRT_TopologyDescription* topology) const {
    auto a = args<PJRT_TopologyDescription_Destroy_Args>();
    a.topology = topology;
    ok(api_->PJRT_TopologyDescription_Destroy(&a));
  }
  std::vector<std::string> names(PJRT_TopologyDescription* topology) const {
    auto a = args<PJRT_TopologyDescription_GetDeviceDescriptions_Args>();
    a.topology = topology;
    ok(api_->PJRT_TopologyDescription_GetDeviceDescriptions(&a));
    std::vector<std::string> out;
    for (size_t i = 0; i < a.num_descriptions; ++i) {
      auto d = args<PJRT_DeviceDescription_DebugString_Args>();
      d.device_description = a.descriptions[i];
      ok(api_->PJRT_DeviceDescription_DebugString(&d));
      out.emplace_back(d.debug_string, d.debug_string_size);
    }
    return out;
  }
  std::string serialize(PJRT_Executable* executable) const {
    auto a = args<PJRT_Executable_Serialize_Args>();
    a.executable = executable;
    ok(api_->PJRT_Executable_Serialize(&a));
    std::string bytes(a.serialized_bytes, a.serialized_bytes_size);
    a.serialized_executable_deleter(a.serialized_executable);
    return bytes;
  }
  Compiled load(PJRT_Client* client, const std::string& bytes) const {
    auto a = args<PJRT_Executable_DeserializeAndLoad_Args>();
    a.client = client;
    a.serialized_executable = bytes.data();
    a.serialized_executable_size = bytes.size();
    Compiled out;
    out.error = failed(api_->PJRT_Executable_DeserializeAndLoad(&a));
    if (!out.error) out.executable = a.loaded_executable;
    return out;
  }
  PJRT_Executable* compile_for(PJRT_TopologyDescription* topology, const std::string& code) const {
    auto program = args<PJRT_Program>();
    program.code = const_cast<char*>(code.data());
    program.code_size = code.size();
    program.format = "mlir";
    program.format_size = 4;
    auto a = args<PJRT_Compile_Args>();
    a.topology = topology;
    a.program = &program;
    a.compile_options = kOptions.data();
    a.compile_options_size = kOptions.size();
    error_ = failed(api_->PJRT_Compile(&a));
    return error_ ? nullptr : a.executable;
  }
  void destroy_executable(PJRT_Executable* executable) const {
    auto a = args<PJRT_Executable_Destroy_Args>();
    a.executable = executable;
    ok(api_->PJRT_Executable_Destroy(&a));
  }
  mutable std::optional<Failed> error_;
};

TEST_F(Offline, TopologiesAreLaidOutAsLibtpuDoes) {
  const Made small = make("v5e:4x4");
  ASSERT_FALSE(small.error) << small.error->message;
  const auto list = names(small.topology);
  ASSERT_EQ(list.size(), 16U);
  EXPECT_EQ(list[2], "TPU_4(process=0,(0,1,0,0))");
  EXPECT_EQ(list[4], "TPU_2(process=1,(2,0,0,0))");
  EXPECT_EQ(list[15], "TPU_15(process=3,(3,3,0,0))");
  destroy_topology(small.topology);
  const Made two_cores = make("tpu7x:2x2x1");
  ASSERT_FALSE(two_cores.error);
  EXPECT_EQ(names(two_cores.topology).size(), 8U);
  EXPECT_EQ(names(two_cores.topology)[1], "TPU_1(process=0,(0,0,0,1))");
  destroy_topology(two_cores.topology);
  for (const auto& [name, devices] :
       {std::pair{"v4:2x2x1", 8U}, {"v5p:2x2x1", 4U}, {"v6e:2x2", 4U}, {"v5e:1x1", 1U}}) {
    const Made made = make(name);
    ASSERT_FALSE(made.error) << name;
    EXPECT_EQ(names(made.topology).size(), devices) << name;
    destroy_topology(made.topology);
  }
}

TEST_F(Offline, NamesThatLibtpuRefusesAreRefused) {
  for (const char* name : {"v7:2x2", "v5e", "v5e:3x5", "v4:4", "", "v5e:2xa", "v5e:2x2x"}) {
    const Made made = make(name);
    ASSERT_TRUE(made.error) << name;
    EXPECT_EQ(made.error->code, PJRT_Error_Code_INVALID_ARGUMENT) << name;
  }
}

TEST_F(Offline, CompilesForATopologyAndRunsOnItsGeneration) {
  const Made made = make("v6e:2x2");
  PJRT_Executable* compiled = compile_for(made.topology, doubling(3));
  ASSERT_NE(compiled, nullptr);
  auto costs = args<PJRT_Executable_GetCostAnalysis_Args>();
  costs.executable = compiled;
  ok(api_->PJRT_Executable_GetCostAnalysis(&costs));
  float flops = -1, seconds = -1;
  for (size_t i = 0; i < costs.num_properties; ++i) {
    const std::string name(costs.properties[i].name, costs.properties[i].name_size);
    if (name == "flops") flops = costs.properties[i].float_value;
    if (name == "optimal_seconds") seconds = costs.properties[i].float_value;
  }
  EXPECT_EQ(flops, 3);                         // three additions
  EXPECT_FLOAT_EQ(seconds, 24.0F / 1.64e12F);  // 12 bytes in, 12 out, at 1,640 GB/s
  const std::string bytes = serialize(compiled);
  destroy_executable(compiled);
  destroy_topology(made.topology);

  PJRT_Client* right = make_client("generation=v6e");
  const Compiled loaded = load(right, bytes);
  ASSERT_FALSE(loaded.error) << loaded.error->message;
  PJRT_Buffer* in = buffer(right, devices(right)[0], {1, 2, 3});
  Ran ran = execute(loaded.executable, {in});
  ASSERT_FALSE(ran.error);
  std::vector<float> out(3);
  EXPECT_FALSE(read(ran.outputs[0], out));
  EXPECT_EQ(out, (std::vector<float>{2, 4, 6}));
  EXPECT_FALSE(await_and_destroy(ran.done));
  destroy(ran.outputs[0]);
  destroy(in);
  destroy(loaded.executable);
  destroy(right);

  PJRT_Client* wrong = make_client("generation=v4");
  const Compiled refused = load(wrong, bytes);
  ASSERT_TRUE(refused.error);
  EXPECT_NE(refused.error->message.find("compiled for v6e, but this is a TPU v4"), std::string::npos);
  destroy(wrong);
}

TEST_F(Offline, TooLargeForHbmIsSaidAtCompile) {
  const Made made = make("v5e:2x2");
  EXPECT_EQ(compile_for(made.topology, doubling(int64_t{1} << 31)), nullptr);  // 8 GiB in, 8 GiB out
  ASSERT_TRUE(error_);
  EXPECT_EQ(error_->code, PJRT_Error_Code_RESOURCE_EXHAUSTED);
  EXPECT_NE(error_->message.find("(16.00G) exceeds available HBM (15.75G)"), std::string::npos)
      << error_->message;
  PJRT_Executable* fits = compile_for(made.topology, doubling(1 << 30));
  ASSERT_NE(fits, nullptr);
  destroy_executable(fits);
  destroy_topology(made.topology);
}

TEST_F(Offline, CorruptBytesAreRefused) {
  PJRT_Client* client = make_client();
  PJRT_LoadedExecutable* loaded = compile(client, doubling(2));
  auto e = args<PJRT_LoadedExecutable_GetExecutable_Args>();
  e.loaded_executable = loaded;
  ok(api_->PJRT_LoadedExecutable_GetExecutable(&e));
  configure("fail=serialize_flip,fail=serialize_truncate:after=1");
  const std::string flipped = serialize(e.executable), cut = serialize(e.executable),
                    whole = serialize(e.executable);
  EXPECT_EQ(flipped.size(), whole.size());
  EXPECT_EQ(cut.size(), whole.size() / 2);
  for (const std::string& bad : {flipped, cut, std::string("garbage"), std::string()}) {
    const Compiled out = load(client, bad);
    ASSERT_TRUE(out.error);
    EXPECT_EQ(out.error->code, PJRT_Error_Code_INTERNAL);
  }
  const Compiled good = load(client, whole);
  ASSERT_FALSE(good.error);
  destroy(good.executable);
  destroy_executable(e.executable);
  destroy(loaded);
  destroy(client);
}

}  // namespace
}  // namespace fake_test
