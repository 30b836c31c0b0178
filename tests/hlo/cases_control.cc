#include "tests/hlo/cases.h"

namespace tpubridge::hlo {
namespace {

Value number(Builder& b, int64_t n) { return constant(b, DType::s32, n); }

// The sum of 1 to n and x doubled n times; n is seen from outside.
Values loop(Builder& b, In in) {
  const Value n = in[0];
  return while_(
      {number(b, 0), number(b, 0), in[1]}, [&](In c) -> Values { return {compare(c[0], n, Direction::lt)}; },
      [&](In c) -> Values {
        const Value next = add(c[0], number(b, 1));
        return {next, add(c[1], next), add(c[2], c[2])};
      });
}

// A loop whose body branches, and branches that hold a loop.
Values nested(Builder& b, In in) {
  const auto count = [&](Value limit) -> Values {
    const Values out = while_(
        {number(b, 0), number(b, 0)}, [&](In c) -> Values { return {compare(c[0], limit, Direction::lt)}; },
        [&](In c) -> Values {
          const Value even = compare(and_(c[0], number(b, 1)), number(b, 0), Direction::eq);
          const Values step = if_(
              even, [&](In) -> Values { return {number(b, 10)}; }, [&](In) -> Values { return {c[0]}; });
          return {add(c[0], number(b, 1)), add(c[1], step[0])};
        });
    return {out[1]};
  };
  return if_(
      in[0], [&](In) { return count(in[1]); }, [&](In) -> Values { return {negate(in[1])}; });
}

Values cases(Builder& b, In in) {
  Values out;
  for (const int64_t i : {0, 1, 2, 9}) {
    out.push_back(case_(number(b, i),
                        {[&](In) -> Values { return {in[0]}; }, [&](In) -> Values { return {negate(in[0])}; },
                         [&](In) -> Values { return {multiply(in[0], in[0])}; }})[0]);
  }
  return out;
}

Values functions(Builder& b, In in) {
  const Function& cube = b.function("cube", {{DType::f32, {2}}}, [](In a) -> Values {
    return {multiply(a[0], multiply(a[0], a[0])), a[0]};
  });
  const Function& twice = b.function("twice", {{DType::f32, {2}}}, [&](In a) -> Values {
    return {call(b, cube, {call(b, cube, {a[0]})[0]})[0]};
  });
  const Function& seven = b.function("seven", {}, [&](In) -> Values { return {constant(b, DType::f32, 7)}; });
  return {call(b, cube, {in[0]})[0], call(b, twice, {in[0]})[0], call(b, seven, {})[0]};
}

Values composites(Builder& b, In in) {
  const Function& meaning = b.function("gelu_meaning", {{DType::f32, {2}}}, [&](In a) -> Values {
    return {multiply(a[0], logistic(multiply(a[0], constant_like(a[0], 1.702))))};
  });
  return composite(b, "tpubridge.quick_gelu", meaning, {in[0]},
                   {{"approximate", true},
                    {"scale", 1.702},
                    {"axis", int64_t{-1}},
                    {"mode", std::string("a \"b\"")},
                    {"dims", std::vector<int64_t>{1, 2}},
                    {"eps", 1e-5F},
                    {"level", MlirText{"3 : i32"}}},
                   2);
}

}  // namespace

Family control_cases() {
  return {"control",
          {{"while", loop},
           {"nested.true", nested},
           {"nested.false", nested},
           {"case", cases},
           {"optimization_barrier",
            [](Builder&, In in) -> Values {
              const Values held = optimization_barrier({in[0], add(in[0], in[0])});
              return {held[1], optimization_barrier(held[0])};
            }},
           {"call", functions},
           {"composite", composites},
           {"after_all", [](Builder& b, In in) -> Values {
              const Value token = after_all(b, {after_all(b, {}), after_all(b, {})});
              return {optimization_barrier({in[0], token})[0]};
            }}}};
}

Family random_cases() {
  const auto bits_of = [](std::string name, Shape shape, RngAlgorithm algorithm) -> Case {
    return {std::move(name), [=](Builder&, In in) -> Values {
              const auto [state, bits] = rng_bit_generator(in[0], shape, algorithm);
              return {state, bits};
            }};
  };
  return {"random",
          {bits_of("rng_bit_generator.three_fry", {DType::u32, {2, 3}}, RngAlgorithm::three_fry),
           bits_of("rng_bit_generator.three_fry.u64", {DType::u64, {3}}, RngAlgorithm::three_fry),
           bits_of("rng_bit_generator.philox", {DType::u32, {5}}, RngAlgorithm::philox),
           bits_of("rng_bit_generator.default", {DType::u32, {4}}, RngAlgorithm::default_)}};
}

Family chlo_cases() {
  return {"chlo",
          {one("acos", acos),
           one("acosh", acosh),
           one("asin", asin),
           one("asinh", asinh),
           one("atan", atan),
           one("atanh", atanh),
           one("bessel_i1e", bessel_i1e),

           one("cosh", cosh),
           one("digamma", digamma),
           one("erf", erf),
           one("erf_inv", erf_inv),
           one("erfc", erfc),
           one("is_inf", is_inf),
           one("is_neg_inf", is_neg_inf),
           one("is_pos_inf", is_pos_inf),
           one("lgamma", lgamma),
           one("sinh", sinh),
           two("next_after", next_after),
           two("polygamma", polygamma),
           two("zeta", zeta),
           {"erf.bf16", [](Builder&, In in) -> Values {
              return {convert(erf(convert(in[0], DType::bf16)), DType::f32)};
            }}}};
}

std::vector<Family> families() {
  return {unary_cases(),     binary_cases(),      convert_cases(),   complex_cases(), f64_cases(),
          constant_cases(),  shape_cases(),       reduction_cases(), linalg_cases(),  complex_linalg_cases(),
          algorithm_cases(), convolution_cases(), indexing_cases(),  control_cases(), random_cases(),
          chlo_cases(),      sugar_cases()};
}

}  // namespace tpubridge::hlo
