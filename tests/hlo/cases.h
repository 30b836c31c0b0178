// One small case per op and per way of using it. A case takes its inputs and expected results from
// tests/data/hlo_reference.json, made by reference.py with numpy, scipy and JAX; cases of one family go into
// one module.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tpubridge/hlo/hlo.h"

namespace tpubridge::hlo {

using In = std::span<const Value>;

struct Case {
  std::string name;  // as in the reference file; several cases may share an op
  std::function<Values(Builder&, In)> build;
};

struct Family {
  std::string name;
  std::vector<Case> cases;
  bool tpu = true;  // whether the TPU compiler takes it (f64: by emulation, after minutes)
};

inline Case one(std::string name, Value (*f)(Value)) {
  return {std::move(name), [f](Builder&, In in) -> Values { return {f(in[0])}; }};
}
inline Case two(std::string name, Value (*f)(Value, Value)) {
  return {std::move(name), [f](Builder&, In in) -> Values { return {f(in[0], in[1])}; }};
}

Family unary_cases();
Family binary_cases();
Family convert_cases();
Family complex_cases();
Family f64_cases();
Family constant_cases();
Family shape_cases();
Family reduction_cases();
Family linalg_cases();
Family algorithm_cases();
Family complex_linalg_cases();
Family convolution_cases();
Family indexing_cases();
Family control_cases();
Family random_cases();
Family chlo_cases();
Family sugar_cases();

[[nodiscard]] std::vector<Family> families();

}  // namespace tpubridge::hlo
