// The table itself: older and newer versions, functions and extensions that are not there, sizes of Args.
#include "tests/fake/raw.h"

namespace fake_test {
namespace {

using Table = Raw;

TEST_F(Table, TheVersionOfOurHeader) {
  ASSERT_NE(api_, nullptr);
  EXPECT_EQ(api_->struct_size, static_cast<size_t>(PJRT_Api_STRUCT_SIZE));
  EXPECT_EQ(api_->pjrt_api_version.major_version, PJRT_API_MAJOR);
  EXPECT_EQ(api_->pjrt_api_version.minor_version, PJRT_API_MINOR);
  EXPECT_EQ(get_api(), api_);  // the same table as long as nothing changes
}

TEST_F(Table, AnOlderVersionIsShorter) {
  configure("minor=74");  // TopologyDescription_Deserialize came with 0.75
  const PJRT_Api* old = get_api();
  EXPECT_EQ(old->pjrt_api_version.minor_version, 74);
  EXPECT_EQ(old->struct_size, offsetof(PJRT_Api, PJRT_TopologyDescription_Deserialize));
  configure("minor=60");
  EXPECT_EQ(get_api()->struct_size, offsetof(PJRT_Api, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer));
  EXPECT_EQ(api_->struct_size, static_cast<size_t>(PJRT_Api_STRUCT_SIZE));  // who has a table keeps it
}

TEST_F(Table, AnOlderVersionDoesNotKnowNewFields) {
  PJRT_Client* client = make_client("chips=1");
  PJRT_LoadedExecutable* loaded = compile(client, doubling(4));
  auto e = args<PJRT_LoadedExecutable_GetExecutable_Args>();
  e.loaded_executable = loaded;
  ok(api_->PJRT_LoadedExecutable_GetExecutable(&e));
  auto stats = args<PJRT_Executable_GetCompiledMemoryStats_Args>();
  stats.executable = e.executable;
  ok(api_->PJRT_Executable_GetCompiledMemoryStats(&stats));
  EXPECT_EQ(stats.argument_size_in_bytes, 16);
  EXPECT_EQ(stats.output_size_in_bytes, 16);
  EXPECT_GE(stats.peak_memory_in_bytes, 32);
  configure("minor=71");
  stats.peak_memory_in_bytes = -1;
  ok(api_->PJRT_Executable_GetCompiledMemoryStats(&stats));
  EXPECT_EQ(stats.peak_memory_in_bytes, -1);
  auto d = args<PJRT_Executable_Destroy_Args>();
  d.executable = e.executable;
  ok(api_->PJRT_Executable_Destroy(&d));
  destroy(loaded);
  destroy(client);
}

TEST_F(Table, ANewerVersionIsLonger) {
  configure("minor=116");
  const PJRT_Api* next = get_api();
  EXPECT_EQ(next->pjrt_api_version.minor_version, 116);
  EXPECT_EQ(next->struct_size, sizeof(PJRT_Api) + 35 * sizeof(void*));
  auto init = args<PJRT_Plugin_Initialize_Args>();
  ok(next->PJRT_Plugin_Initialize(&init));
}

TEST_F(Table, MajorOneAndNothingAtAll) {
  configure("major=1,minor=3");
  EXPECT_EQ(get_api()->pjrt_api_version.major_version, 1);
  configure("api=null");
  EXPECT_EQ(get_api(), nullptr);
}

TEST_F(Table, MissingFunctionsAreNull) {
  configure("missing=PJRT_Executable_Serialize+PJRT_Device_MemoryStats");
  const PJRT_Api* poor = get_api();
  EXPECT_EQ(poor->PJRT_Executable_Serialize, nullptr);
  EXPECT_EQ(poor->PJRT_Device_MemoryStats, nullptr);
  EXPECT_NE(poor->PJRT_Executable_Destroy, nullptr);
  EXPECT_NE(api_->PJRT_Executable_Serialize, nullptr);
}

TEST_F(Table, ExtensionsAreChained) {
  const auto types = [](const PJRT_Api* api) {
    std::vector<int> out;
    for (const auto* e = api->extension_start; e; e = e->next)
      std::memcpy(&out.emplace_back(), &e->type, sizeof(int));
    return out;
  };
  EXPECT_EQ(types(api_), (std::vector<int>{PJRT_Extension_Type_FFI, 24}));
  configure("extensions=none");
  EXPECT_EQ(types(get_api()), std::vector<int>());
  configure("extensions=4+ffi");
  EXPECT_EQ(types(get_api()), (std::vector<int>{PJRT_Extension_Type_Layouts, PJRT_Extension_Type_FFI}));
  EXPECT_EQ(get_api()->extension_start->struct_size, sizeof(PJRT_Extension_Base));
  EXPECT_GT(get_api()->extension_start->next->struct_size, sizeof(PJRT_Extension_Base));
}

TEST_F(Table, ArgsMayBeLargerButNotSmaller) {
  auto a = args<PJRT_Client_Create_Args>();
  a.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE - 8;
  const auto small = failed(api_->PJRT_Client_Create(&a));
  ASSERT_TRUE(small);
  EXPECT_EQ(small->code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(small->message.find("PJRT_Client_Create_Args size: expected 88, got 80"), std::string::npos)
      << small->message;
  a.struct_size = sizeof a + 64;
  ok(api_->PJRT_Client_Create(&a));
  destroy(a.client);

  configure("args=PJRT_Client_Create+16");  // a newer plugin wants more than we know of
  a.struct_size = sizeof a;
  const auto grown = failed(api_->PJRT_Client_Create(&a));
  ASSERT_TRUE(grown);
  EXPECT_NE(grown->message.find("expected 104, got 88"), std::string::npos) << grown->message;
}

TEST_F(Table, WhatTheFakeDoesNotHaveSaysSo) {
  auto a = args<PJRT_Client_DmaMap_Args>();
  const auto error = failed(api_->PJRT_Client_DmaMap(&a));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, PJRT_Error_Code_UNIMPLEMENTED);
  EXPECT_NE(error->message.find("PJRT_Client_DmaMap"), std::string::npos);
}

TEST_F(Table, CountsHaveNames) {
  EXPECT_EQ(count("PJRT_Client_Create"), 0);
  destroy(make_client());
  EXPECT_EQ(count("PJRT_Client_Create"), 1);
  EXPECT_EQ(count("PJRT_Client_Destroy"), 1);
  EXPECT_EQ(count("no such thing"), -1);
  EXPECT_EQ(count("live.nothing"), -1);
}

}  // namespace
}  // namespace fake_test
