#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/pjrt/cpu.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::pjrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class E>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "nothing was thrown";
}

class Execute : public testing::Test {
 protected:
  const Device& d0 = *cpu()->addressable_devices()[0];
  Buffer vector(std::vector<float> values, std::vector<int64_t> dims) const {
    return cpu()->to_device(values, {DType::f32, std::move(dims)}, d0);
  }
};

TEST_F(Execute, AddsTwoArrays) {
  const auto program = cpu()->compile({kAdd});
  const Buffer a = vector({1, 2, 3, 4, 5, 6}, {2, 3}), b = vector({10, 20, 30, 40, 50, 60}, {2, 3});
  const Buffer* args[] = {&a, &b};
  const auto out = program.execute(args);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].shape().str(), "f32[2,3]");
  EXPECT_THAT(out[0].to_vector<float>(), ElementsAre(11, 22, 33, 44, 55, 66));
}

TEST_F(Execute, SignatureIsReadOffTheCompiledProgram) {
  const auto program = cpu()->compile({kDonateFirst});
  ASSERT_TRUE(program.signature().has_value());
  const Signature& s = *program.signature();
  ASSERT_EQ(s.parameters.size(), 2u);
  EXPECT_EQ(s.parameters[0].str(), "f32[4]");
  ASSERT_EQ(s.results.size(), 2u);
  EXPECT_EQ(s.results[1].str(), "s32[]");
  EXPECT_THAT(s.donated, ElementsAre(true, false));
  EXPECT_EQ(program.info().results(), s.results);
}

TEST_F(Execute, DonatedInputIsDeletedAndItsMemoryReused) {
  const auto program = cpu()->compile({kDonateFirst});
  const Buffer a = vector({1, 2, 3, 4}, {4}), b = vector({2, 2, 2, 2}, {4});
  a.wait();
  const uintptr_t before = a.unsafe_pointer();
  const Buffer* args[] = {&a, &b};
  const auto out = program.execute(args);
  EXPECT_THAT(out[0].to_vector<float>(), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(out[1].to_vector<int32_t>(), ElementsAre(7));
  EXPECT_EQ(out[0].unsafe_pointer(), before);
  EXPECT_TRUE(a.deleted());
  EXPECT_FALSE(b.deleted());
  EXPECT_THAT(message_of<ArgumentError>([&] { static_cast<void>(program.execute(args)); }),
              HasSubstr("argument 0 was deleted or donated"));
  EXPECT_THAT(message_of<ArgumentError>([&] { static_cast<void>(a.to_vector<float>()); }),
              HasSubstr("donated"));
}

TEST_F(Execute, NotDonatableKeepsTheInput) {
  const auto program = cpu()->compile({kDonateFirst});
  const Buffer a = vector({1, 2, 3, 4}, {4}), b = vector({3, 3, 3, 3}, {4});
  const Buffer* args[] = {&a, &b};
  const int64_t keep[] = {0};
  const auto out = program.execute(args, {.not_donatable = keep});
  EXPECT_THAT(out[0].to_vector<float>(), ElementsAre(3, 6, 9, 12));
  EXPECT_THAT(a.to_vector<float>(), ElementsAre(1, 2, 3, 4));
}

TEST_F(Execute, WrongArgumentsAreRefusedBeforeTheCall) {
  const auto program = cpu()->compile({kAdd});
  const Buffer good = vector({1, 2, 3, 4, 5, 6}, {2, 3}), turned = vector({1, 2, 3, 4, 5, 6}, {3, 2});
  const Buffer ints = cpu()->to_device(std::vector<int32_t>(6), {DType::s32, {2, 3}}, d0);
  const Buffer elsewhere = good.copy_to(*cpu()->addressable_devices()[1]);
  const auto run = [&](std::vector<const Buffer*> args) {
    return message_of<ArgumentError>([&] { static_cast<void>(program.execute(args)); });
  };
  EXPECT_THAT(run({&good}), HasSubstr("takes 2 arguments, 1 were given"));
  EXPECT_THAT(run({&good, nullptr}), HasSubstr("argument 1 is null"));
  EXPECT_THAT(run({&turned, &good}), HasSubstr("argument 0 is f32[3,2], the program takes f32[2,3]"));
  EXPECT_THAT(run({&good, &ints}), HasSubstr("argument 1 is s32[2,3], the program takes f32[2,3]"));
  EXPECT_THAT(run({&good, &elsewhere}), HasSubstr("argument 1 is on device 1, the program runs on device 0"));
  const auto other = Client::create(Plugin::load(CPU_PLUGIN), {{"cpu_device_count", int64_t{1}}});
  const Buffer foreign = other->to_device(std::vector<float>(6), {DType::f32, {2, 3}}, other->devices()[0]);
  EXPECT_THAT(run({&good, &foreign}), HasSubstr("another client"));
}

TEST_F(Execute, ErrorsThatComeByEventReachTheCaller) {
  // A terabyte of temporaries: Execute itself says OK.
  const auto program = cpu()->compile({R"(module {
  func.func @main(%a: tensor<f32>) -> tensor<1xf32> {
    %0 = stablehlo.iota dim = 0 : tensor<274877906944xf32>
    %1 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<274877906944xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<274877906944xf32>
    %3 = "stablehlo.sort"(%2) <{dimension = 0 : i64}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
    }) : (tensor<274877906944xf32>) -> tensor<274877906944xf32>
    %4 = stablehlo.slice %3 [0:1] : (tensor<274877906944xf32>) -> tensor<1xf32>
    return %4 : tensor<1xf32>
  } })"});
  const Buffer a = vector({1}, {});
  const Buffer* args[] = {&a};
  const std::string said = message_of<TPUBackendError>([&] {
    std::vector<Event> done;
    const auto out = program.execute(args, {.done = &done});
    static_cast<void>(out[0].to_vector<float>());
  });
  EXPECT_THAT(said, testing::AnyOf(HasSubstr("memory"), HasSubstr("allocate")));
  EXPECT_THAT(a.to_vector<float>(), ElementsAre(1));  // nothing else is lost
}

TEST_F(Execute, ATerabyteOfOutputIsOutOfMemory) {
  const auto program = cpu()->compile({R"(module {
  func.func @main(%a: tensor<f32>) -> tensor<524288x524288xf32> {
    %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<524288x524288xf32>
    return %0 : tensor<524288x524288xf32>
  } })"});
  const Buffer a = vector({1}, {});
  const Buffer* args[] = {&a};
  EXPECT_THROW(static_cast<void>(program.execute(args)), TPUOutOfMemoryError);
}

TEST_F(Execute, CompletionEventCallsBack) {
  const auto program = cpu()->compile({kAdd});
  const Buffer a = vector({1, 2, 3, 4, 5, 6}, {2, 3});
  const Buffer* args[] = {&a, &a};
  std::vector<Event> done;
  const auto out = program.execute(args, {.done = &done});
  ASSERT_EQ(done.size(), 1u);
  std::atomic<int> calls{0};
  std::exception_ptr error;
  done[0].on_ready([&](std::exception_ptr e) {
    error = e;
    ++calls;
  });
  done[0].wait();
  while (calls == 0) std::this_thread::yield();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(error, nullptr);
  EXPECT_TRUE(done[0].ready());
}

// Nobody but the callback knows the client when the run ends on one of the plugin's threads.
TEST_F(Execute, AClientThatACallbackLetsGo) {
  struct NoStore : KeyValueStore {
    std::string get(const std::string&, std::chrono::milliseconds) override { return {}; }
    std::optional<std::string> try_get(const std::string&) override { return std::nullopt; }
    void put(const std::string&, const std::string&) override {}
  };
  auto store = std::make_shared<NoStore>();
  const std::weak_ptr<NoStore> alive = store;  // held until the client is destroyed
  {
    const auto client = Client::create(Plugin::load(CPU_PLUGIN), {}, std::move(store));
    const auto program = client->compile({R"(func.func @main(%a: tensor<600x600xf32>) -> tensor<600x600xf32> {
  %0 = stablehlo.dot %a, %a : (tensor<600x600xf32>, tensor<600x600xf32>) -> tensor<600x600xf32>
  %1 = stablehlo.dot %0, %0 : (tensor<600x600xf32>, tensor<600x600xf32>) -> tensor<600x600xf32>
  return %1 : tensor<600x600xf32> })"});
    const Buffer a = client->to_device(std::vector<float>(600 * 600), {DType::f32, {600, 600}},
                                       *client->addressable_devices()[0]);
    const Buffer* args[] = {&a};
    auto out = std::make_shared<std::vector<Buffer>>(program.execute(args));
    (*out)[0].ready().on_ready([out](const std::exception_ptr& error) { EXPECT_EQ(error, nullptr); });
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!alive.expired() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(alive.expired());
}

TEST_F(Execute, RunsOnAChosenDevice) {
  const auto program = cpu()->compile({kAdd}, {.devices = {2}});
  ASSERT_EQ(program.devices().size(), 1u);
  const Device& d2 = cpu()->device(2);
  EXPECT_EQ(program.devices()[0], &d2);
  const Buffer a = cpu()->to_device(std::vector<float>{1, 2, 3, 4, 5, 6}, {DType::f32, {2, 3}}, d2);
  const Buffer* args[] = {&a, &a};
  const auto out = program.execute(args);
  EXPECT_EQ(out[0].device().id(), 2);
  EXPECT_THAT(out[0].to_vector<float>(), ElementsAre(2, 4, 6, 8, 10, 12));
}

TEST_F(Execute, AllReduceOverFourDevices) {
  const auto program = cpu()->compile({R"(module attributes {mhlo.num_replicas = 4 : i32} {
  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  } })"},
                                      {.num_replicas = 4});
  ASSERT_EQ(program.devices().size(), 4u);
  std::vector<Buffer> inputs;
  std::vector<std::vector<const Buffer*>> lists;
  for (int i = 0; i < 4; ++i)
    inputs.push_back(cpu()->to_device(std::vector<float>{float(i), 10.f * float(i)}, {DType::f32, {2}},
                                      *program.devices()[size_t(i)]));
  for (const Buffer& b : inputs) lists.push_back({&b});
  const auto out = program.execute_all(lists);
  ASSERT_EQ(out.size(), 4u);
  for (const auto& one : out) EXPECT_THAT(one[0].to_vector<float>(), ElementsAre(6, 60));
  // A missing participant would abort the process; it is refused.
  lists.pop_back();
  EXPECT_THAT(message_of<ArgumentError>([&] { static_cast<void>(program.execute_all(lists)); }),
              HasSubstr("runs on 4 devices of this process, arguments for 3 were given"));
  EXPECT_THAT(message_of<ArgumentError>([&] { static_cast<void>(program.execute(lists[0])); }),
              HasSubstr("execute_all"));
}

TEST_F(Execute, EightThreadsCompileAndExecute) {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      const auto program = cpu()->compile({kAdd});
      for (int i = 0; i < 50; ++i) {
        const Buffer a = vector(std::vector<float>(6, float(t)), {2, 3}),
                     b = vector(std::vector<float>(6, float(i)), {2, 3});
        const Buffer* args[] = {&a, &b};
        const auto out = program.execute(args);
        if (out[0].to_vector<float>() == std::vector<float>(6, float(t + i))) ++good;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(good, 8 * 50);
}

}  // namespace
}  // namespace tpubridge::pjrt
