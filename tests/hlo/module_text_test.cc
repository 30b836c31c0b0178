// Modules that others wrote, as functions of a program: their names, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/hlo/module_text.h"

namespace tpubridge::hlo {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kTwo = R"x(#map = affine_map<(d0) -> (d0)>
#loc1 = loc("/a/path.py":1:2)
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32> {tf.aliasing_output = 0 : i32} loc("x")) -> (tensor<2xf32> {a = "}"}) {
    %0 = call @"odd name"(%arg0) : (tensor<2xf32>) -> tensor<2xf32> loc(#loc1)
    %1 = stablehlo.custom_call @other(%0) {map = #map, text = "@main #map // \" )"} : (tensor<2xf32>) -> tensor<2xf32>  // @main
    return %1 : tensor<2xf32>
  } loc(#loc1)
  func.func private @"odd name"(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    return %arg0 : tensor<2xf32>
  }
}
)x";

std::string merged(const std::string& text) {
  const auto module = ModuleText::parse(text);
  Builder b;
  const Value x = b.parameter(module.parameters()[0]);
  const Values once = call(b, module.add_to(b, "mine"), {x});
  return b.finish(call(b, module.add_to(b, "mine"), once));
}

TEST(ModuleText, NamesGetAPrefixStringsStayAndLocationsGo) {
  const std::string text = merged(kTwo);
  EXPECT_THAT(text, HasSubstr("func.func private @mine(%arg0: tensor<2xf32>) -> (tensor<2xf32>)"));
  EXPECT_THAT(text, HasSubstr(R"(call @"mine_odd name"(%arg0))"));
  EXPECT_THAT(text, HasSubstr(R"(func.func private @"mine_odd name"(%arg0)"));
  EXPECT_THAT(text, HasSubstr("map = #mine_map, text = \"@main #map // \\\" )\""));
  EXPECT_THAT(text, HasSubstr("#mine_map = affine_map<(d0) -> (d0)>"));
  EXPECT_THAT(text, HasSubstr("@other("));
  EXPECT_THAT(text, Not(HasSubstr("path.py")));
  EXPECT_THAT(text, Not(HasSubstr("tf.aliasing_output")));
  EXPECT_EQ(text.find("private @mine("), text.rfind("private @mine("));  // once
}

TEST(ModuleText, TellsTheSignatureAndTheTargets) {
  const auto module = ModuleText::parse(kTwo);
  EXPECT_EQ(module.parameters(), (std::vector<Shape>{{DType::f32, {2}}}));
  EXPECT_EQ(module.results(), (std::vector<Shape>{{DType::f32, {2}}}));
  EXPECT_EQ(module.custom_calls(), std::vector<std::string>{"other"});
  EXPECT_EQ(ModuleText::parse(R"(func.func @main() -> tensor<i1> {
    %0 = "stablehlo.custom_call"() <{call_target_name = "generic"}> : () -> tensor<i1> return %0 : tensor<i1> })")
                .custom_calls(),
            std::vector<std::string>{"generic"});
}

TEST(ModuleText, WhatCannotBeTakenInIsRefusedWithItsLine) {
  const auto problem = [](const std::string& text) -> std::string {
    try {
      (void)ModuleText::parse(text);
    } catch (const ProgramError& e) {
      return e.what();
    }
    return "taken";
  };
  const std::string body = "{ return %a : tensor<2xf32> }";
  EXPECT_THAT(problem(""), HasSubstr("no function @main"));
  EXPECT_THAT(problem("ML\xefR…"), HasSubstr("bytecode"));
  EXPECT_THAT(problem("HloModule f"), HasSubstr("HLO text"));
  EXPECT_THAT(problem("func.func @main(%a: tensor<?xf32>) -> tensor<2xf32> " + body),
              HasSubstr("fixed shape"));
  EXPECT_THAT(problem("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32>"), HasSubstr("no body"));
  EXPECT_THAT(problem("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { "), HasSubstr("not closed"));
  EXPECT_THAT(problem("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { ] }"),
              HasSubstr("closes nothing"));
  EXPECT_THAT(problem("\n\n  \"open"), HasSubstr("line=3"));
  EXPECT_THAT(problem(std::string(300, '(')), HasSubstr("deep"));
  EXPECT_THAT(problem("module attributes {mhlo.num_partitions = 4 : i32} { }"), HasSubstr("several devices"));
  EXPECT_THAT(problem("module { sdy.mesh @m = <[]> }"), HasSubstr("'sdy.mesh'"));
  EXPECT_THAT(problem("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> " + body +
                      "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> " + body),
              HasSubstr("two functions"));
  EXPECT_THAT(problem("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { \"stablehlo.recv\"() }"),
              HasSubstr("wait for ever"));
  EXPECT_EQ(problem("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> " + body), "taken");
}

}  // namespace
}  // namespace tpubridge::hlo
