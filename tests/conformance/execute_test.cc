// Running: values, donation, completion, refusals.
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tests/conformance/conformance.h"

namespace tpubridge::pjrt {
namespace {

using testing::HasSubstr;

class Running : public Conformance {};
INSTANTIATE_TEST_SUITE_P(Plugin, Running, testing::ValuesIn(plugins_under_test()), plugin_name);

TEST_P(Running, SeveralResultsInTheirOrder) {
  const auto program = client().compile({kAddSub});
  const Buffer a = floats({1, 2, 3, 4}), b = floats({4, 3, 2, 1});
  const Buffer* const arguments[] = {&a, &b};
  for (int round = 0; round < 3; ++round) {  // a program runs more than once, its arguments stay
    const auto out = program.execute(arguments);
    ASSERT_EQ(out.size(), 2U);
    EXPECT_EQ(out[0].to_vector<float>(), (std::vector<float>{5, 5, 5, 5}));
    EXPECT_EQ(out[1].to_vector<float>(), (std::vector<float>{-3, -1, 1, 3}));
    EXPECT_EQ(&out[0].device(), &device());
    EXPECT_EQ(out[1].shape().str(), "f32[4]");
  }
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(Running, AProgramWithoutArguments) {
  const auto program =
      client().compile({"func.func @main() -> tensor<5xi32> { %0 = stablehlo.iota dim = 0 : tensor<5xi32> "
                        "return %0 : tensor<5xi32> }"});
  const auto out = program.execute({});
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 2, 3, 4}));
}

TEST_P(Running, AMatrixProduct) {
  constexpr int kRows = 5, kInner = 7, kColumns = 3;
  std::vector<float> a(kRows * kInner), b(kInner * kColumns), expected(kRows * kColumns);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 11) - 5;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c)
      for (int k = 0; k < kInner; ++k)
        expected[static_cast<size_t>(r * kColumns + c)] +=
            a[static_cast<size_t>(r * kInner + k)] * b[static_cast<size_t>(k * kColumns + c)];
  const auto program = client().compile(
      {"func.func @main(%a: tensor<5x7xf32>, %b: tensor<7x3xf32>) -> tensor<5x3xf32> {\n"
       "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
       "(tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>\n  return %0 : tensor<5x3xf32>\n}"});
  const Buffer left = floats(a, {kRows, kInner}), right = floats(b, {kInner, kColumns});
  const Buffer* const arguments[] = {&left, &right};
  EXPECT_EQ(program.execute(arguments)[0].to_vector<float>(),
            expected);  // small whole numbers: exact everywhere
}

TEST_P(Running, ADonatedArgumentIsGone) {
  const auto program = client().compile({kDonating});
  const Buffer a = floats({1, 2, 3, 4}), b = floats({2, 2, 2, 2});
  const Buffer* const arguments[] = {&a, &b};
  const auto out = program.execute(arguments);
  EXPECT_EQ(out[0].to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_TRUE(a.deleted());
  EXPECT_FALSE(b.deleted());
  EXPECT_THAT(thrown<ArgumentError>([&] { (void)program.execute(arguments); }), HasSubstr("donated"));
  EXPECT_THAT(thrown<ArgumentError>([&] { (void)a.to_vector<float>(); }), HasSubstr("donated"));
}

TEST_P(Running, WhatMayNotBeDonatedStays) {
  const auto program = client().compile({kDonating});
  const Buffer a = floats({1, 2, 3, 4}), b = floats({3, 3, 3, 3});
  const Buffer* const arguments[] = {&a, &b};
  const int64_t keep[] = {0};
  const auto out = program.execute(arguments, {.not_donatable = keep});
  EXPECT_EQ(out[0].to_vector<float>(), (std::vector<float>{3, 6, 9, 12}));
  EXPECT_FALSE(a.deleted());
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(Running, WrongArgumentsAreRefusedBeforeTheCall) {
  const auto program = client().compile({kAddSub});
  const Buffer a = floats({1, 2, 3, 4}), wide = floats({1, 2, 3, 4}, {2, 2});
  const Buffer whole = client().to_device(std::vector<int32_t>{1, 2, 3, 4}, {DType::s32, {4}}, device());
  Buffer gone = floats({1, 2, 3, 4});
  gone.erase();
  const auto refused = [&](const std::vector<const Buffer*>& arguments) {
    return thrown<ArgumentError>([&] { (void)program.execute(arguments); });
  };
  EXPECT_THAT(refused({&a, nullptr}), HasSubstr("argument 1 is null"));
  EXPECT_THAT(refused({&a, &gone}), HasSubstr("deleted"));
  if (program.signature()) {
    EXPECT_THAT(refused({&a}), HasSubstr("2 arguments, 1"));
    EXPECT_THAT(refused({&a, &a, &a}), HasSubstr("2 arguments, 3"));
    EXPECT_THAT(refused({&a, &wide}), HasSubstr("f32[2,2]"));
    EXPECT_THAT(refused({&whole, &a}), HasSubstr("s32[4]"));
  }
  if (device_count() > 1) {
    const Buffer elsewhere = floats({1, 2, 3, 4}, {4}, 1);
    EXPECT_THAT(refused({&a, &elsewhere}), HasSubstr("device"));
  }
  const Buffer* const fine[] = {&a, &a};
  EXPECT_EQ(program.execute(fine)[0].to_vector<float>(),
            (std::vector<float>{2, 4, 6, 8}));  // nothing was lost
}

TEST_P(Running, CompletionComesByEventAndByCallback) {
  const auto program = client().compile({heavy(20)});
  const Buffer in = floats(std::vector<float>(64 * 64, 1), {64, 64});
  const Buffer* const arguments[] = {&in};
  std::vector<Event> done;
  const auto out = program.execute(arguments, {.done = &done});
  ASSERT_EQ(done.size(), 1U);
  std::mutex lock;
  std::condition_variable changed;
  int good = 0, bad = 0;
  const auto note = [&](const std::exception_ptr& error) {
    const std::lock_guard guard(lock);
    ++(error ? bad : good);
    changed.notify_all();
  };
  out[0].ready().on_ready(note);  // the event itself is gone at once
  done[0].on_ready(note);
  done[0].wait();
  out[0].wait();
  EXPECT_TRUE(done[0].ready());
  EXPECT_TRUE(out[0].ready().ready());
  std::unique_lock guard(lock);
  EXPECT_TRUE(changed.wait_for(guard, std::chrono::seconds(60), [&] { return good + bad == 2; }));
  EXPECT_EQ(good, 2);
  guard.unlock();
  done[0].on_ready(note);  // ready already: called all the same
  EXPECT_TRUE((guard.lock(), changed.wait_for(guard, std::chrono::seconds(60), [&] { return good == 3; })));
  EXPECT_EQ(out[0].to_vector<float>(), std::vector<float>(64 * 64, 1));  // 64 times 1, by 64, stays 1
}

TEST_P(Running, APortableProgramRunsOnAnyDevice) {
  const auto program = client().compile({kAddSub}, {.portable = true});
  for (size_t d = 0; d < device_count(); ++d) {
    const Buffer a = floats({1, 2, 3, 4}, {4}, d);
    const Buffer* const arguments[] = {&a, &a};
    const auto out = program.execute(arguments, {.device = &device(d)});
    EXPECT_EQ(&out[0].device(), &device(d));
    EXPECT_EQ(out[0].to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
  }
}

TEST_P(Running, ReplicasAddUpOverTheirDevices) {
  if (device_count() < 2) GTEST_SKIP() << "one device";
  const auto program = client().compile({R"(module {
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }
  })"},
                                        {.num_replicas = 2, .devices = {device(0).id(), device(1).id()}});
  const Buffer a = floats({1, 2}, {2}, 0), b = floats({10, 20}, {2}, 1);
  const std::vector<const Buffer*> lists[] = {{&a}, {&b}};
  const auto out = program.execute_all(lists);
  ASSERT_EQ(out.size(), 2U);
  for (const auto& each : out) EXPECT_EQ(each[0].to_vector<float>(), (std::vector<float>{11, 22}));
  const std::vector<const Buffer*> one[] = {{&a}};
  EXPECT_THAT(thrown<ArgumentError>([&] { (void)program.execute_all(one); }), HasSubstr("2 devices"));
  const Buffer* const alone[] = {&a};
  EXPECT_THAT(thrown<ArgumentError>([&] { (void)program.execute(alone); }), HasSubstr("2 devices"));
}

// A terabyte of temporaries: refused at compile, at execute or in the event, but never passed over.
TEST_P(Running, WhatCannotFitIsSaid) {
  const std::string t = "tensor<274877906944xf32>";
  const std::string text =
      "func.func @main(%a: tensor<f32>) -> tensor<1xf32> {\n  %0 = stablehlo.iota dim = 0 : " + t +
      "\n  %1 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> " + t +
      "\n  %2 = stablehlo.multiply %0, %1 : " + t +
      "\n  %3 = \"stablehlo.sort\"(%2) <{dimension = 0 : i64}> ({\n  ^bb0(%x: tensor<f32>, %y: "
      "tensor<f32>):\n"
      "    %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
      "    stablehlo.return %c : tensor<i1>\n  }) : (" +
      t + ") -> " + t + "\n  %4 = stablehlo.slice %3 [0:1] : (" + t +
      ") -> tensor<1xf32>\n  return %4 : tensor<1xf32>\n}";
  const Buffer a = floats({1}, {});
  const Buffer* const arguments[] = {&a};
  const std::string said = thrown<TPUBackendError>([&] {
    const auto program = client().compile({text});
    const auto out = program.execute(arguments);
    (void)out[0].to_vector<float>();
  });
  EXPECT_THAT(said, testing::AnyOf(HasSubstr("memory"), HasSubstr("allocat")));
  EXPECT_EQ(a.to_vector<float>(), std::vector<float>{1});
}

}  // namespace
}  // namespace tpubridge::pjrt
