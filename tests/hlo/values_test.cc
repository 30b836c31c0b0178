// Compiles every case on the XLA CPU plugin, runs it and compares with the reference numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <regex>
#include <set>

#include "tests/hlo/all_ops.h"
#include "tests/hlo/run.h"

namespace tpubridge::hlo {
namespace {

class OpValues : public testing::TestWithParam<Family> {};

TEST_P(OpValues, AreThoseOfTheReference) {
  const Family family = GetParam();
  const Sample sample = build(family);
  std::vector<Reference> inputs;
  for (const Case& c : family.cases)
    for (const Reference& r : reference().at(c.name).inputs) inputs.push_back(r);
  const std::vector<Reference> got = run_on_cpu(sample.text, inputs);
  size_t next = 0;
  for (const Case& c : family.cases) {
    const ReferenceCase& want = reference().at(c.name);
    for (size_t i = 0; i < want.outputs.size(); ++i) {
      ASSERT_LT(next, got.size()) << c.name;
      expect_equal(got[next++], want.outputs[i], want.tolerance, c.name + " result " + std::to_string(i));
    }
  }
  EXPECT_EQ(next, got.size()) << "the module gives more results than the reference file knows";
}

INSTANTIATE_TEST_SUITE_P(Hlo, OpValues, testing::ValuesIn(families()),
                         [](const auto& info) { return info.param.name; });

TEST(AllOps, EveryReferenceCaseIsBuilt) {
  std::set<std::string> built;
  for (const Family& f : families())
    for (const Case& c : f.cases) EXPECT_TRUE(built.insert(c.name).second) << c.name << " twice";
  for (const auto& [name, unused] : reference()) EXPECT_TRUE(built.contains(name)) << name;
}

// The ops that lowering may use, as StableHLO and chlo name them.
TEST(AllOps, EveryOpIsInOneOfTheModules) {
  static const char* const stablehlo =
      "abs add after_all all_gather all_reduce all_to_all and atan2 bitcast_convert broadcast_in_dim case "
      "cbrt ceil "
      "cholesky clamp collective_broadcast collective_permute compare complex composite concatenate constant "
      "convert "
      "convolution cosine count_leading_zeros custom_call divide dot_general dynamic_slice "
      "dynamic_update_slice "
      "exponential exponential_minus_one fft floor gather if imag iota is_finite log log_plus_one logistic "
      "maximum "
      "minimum multiply negate not optimization_barrier or pad partition_id popcnt power real reduce "
      "reduce_precision "
      "reduce_scatter reduce_window remainder replica_id reshape return reverse rng_bit_generator "
      "round_nearest_afz "
      "round_nearest_even rsqrt scatter select select_and_scatter shift_left shift_right_arithmetic "
      "shift_right_logical sign sine slice sort sqrt subtract tan tanh transpose triangular_solve while xor";
  static const char* const chlo =
      "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf is_neg_inf "
      "is_pos_inf "
      "lgamma next_after polygamma sinh top_k zeta";
  std::string text;
  for (const Sample& s : all_ops()) text += s.text;
  const auto expect_all = [&](const std::string& dialect, const std::string& names) {
    std::istringstream in(names);
    for (std::string name; in >> name;)
      EXPECT_NE(text.find("\"" + dialect + "." + name + "\"("), text.npos) << dialect << "." << name;
  };
  expect_all("stablehlo", stablehlo);
  expect_all("chlo", chlo);
}

}  // namespace
}  // namespace tpubridge::hlo
