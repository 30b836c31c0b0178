// Failures on demand: each at the call it was asked for, and at no other.
#include <atomic>
#include <thread>

#include "tests/fake/raw.h"

namespace fake_test {
namespace {

class Failures : public Raw {
 protected:
  void SetUp() override {
    Raw::SetUp();
    client_ = make_client("chips=2");
    chip_ = devices(client_)[0];
    twice_ = compile(client_, doubling(4));
    in_ = buffer(client_, chip_, {1, 2, 3, 4});
  }
  void TearDown() override {
    configure("fail=none,release");
    destroy(in_);
    destroy(twice_);
    destroy(client_);
    EXPECT_EQ(count("misuse"), 0) << misuse();
    Raw::TearDown();
  }
  // Runs x+x and gives the code of whatever went wrong first: the call, or the events.
  int run() {
    Ran ran = execute(twice_, {in_});
    if (ran.error) return ran.error->code;
    const auto late = await_and_destroy(ran.done);
    std::vector<float> out(4);
    const auto reading = read(ran.outputs[0], out);
    destroy(ran.outputs[0]);
    if (late) {
      EXPECT_TRUE(reading);
      EXPECT_EQ(out, std::vector<float>(4, 0)) << "a failed result was handed out";
      return 100 + late->code;
    }
    if (reading) return 200 + reading->code;
    EXPECT_EQ(out, (std::vector<float>{2, 4, 6, 8}));
    return 0;
  }
  PJRT_Client* client_ = nullptr;
  PJRT_Device* chip_ = nullptr;
  PJRT_LoadedExecutable* twice_ = nullptr;
  PJRT_Buffer* in_ = nullptr;
};

TEST_F(Failures, AfterAndTimesCountCalls) {
  configure("fail=execute_oom:after=2:times=3");
  std::vector<int> codes;
  for (int i = 0; i < 7; ++i) codes.push_back(run());
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 8, 8, 8, 0, 0}));
  EXPECT_EQ(count("fired.execute_oom"), 3);
}

TEST_F(Failures, ExecuteErrorHasTheCodeAskedFor) {
  configure("fail=execute_error:code=ABORTED,fail=execute_error:after=1");
  EXPECT_EQ(run(), PJRT_Error_Code_ABORTED);
  EXPECT_EQ(run(), PJRT_Error_Code_INTERNAL);
  EXPECT_EQ(run(), 0);
}

TEST_F(Failures, AnEventCarriesTheError) {
  configure("fail=execute_event_oom:times=1,fail=execute_event_error:after=1");
  EXPECT_EQ(run(), 100 + PJRT_Error_Code_RESOURCE_EXHAUSTED);
  EXPECT_EQ(run(), 100 + PJRT_Error_Code_INTERNAL);
  EXPECT_EQ(run(), 0);
}

TEST_F(Failures, AnErrorInAnEventFlowsIntoWhatUsesTheResult) {
  configure("fail=execute_event_oom");
  Ran first = execute(twice_, {in_});
  ASSERT_FALSE(first.error);
  Ran second = execute(twice_, {first.outputs[0]});
  ASSERT_FALSE(second.error);
  const auto late = await_and_destroy(ready(second.outputs[0]));
  ASSERT_TRUE(late);
  EXPECT_EQ(late->code, PJRT_Error_Code_RESOURCE_EXHAUSTED);
  for (const Ran& ran : {first, second}) {
    EXPECT_TRUE(await_and_destroy(ran.done));
    destroy(ran.outputs[0]);
  }
}

TEST_F(Failures, TransfersFailInTheirEvents) {
  configure("fail=to_host_error:code=DATA_LOSS");
  EXPECT_EQ(run(), 200 + PJRT_Error_Code_DATA_LOSS);
  EXPECT_EQ(run(), 0);
  configure("fail=from_host_error");
  PJRT_Buffer* bad = buffer(client_, chip_, {1, 2, 3, 4});
  const auto late = await_and_destroy(ready(bad));
  ASSERT_TRUE(late);
  EXPECT_EQ(late->code, PJRT_Error_Code_INTERNAL);
  destroy(bad);
  configure("fail=buffer_oom");
  const auto refused = try_buffer(client_, chip_, {1});
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, PJRT_Error_Code_RESOURCE_EXHAUSTED);
}

TEST_F(Failures, CompileFails) {
  configure("fail=compile_oom,fail=compile_error:after=0:code=UNIMPLEMENTED");
  const Compiled first = try_compile(client_, doubling(8)), second = try_compile(client_, doubling(8));
  ASSERT_TRUE(first.error && second.error);
  EXPECT_EQ(first.error->code, PJRT_Error_Code_RESOURCE_EXHAUSTED);
  EXPECT_NE(first.error->message.find("E1000: CompileTimeHbmOom"), std::string::npos);
  EXPECT_NE(first.error->message.find("(23.62G) exceeds available HBM (15.75G)"), std::string::npos)
      << first.error->message;
  EXPECT_EQ(second.error->code, PJRT_Error_Code_UNIMPLEMENTED);
  destroy(compile(client_, doubling(8)));
}

TEST_F(Failures, ALostDeviceStaysLostAndTheOthersWork) {
  configure("fail=device_lost:device=0:after=1");
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(run(), PJRT_Error_Code_UNAVAILABLE);
  configure("fail=none");
  EXPECT_EQ(run(), PJRT_Error_Code_UNAVAILABLE);
  const auto refused = try_buffer(client_, chip_, {1});
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, PJRT_Error_Code_UNAVAILABLE);
  EXPECT_NE(refused.error->message.find("TPU_0(process=0"), std::string::npos);
  std::vector<float> out(4);
  const auto reading = read(in_, out);
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->code, PJRT_Error_Code_UNAVAILABLE);
  destroy(buffer(client_, devices(client_)[1], {1}));

  PJRT_Client* again = make_client();  // a new client starts with whole devices
  destroy(buffer(again, devices(again)[0], {1}));
  destroy(again);
}

TEST_F(Failures, AHangEndsWithRelease) {
  configure("fail=execute_hang");
  Ran ran = execute(twice_, {in_});
  ASSERT_FALSE(ran.error);
  PJRT_Event* value = ready(ran.outputs[0]);
  std::atomic<int> called{0};
  auto watch = args<PJRT_Event_OnReady_Args>();
  watch.event = value;
  watch.user_arg = &called;
  watch.callback = [](PJRT_Error* error, void* arg) { *static_cast<std::atomic<int>*>(arg) = error ? 2 : 1; };
  ok(api_->PJRT_Event_OnReady(&watch));
  EXPECT_FALSE(is_ready(value));
  EXPECT_FALSE(is_ready(ran.done));
  EXPECT_EQ(called, 0);
  configure("release");
  EXPECT_FALSE(await_and_destroy(value));
  EXPECT_FALSE(await_and_destroy(ran.done));
  EXPECT_EQ(called, 1);
  std::vector<float> out(4);
  EXPECT_FALSE(read(ran.outputs[0], out));
  EXPECT_EQ(out, (std::vector<float>{2, 4, 6, 8}));
  destroy(ran.outputs[0]);
}

TEST_F(Failures, ACompileHangsUntilRelease) {
  configure("fail=compile_hang");
  std::atomic<bool> done{false};
  std::thread compiler([&] {
    destroy(compile(client_, doubling(16)));
    done = true;
  });
  while (count("fired.compile_hang") == 0) std::this_thread::yield();
  EXPECT_FALSE(done);
  // A hang that has begun to wait is let go; one that has not yet, right after.
  while (!done) configure("release");
  compiler.join();
  EXPECT_TRUE(done);
}

TEST_F(Failures, AnyFunctionFailsByName) {
  configure("fail=call_error:function=PJRT_Buffer_Dimensions:code=CANCELLED:after=1");
  auto a = args<PJRT_Buffer_Dimensions_Args>();
  a.buffer = in_;
  ok(api_->PJRT_Buffer_Dimensions(&a));
  const auto error = failed(api_->PJRT_Buffer_Dimensions(&a));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, PJRT_Error_Code_CANCELLED);
  EXPECT_EQ(count("PJRT_Buffer_Dimensions"), 2);
}

TEST_F(Failures, ClientAndPluginRefuse) {
  configure("fail=client_error,fail=initialize_error");
  auto create = args<PJRT_Client_Create_Args>();
  const auto first = failed(api_->PJRT_Client_Create(&create));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->code, PJRT_Error_Code_UNAVAILABLE);
  EXPECT_NE(first->message.find("already in use"), std::string::npos);
  auto init = args<PJRT_Plugin_Initialize_Args>();
  EXPECT_TRUE(failed(api_->PJRT_Plugin_Initialize(&init)));
  ok(api_->PJRT_Plugin_Initialize(&init));
}

}  // namespace
}  // namespace fake_test
