// HBM of the fake: counted by hand here, by the fake from what it really holds.
#include "tests/fake/raw.h"

namespace fake_test {
namespace {

using Hbm = Raw;
constexpr int kMega = 1 << 20;

TEST_F(Hbm, BuffersAreCountedAndGivenBack) {
  PJRT_Client* client = make_client("hbm_mb=64,chips=2");
  const auto chips = devices(client);
  EXPECT_EQ(memory(chips[0]).bytes_limit, 64 * kMega);
  PJRT_Buffer* a = buffer(client, chips[0], std::vector<float>(1000));
  PJRT_Buffer* b = buffer(client, chips[0], std::vector<float>(50));
  EXPECT_EQ(memory(chips[0]).bytes_in_use, 4200);
  EXPECT_EQ(memory(chips[1]).bytes_in_use, 0);
  destroy(a);
  EXPECT_EQ(memory(chips[0]).bytes_in_use, 200);
  EXPECT_EQ(memory(chips[0]).peak_bytes_in_use, 4200);
  EXPECT_EQ(memory(chips[0]).num_allocs, 2);
  EXPECT_EQ(memory(chips[0]).largest_alloc_size, 4000);
  auto gone = args<PJRT_Buffer_Delete_Args>();
  gone.buffer = b;
  ok(api_->PJRT_Buffer_Delete(&gone));
  EXPECT_EQ(memory(chips[0]).bytes_in_use, 0);
  destroy(b);  // gives nothing back twice
  EXPECT_EQ(memory(chips[0]).bytes_in_use, 0);
  destroy(client);
}

TEST_F(Hbm, ABufferBeyondTheLimitIsRefusedInLibtpusWords) {
  PJRT_Client* client = make_client("hbm_mb=4,chips=1");
  PJRT_Device* chip = devices(client)[0];
  PJRT_Buffer* a = buffer(client, chip, std::vector<float>(kMega / 2));  // 2 MB of 4
  const auto refused = try_buffer(client, chip, std::vector<float>(3 * kMega / 4));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, PJRT_Error_Code_RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error->message.find("Attempting to allocate 3.00M"), std::string::npos)
      << refused.error->message;
  EXPECT_NE(refused.error->message.find("There are 2.00M free"), std::string::npos) << refused.error->message;
  destroy(a);
  destroy(buffer(client, chip, std::vector<float>(3 * kMega / 4)));  // now there is room
  destroy(client);
}

TEST_F(Hbm, RunningTakesOutputsAndTemporaries) {
  PJRT_Client* client = make_client("hbm_mb=10,chips=1");
  PJRT_Device* chip = devices(client)[0];
  PJRT_LoadedExecutable* twice = compile(client, doubling(kMega));  // 4 MB in, 4 MB out
  PJRT_Buffer* in = buffer(client, chip, std::vector<float>(kMega, 1.5F));
  Ran first = execute(twice, {in});
  ASSERT_FALSE(first.error);
  EXPECT_EQ(memory(chip).bytes_in_use, 8 * kMega);
  const Ran second = execute(twice, {in});  // 12 MB of 10
  ASSERT_TRUE(second.error);
  EXPECT_EQ(second.error->code, PJRT_Error_Code_RESOURCE_EXHAUSTED);
  EXPECT_NE(second.error->message.find("Attempting to reserve 4.00M"), std::string::npos)
      << second.error->message;
  EXPECT_NE(second.error->message.find("2.00M free"), std::string::npos) << second.error->message;
  EXPECT_EQ(memory(chip).bytes_in_use, 8 * kMega);  // the refused run left nothing behind
  std::vector<float> out(kMega);
  EXPECT_FALSE(read(first.outputs[0], out));
  EXPECT_EQ(out[0], 3.0F);
  EXPECT_EQ(out[kMega - 1], 3.0F);
  EXPECT_FALSE(await_and_destroy(first.done));
  destroy(first.outputs[0]);
  destroy(in);
  EXPECT_EQ(memory(chip).bytes_in_use, 0);
  destroy(twice);
  destroy(client);
}

TEST_F(Hbm, ADonatedArgumentIsPaidForOnce) {
  PJRT_Client* client = make_client("hbm_mb=6,chips=1");
  PJRT_Device* chip = devices(client)[0];
  PJRT_LoadedExecutable* add = compile(
      client,
      "func.func @main(%x: tensor<1048576xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1048576xf32> {"
      " %y = stablehlo.add %x, %x : tensor<1048576xf32> return %y : tensor<1048576xf32> }");
  PJRT_Buffer* in = buffer(client, chip, std::vector<float>(kMega, 2));
  Ran ran = execute(add, {in});
  ASSERT_FALSE(ran.error) << ran.error->message;
  EXPECT_EQ(memory(chip).bytes_in_use, 4 * kMega);
  auto gone = args<PJRT_Buffer_IsDeleted_Args>();
  gone.buffer = in;
  ok(api_->PJRT_Buffer_IsDeleted(&gone));
  EXPECT_TRUE(gone.is_deleted);
  const Ran again = execute(add, {in});
  ASSERT_TRUE(again.error);
  EXPECT_NE(again.error->message.find("deleted or donated"), std::string::npos);
  EXPECT_FALSE(await_and_destroy(ran.done));
  destroy(in);
  EXPECT_EQ(memory(chip).bytes_in_use, 4 * kMega);
  destroy(ran.outputs[0]);
  EXPECT_EQ(memory(chip).bytes_in_use, 0);
  destroy(add);
  destroy(client);
}

TEST_F(Hbm, AProgramThatCannotFitDoesNotCompile) {
  PJRT_Client* client = make_client("hbm_mb=7,chips=1");
  const Compiled out = try_compile(client, doubling(kMega));
  ASSERT_TRUE(out.error);
  EXPECT_EQ(out.error->code, PJRT_Error_Code_RESOURCE_EXHAUSTED);
  EXPECT_NE(out.error->message.find("E1000: CompileTimeHbmOom: Ran out of memory on HBM"), std::string::npos);
  EXPECT_NE(out.error->message.find("(8.00M) exceeds available HBM (7.00M)"), std::string::npos)
      << out.error->message;
  destroy(client);
}

TEST_F(Hbm, PinnedHostMemoryIsNotHbm) {
  PJRT_Client* client = make_client("hbm_mb=1,chips=1");
  PJRT_Device* chip = devices(client)[0];
  auto of = args<PJRT_Device_AddressableMemories_Args>();
  of.device = chip;
  ok(api_->PJRT_Device_AddressableMemories(&of));
  const std::vector<float> values(kMega, 7);
  const int64_t dim = kMega;
  auto a = args<PJRT_Client_BufferFromHostBuffer_Args>();
  a.client = client;
  a.memory = of.memories[1];
  a.data = values.data();
  a.type = PJRT_Buffer_Type_F32;
  a.dims = &dim;
  a.num_dims = 1;
  ok(api_->PJRT_Client_BufferFromHostBuffer(&a));
  EXPECT_FALSE(await_and_destroy(a.done_with_host_buffer));
  EXPECT_EQ(memory(chip).bytes_in_use, 0);
  std::vector<float> back(kMega);
  EXPECT_FALSE(read(a.buffer, back));
  EXPECT_EQ(back, values);
  destroy(a.buffer);
  destroy(client);
}

}  // namespace
}  // namespace fake_test
