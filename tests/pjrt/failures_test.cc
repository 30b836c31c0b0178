// Every failure that the fake plugin can make: the right exception with the right facts, and nothing lost or
// left.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/pjrt/fake.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/pjrt/topology.h"

namespace tpubridge::pjrt {
namespace {

using testing::HasSubstr;

// The facts of the exception of exactly type E that `body` throws; a test failure where it throws another, or
// none.
template <class E>
Error caught(const std::function<void()>& body) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const E& e) {
    EXPECT_EQ(e.type_name(), E("").type_name());
    return static_cast<const Error&>(e);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another exception: " << e.what();
  }
  return Error("");
}

class Failures : public testing::Test {
 protected:
  static const FakePlugin& fake() {
    static const FakePlugin plugin;
    return plugin;
  }
  void SetUp() override {
    fake().configure("reset");
    start("chips=2");
  }
  void TearDown() override {
    fake().configure("fail=none,release");
    in_.reset();
    twice_.reset();
    client_.reset();
    fake().expect_nothing_left();
  }
  void start(const std::string& settings) {
    in_.reset();
    twice_.reset();
    client_.reset();
    fake().configure(settings);
    client_ = Client::create(Plugin::load(fake().path()));
    twice_ = std::make_unique<LoadedExecutable>(client_->compile({doubling(4)}));
    in_ = std::make_unique<Buffer>(floats({1, 2, 3, 4}));
  }
  const Device& device(size_t i = 0) const { return *client_->addressable_devices()[i]; }
  Buffer floats(const std::vector<float>& values, size_t on = 0) const {
    return client_->to_device(values, {DType::f32, {static_cast<int64_t>(values.size())}}, device(on));
  }
  std::vector<Buffer> run() const {
    const Buffer* const arguments[] = {in_.get()};
    return twice_->execute(arguments);
  }
  void expect_all_well() const {
    EXPECT_EQ(run()[0].to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
    EXPECT_EQ(in_->to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  }
  std::shared_ptr<Client> client_;
  std::unique_ptr<LoadedExecutable> twice_;
  std::unique_ptr<Buffer> in_;
};

TEST_F(Failures, OutOfMemoryAtCompile) {
  fake().configure("fail=compile_oom");
  const auto e = caught<TPUOutOfMemoryError>([&] { (void)client_->compile({doubling(8)}); });
  EXPECT_EQ(e.code(), Code::resource_exhausted);
  EXPECT_EQ(e.detail("xla_code"), "E1000");
  EXPECT_EQ(e.detail("function"), "PJRT_Client_Compile");
  EXPECT_THAT(e.message(), HasSubstr("exceeds available HBM (15.75G)"));
  EXPECT_FALSE(e.hint().empty());
  expect_all_well();
}

TEST_F(Failures, CompileErrors) {
  fake().configure("fail=compile_error,fail=compile_error:after=1:code=UNIMPLEMENTED");
  const auto first = caught<XLACompilationError>([&] { (void)client_->compile({doubling(8)}); });
  EXPECT_EQ(first.code(), Code::internal);
  EXPECT_THAT(first.message(), HasSubstr("does not compile"));
  const auto second = caught<XLACompilationError>([&] { (void)client_->compile({doubling(8)}); });
  EXPECT_EQ(second.code(), static_cast<Code>(12));
  EXPECT_NO_THROW((void)client_->compile({doubling(8)}));
}

TEST_F(Failures, OutOfMemoryAtExecuteLosesNothing) {
  fake().configure("fail=execute_oom");
  const auto e = caught<TPUOutOfMemoryError>([&] { (void)run(); });
  EXPECT_EQ(e.code(), Code::resource_exhausted);
  EXPECT_EQ(e.detail("function"), "PJRT_LoadedExecutable_Execute");
  EXPECT_THAT(e.message(), HasSubstr("That was not possible"));
  expect_all_well();
}

TEST_F(Failures, ADonatedArgumentSurvivesARunThatNeverBegan) {
  const auto program =
      client_->compile({"func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> "
                        "{ %y = stablehlo.add %x, %x : tensor<2xf32> return %y : tensor<2xf32> }"});
  const Buffer in = floats({1, 2});
  const Buffer* const arguments[] = {&in};
  fake().configure("fail=execute_oom");
  (void)caught<TPUOutOfMemoryError>([&] { (void)program.execute(arguments); });
  ASSERT_FALSE(in.deleted());
  EXPECT_EQ(program.execute(arguments)[0].to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_TRUE(in.deleted());
}

TEST_F(Failures, OutOfMemoryInAnEventReachesEveryReader) {
  fake().configure("fail=execute_event_oom");
  std::vector<Event> done;
  const Buffer* const arguments[] = {in_.get()};
  const auto out = twice_->execute(arguments, {.done = &done});
  EXPECT_EQ(caught<TPUOutOfMemoryError>([&] { done[0].wait(); }).code(), Code::resource_exhausted);
  (void)caught<TPUOutOfMemoryError>([&] { out[0].wait(); });
  (void)caught<TPUOutOfMemoryError>([&] { (void)out[0].to_vector<float>(); });
  std::atomic<int> told{0};
  out[0].ready().on_ready([&](const std::exception_ptr& error) {
    try {
      if (error) std::rethrow_exception(error);
      told = 1;
    } catch (const TPUOutOfMemoryError&) {
      told = 2;
    }
  });
  while (told == 0) std::this_thread::yield();
  EXPECT_EQ(told, 2);
  const Buffer* const next[] = {&out[0]};
  const auto after = twice_->execute(next);  // what is made of it fails as well
  (void)caught<TPUOutOfMemoryError>([&] { (void)after[0].to_vector<float>(); });
  expect_all_well();
}

TEST_F(Failures, ErrorsInAnEvent) {
  fake().configure("fail=execute_event_error,fail=execute_event_error:after=1:code=UNAVAILABLE");
  EXPECT_EQ(caught<PjrtError>([&] { (void)run()[0].to_vector<float>(); }).code(), Code::internal);
  EXPECT_EQ(caught<TPUDeviceError>([&] { (void)run()[0].to_vector<float>(); }).code(), Code::unavailable);
  expect_all_well();
}

TEST_F(Failures, ALostDevice) {
  fake().configure("fail=device_lost:device=0");
  const auto e = caught<TPUDeviceError>([&] { (void)run(); });
  EXPECT_EQ(e.code(), Code::unavailable);
  EXPECT_THAT(e.message(), HasSubstr("TPU_0"));
  EXPECT_FALSE(e.hint().empty());
  (void)caught<TPUDeviceError>([&] { (void)in_->to_vector<float>(); });
  (void)caught<TPUDeviceError>([&] { (void)floats({1}); });
  (void)caught<TPUDeviceError>([&] { (void)device().memory_stats(); });
  (void)caught<TPUDeviceError>([&] { (void)in_->copy_to(device(1)); });
  EXPECT_EQ(floats({5}, 1).to_vector<float>(), std::vector<float>{5});  // the other one works
  start("fail=none");                                                   // and a new client has both again
  expect_all_well();
}

TEST_F(Failures, ALostDeviceThatAnswersInternal) {
  fake().configure("fail=device_lost:device=0:code=INTERNAL");
  const auto e = caught<TPUDeviceError>([&] { (void)run(); });
  EXPECT_EQ(e.code(), Code::internal);
  EXPECT_THAT(e.hint(), HasSubstr("open it again"));
  start("fail=none");
}

// The fake calls it misuse when the client is destroyed on the thread that calls back.
TEST_F(Failures, TheLastToKnowTheClientMayBeACallback) {
  fake().configure("fail=execute_hang");
  std::atomic<bool> called{false};
  auto out = std::make_shared<std::vector<Buffer>>(run());
  (*out)[0].ready().on_ready([&called, out](const std::exception_ptr&) { called = true; });
  out.reset();
  in_.reset();
  twice_.reset();
  client_.reset();
  EXPECT_EQ(fake().count("live.client"), 1);
  fake().configure("release");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (fake().count("live.topology") > 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(fake().count("live.client"), 0);
  EXPECT_TRUE(called);
}

TEST_F(Failures, AHangCanBeSeenAndLeft) {
  fake().configure("fail=execute_hang");
  auto out = run();
  const Event value = out[0].ready();
  std::vector<float> to(4);
  const Event read = out[0].to_host_async(to.data(), 16);
  EXPECT_FALSE(value.ready());
  EXPECT_FALSE(read.ready());
  expect_all_well();  // other work goes on
  fake().configure("release");
  value.wait();
  read.wait();
  EXPECT_EQ(to, (std::vector<float>{2, 4, 6, 8}));

  fake().configure("fail=execute_hang");
  (void)run();  // given up: the buffer goes before its value comes
}

// With a limit nobody waits for ever, and what comes late is not lost.
TEST_F(Failures, AWaitForADeviceThatHangsEnds) {
  fake().configure("fail=execute_hang");
  const auto out = run();
  set_wait_limit(std::chrono::milliseconds(30));
  std::vector<float> to(4);
  for (const auto& wait : std::vector<std::function<void()>>{
           [&] { out[0].wait(); }, [&] { out[0].ready().wait(); }, [&] { out[0].to_host(to.data(), 16); }}) {
    const auto e = caught<TPUDeviceError>(wait);
    EXPECT_EQ(e.code(), Code::deadline_exceeded);
    EXPECT_THAT(e.what(), HasSubstr("has not answered for 0.03 s"));
    EXPECT_THAT(e.hint(), HasSubstr("TPUBRIDGE_EXECUTE_TIMEOUT"));
  }
  EXPECT_EQ(to, std::vector<float>(4));
  set_wait_limit(std::chrono::minutes(1));
  expect_all_well();
  fake().configure("release");
  out[0].to_host(to.data(), 16);
  EXPECT_EQ(to, (std::vector<float>{2, 4, 6, 8}));
  fake().configure("fail=execute_event_error");
  EXPECT_THROW(run()[0].wait(), Error) << "what went wrong is told, not that it took long";
  set_wait_limit(std::chrono::milliseconds(0));
}

TEST_F(Failures, ACompileThatHangsHoldsUpNobodyElse) {
  fake().configure("fail=compile_hang,fail=compile_slow:after=1:ms=1");
  std::atomic<bool> done{false};
  std::thread compiler([&] {
    (void)client_->compile({doubling(16)});
    done = true;
  });
  while (fake().count("fired.compile_hang") == 0) std::this_thread::yield();
  expect_all_well();
  EXPECT_EQ(client_->compile({doubling(2)}).info().results()[0].str(), "f32[2]");
  EXPECT_FALSE(done);
  while (!done) fake().configure("release");
  compiler.join();
}

TEST_F(Failures, TransfersThatFail) {
  const auto owner = std::make_shared<std::vector<float>>(4, 1.0F);
  const HostArray array{owner->data(), {DType::f32, {4}}, {}};
  fake().configure("fail=buffer_oom");
  const auto e = caught<TPUOutOfMemoryError>(
      [&] { (void)client_->to_device(array, device(), HostSemantics::until_transfer_completes, owner); });
  EXPECT_EQ(e.detail("function"), "PJRT_Client_BufferFromHostBuffer");
  EXPECT_EQ(owner.use_count(), 1);
  fake().configure("fail=from_host_error:code=DATA_LOSS");
  {
    const Buffer bad = client_->to_device(array, device(), HostSemantics::until_transfer_completes, owner);
    EXPECT_EQ(caught<TPUDeviceError>([&] { bad.wait(); }).code(), Code::data_loss);
    (void)caught<TPUDeviceError>([&] { (void)bad.to_vector<float>(); });
  }
  fake().configure("fail=to_host_error");
  EXPECT_EQ(caught<PjrtError>([&] { (void)in_->to_vector<float>(); }).code(), Code::internal);
  expect_all_well();
}

TEST_F(Failures, SerialisationThatWasCorrupted) {
  fake().configure("fail=serialize_flip,fail=serialize_truncate:after=1");
  const std::string flipped = twice_->info().serialize(), cut = twice_->info().serialize(),
                    whole = twice_->info().serialize();
  EXPECT_EQ(caught<PjrtError>([&] { (void)client_->load(flipped); }).code(), Code::internal);
  EXPECT_EQ(caught<PjrtError>([&] { (void)client_->load(cut); }).code(), Code::internal);
  const Buffer* const arguments[] = {in_.get()};
  EXPECT_EQ(client_->load(whole).execute(arguments)[0].to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
}

TEST_F(Failures, TheHbmOfAChip) {
  start("chips=1,hbm_mb=10");
  constexpr int64_t kMega = 1 << 20;
  EXPECT_EQ(device().memory_stats().bytes_limit, 10 * kMega);
  EXPECT_THAT(caught<TPUOutOfMemoryError>([&] { (void)client_->compile({doubling(2 * kMega)}); }).message(),
              HasSubstr("(16.00M) exceeds available HBM (10.00M)"));
  EXPECT_THAT(caught<TPUOutOfMemoryError>([&] { (void)floats(std::vector<float>(3 * kMega)); }).message(),
              HasSubstr("Attempting to allocate 12.00M"));
  const auto program = client_->compile({doubling(kMega)});
  const Buffer in = floats(std::vector<float>(kMega, 1));
  const Buffer* const arguments[] = {&in};
  {
    const auto out = program.execute(arguments);
    (void)caught<TPUOutOfMemoryError>([&] { (void)program.execute(arguments); });
  }
  EXPECT_EQ(program.execute(arguments)[0].to_vector<float>(), std::vector<float>(kMega, 2));  // room again
}

TEST_F(Failures, AClientThatCannotBeMade) {
  fake().configure("fail=client_error");
  const auto e = caught<TPUNotAvailableError>([&] { (void)Client::create(Plugin::load(fake().path())); });
  EXPECT_EQ(e.code(), Code::unavailable);
  EXPECT_THAT(e.message(), HasSubstr("already in use"));
  EXPECT_FALSE(e.hint().empty());
  fake().configure("chips=3,hosts=2");
  EXPECT_EQ(caught<PjrtError>([&] { (void)Client::create(Plugin::load(fake().path())); }).code(),
            Code::invalid_argument);
}

TEST_F(Failures, OfflineCompiles) {
  const auto plugin = Plugin::load(fake().path());
  const Topology topology(plugin, "v6e:2x2");
  EXPECT_EQ(topology.platform_name(), "tpu");
  ASSERT_EQ(topology.devices().size(), 4U);
  EXPECT_EQ(topology.devices()[3].kind, "TPU v6 lite");
  EXPECT_EQ(topology.devices()[3].coords(), (std::vector<int64_t>{1, 1, 0}));
  const Executable program = topology.compile({doubling(1024)}, {});
  EXPECT_EQ(program.memory().arguments, 4096);
  EXPECT_EQ(program.memory().outputs, 4096);
  EXPECT_GT(std::get<float>(program.cost_analysis().at("optimal_seconds")), 0);
  const auto e =
      caught<TPUOutOfMemoryError>([&] { (void)topology.compile({doubling(int64_t{1} << 34)}, {}); });
  EXPECT_THAT(e.message(), HasSubstr("(128.00G) exceeds available HBM (31.24G)"));
  EXPECT_EQ(e.detail("xla_code"), "E1000");
  for (const char* name : {"v7:2x2", "v5e", "v5e:3x5"})
    EXPECT_EQ(caught<PjrtError>([&] { const Topology wrong(plugin, name); }).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace tpubridge::pjrt
