#include "tpubridge/hlo/random.h"

#include <array>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {

std::pair<Value, Value> rng_bit_generator(Value state, const Shape& shape, RngAlgorithm algorithm) {
  static constexpr std::string_view op = "stablehlo.rng_bit_generator";
  static constexpr std::array<std::string_view, 3> names = {"DEFAULT", "THREE_FRY", "PHILOX"};
  const bool three = algorithm != RngAlgorithm::three_fry;
  if (state.dtype() != DType::u64 || state.rank() != 1 ||
      (state.dim(0) != 2 && !(three && state.dim(0) == 3)))
    fail(op, three ? "the state must be u64[2] or u64[3]" : "the state must be u64[2]", state);
  if (!is_int(shape.dtype) && !is_float(shape.dtype))
    fail(op, "makes integers and floats", {{"result", shape.str()}, {"state", state.shape().str()}});
  std::string text = "#stablehlo<rng_algorithm ";
  text.append(names.at(static_cast<size_t>(algorithm))) += '>';
  const Values out =
      Op(op, {state}).attr("rng_algorithm", text).results({state.type(), state.builder().type(shape)});
  return {out[0], out[1]};
}

}  // namespace tpubridge::hlo
