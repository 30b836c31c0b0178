// Errors of control flow, calls, shardings and of programs as a whole.
#include <gtest/gtest.h>

#include "tests/hlo/errors.h"
#include "tpubridge/hlo/hlo.h"

namespace tpubridge::hlo {
namespace {

using In = std::span<const Value>;
const Body kFirst = [](In a) -> Values { return {a[0]}; };

class ProgramErrors : public testing::Test {
 protected:
  Builder b{{.name = "m", .partitions = 8, .meshes = {{"mesh", {{"x", 2}, {"y", 4}}}}}};
  Value m = b.parameter({DType::f32, {2, 3}}), s = b.parameter({DType::f32, {}}),
        i = b.parameter({DType::s32, {}}), p = b.parameter({DType::pred, {}});
};

TEST_F(ProgramErrors, ControlFlow) {
  const Body yes = [&](In) -> Values { return {p}; };
  expect_error([&] { (void)while_({}, yes, kFirst); }, {"stablehlo.while", "at least one"});
  expect_error([&] { (void)while_({m}, kFirst, kFirst); },
               {"stablehlo.while", "condition", "given=f32[2,3]", "needed=pred[]"});
  expect_error([&] { (void)while_({m}, yes, [&](In) -> Values { return {s}; }); },
               {"stablehlo.while", "body", "f32[]", "f32[2,3]"});
  expect_error([&] { (void)if_(s, yes, yes); }, {"stablehlo.if", "pred scalar", "f32[]"});
  expect_error([&] { (void)if_(p, yes, [&](In) -> Values { return {m}; }); },
               {"stablehlo.if", "branch 1", "f32[2,3]", "pred[]"});
  expect_error([&] { (void)if_(p, yes, [](In) -> Values { return {}; }); },
               {"stablehlo.if", "branch 1", "0 values"});
  expect_error([&] { (void)case_(i, {}); }, {"stablehlo.case", "at least one"});
  expect_error([&] { (void)case_(s, {yes}); }, {"stablehlo.case", "s32 scalar", "f32[]"});
  expect_error([&] { (void)after_all(b, {m}); }, {"stablehlo.after_all", "tokens", "f32[2,3]"});
  expect_error([&] { (void)add(after_all(b, {}), after_all(b, {})); }, {"stablehlo.add", "token"});
  expect_error(
      [&] {
        (void)rng_bit_generator(m, {DType::u32, {2}}, RngAlgorithm::philox);
      },
      {"stablehlo.rng_bit_generator", "u64[2]", "f32[2,3]"});
  const Value three = b.parameter({DType::u64, {3}});
  expect_error(
      [&] {
        (void)rng_bit_generator(three, {DType::u32, {2}}, RngAlgorithm::three_fry);
      },
      {"stablehlo.rng_bit_generator", "u64[3]"});
  expect_error(
      [&] {
        (void)rng_bit_generator(three, {DType::pred, {2}}, RngAlgorithm::philox);
      },
      {"stablehlo.rng_bit_generator", "pred[2]"});
}

TEST_F(ProgramErrors, FunctionsAndComposites) {
  const Function& f = b.function("f", {{DType::f32, {2, 3}}}, kFirst);
  expect_error([&] { (void)call(b, f, {s}); }, {"func.call", "'f'", "operand=f32[]", "parameter=f32[2,3]"});
  expect_error([&] { (void)call(b, f, {}); }, {"func.call", "0 entries, 1 are needed"});
  expect_error([&] { (void)b.function("f", {}, kFirst); }, {"func.func", "'f' already"});
  expect_error([&] { (void)b.function("main", {}, kFirst); }, {"func.func", "'main'"});
  expect_error([&] { (void)b.function("a b", {}, kFirst); }, {"func.func", "'a b' is not a name"});
  expect_error([&] { (void)b.function("g", {}, [&](In) -> Values { return {m}; }); },
               {"func.return", "cannot be seen"});
  Builder other;
  expect_error([&] { (void)call(other, f, {}); }, {"func.call", "another program"});
  expect_error([&] { (void)composite(b, "gelu", f, {m}); }, {"stablehlo.composite", "'gelu'", "dot"});
  expect_error([&] { (void)composite(b, "a.b", f, {m}, {}, -1); }, {"stablehlo.composite", "-1"});
  expect_error([&] { (void)composite(b, "a.b", f, {s}); }, {"stablehlo.composite", "f32[]", "f32[2,3]"});
}

TEST_F(ProgramErrors, CustomCalls) {
  using Api = CustomCall::Api;
  const Shape out{DType::f32, {2, 3}};
  const auto expect = [&](const CustomCall& o, std::initializer_list<const char*> parts) {
    expect_error([&] { (void)custom_call(b, {m}, {out}, o); }, parts);
  };
  expect({.target = ""}, {"stablehlo.custom_call", "target"});
  expect({.target = "t", .api = static_cast<Api>(9)}, {"API version 9"});
  expect({.target = "t", .attributes = {{"a", true}}}, {"typed_ffi"});
  expect({.target = "t", .api = Api::typed_ffi, .backend_config = "x"}, {"typed_ffi"});
  expect({.target = "t", .operand_layouts = {{0, 1}}}, {"result layouts"});
  expect({.target = "t", .operand_layouts = {{0, 0}}, .result_layouts = {{0, 1}}},
         {"operand_layouts", "twice"});
  expect({.target = "t", .operand_layouts = {{0, 1}}, .result_layouts = {{0}}},
         {"entry 0 of result_layouts"});
  expect({.target = "t", .aliases = {{1, 0}}}, {"no result 1"});
  expect({.target = "t", .called = {"nobody"}}, {"'nobody'"});
  expect({.target = "t", .frontend_attributes = {{"a", true}}}, {"'a' is no string"});
  expect_error(
      [&] {
        (void)custom_call(b, {s}, {out}, {.target = "t", .aliases = {{0, 0}}});
      },
      {"f32[2,3]", "f32[]"});
}

TEST_F(ProgramErrors, Shardings) {
  const auto expect = [&](const Sharding& sharding, std::initializer_list<const char*> parts) {
    expect_error([&] { (void)sharding_constraint(m, sharding); }, parts);
    expect_error([&] { (void)b.parameter(m.shape(), {.sharding = sharding}); }, parts);
  };
  expect({"nomesh", {{}, {}}}, {"'nomesh'"});
  expect({"mesh", {{"x"}}}, {"1 dimensions", "rank 2", "f32[2,3]"});
  expect({"mesh", {{"z"}, {}}}, {"no axis 'z'"});
  expect({"mesh", {{"x"}, {"x"}}}, {"'x' twice"});
  expect({"mesh", {{"x"}, {}}, false, {"x"}}, {"'x' twice"});
  expect_error([&] { (void)mhlo_sharding_constraint(m, "devices"); }, {"'devices' is not a sharding"});
  const auto mesh = [](Mesh mesh) { Builder({.meshes = {std::move(mesh)}}); };
  expect_error([&] { mesh({"a b", {}}); }, {"sdy.mesh", "'a b'"});
  expect_error([&] { mesh({"m", {{"x", 0}}}); }, {"sdy.mesh", "size 0"});
  expect_error([&] { mesh({"m", {{"x", 2}, {"x", 2}}}); }, {"sdy.mesh", "two axes named 'x'"});
  expect_error([&] { mesh({"m", {{"", 2}}}); }, {"sdy.mesh", "no name"});
  expect_error([&] { mesh({"m", {{"x", 2}}, {0, 2}}); }, {"sdy.mesh", "[0,2]"});
  expect_error([&] { mesh({"m", {{"x", 2}}, {0}}); }, {"sdy.mesh", "1 entries, 2"});
  expect_error(
      [] {
        Builder({.meshes = {{"m", {{"x", 2}}}, {"m", {{"x", 2}}}}});
      },
      {"sdy.mesh", "'m' is declared twice"});
}

TEST_F(ProgramErrors, WholePrograms) {
  expect_error([] { Builder({.name = "a-b"}); }, {"'a-b' is not a name"});
  expect_error([] { Builder({.replicas = 0}); }, {"0 replicas"});
  expect_error([&] { (void)add(Value(), m); }, {"empty"});
  expect_error([&] { (void)add(m, Value()); }, {"empty"});
  Builder other;
  const Value theirs = other.parameter(m.shape());
  expect_error([&] { (void)add(m, theirs); }, {"stablehlo.add", "two different programs"});
  expect_error(
      [&] {
        (void)concatenate({m, theirs}, 0);
      },
      {"stablehlo.concatenate", "another program", "f32[2,3]"});
  Value escaped;
  (void)if_(
      p, [&](In) -> Values { return {escaped = negate(m)}; }, [&](In) -> Values { return {m}; });
  expect_error([&] { (void)tanh(escaped); }, {"stablehlo.tanh", "cannot be seen", "f32[2,3]"});
  expect_error([&] { (void)b.finish({escaped}); }, {"func.return", "cannot be seen"});
  expect_error(
      [&] {
        (void)if_(
            p,
            [&](In) -> Values {
              (void)b.finish({m});
              return {};
            },
            kFirst);
      },
      {"inside a region"});
  expect_error([&] { (void)b.finish({m}, {{}, {}}); }, {"result attributes has 2"});
  expect_error([&] { LocationScope(b, {}); }, {"loc", "name or a file"});
  (void)b.finish({m});
  expect_error([&] { (void)tanh(m); }, {"stablehlo.tanh", "finished"});
  expect_error([&] { (void)b.parameter(m.shape()); }, {"finished"});
  expect_error([&] { (void)b.finish({m}); }, {"finished"});
}

TEST_F(ProgramErrors, Donation) {
  const auto finish = [](int64_t first, int64_t second) {
    Builder b;
    const Value x = b.parameter({DType::f32, {2}}, {.alias_result = first});
    const Value y = b.parameter({DType::f32, {2}}, {.alias_result = second});
    (void)b.finish({add(x, y), constant(b, DType::f32, 1)});
  };
  expect_error([&] { finish(0, 2); }, {"result 2", "there are 2", "f32[2]"});
  expect_error([&] { finish(0, -1); }, {"result -1"});
  expect_error([&] { finish(0, 0); }, {"two parameters", "result 0"});
  expect_error([&] { finish(0, 1); }, {"result 1", "parameter=f32[2]", "result=f32[]"});
}

}  // namespace
}  // namespace tpubridge::hlo
