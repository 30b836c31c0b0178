// Control flow, calls, composites, barriers and tokens.
#pragma once

#include <string>

#include "tpubridge/hlo/attributes.h"
#include "tpubridge/hlo/builder.h"
#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

// Bodies of these three may use values from outside.
// `cond` gets the carried values and gives a pred scalar; `body` gives the next ones, of the same types.
[[nodiscard]] Values while_(List<Value> inits, const Body& cond, const Body& body);
// Branches get nothing and give values of the same types.
[[nodiscard]] Values if_(Value pred, const Body& on_true, const Body& on_false);
// `index` is an s32 scalar; outside of the branches it means the last.
[[nodiscard]] Values case_(Value index, List<Body> branches);

// The values, which no optimisation moves across this place: all are computed before any is used.
[[nodiscard]] Values optimization_barrier(List<Value> values);
[[nodiscard]] inline Value optimization_barrier(Value x) { return optimization_barrier(List<Value>{x})[0]; }

[[nodiscard]] Values call(Builder& b, const Function& callee, List<Value> operands);
// One op by name ("aten.gelu"), for compilers that know it; `decomposition` says what it means to the others.
[[nodiscard]] Values composite(Builder& b, const std::string& name, const Function& decomposition,
                               List<Value> operands, const Attributes& attributes = {}, int64_t version = 0);

// A token of everything before; after_all({}) is a fresh one.
[[nodiscard]] Value after_all(Builder& b, List<Value> tokens);

}  // namespace tpubridge::hlo
