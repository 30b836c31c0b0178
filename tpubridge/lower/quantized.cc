#include "tpubridge/lower/quantized.h"

#include <numeric>

#include "tpubridge/hlo/definition.h"

namespace tpubridge::lower {
namespace {

constexpr std::string_view kWeight = "tpubridge.quantized_weight";

// Two numbers a byte become twice as many along the last dimension.
Value unpacked(Value v) {
  if (v.dtype() != DType::u8) return v;
  const Value both = hlo::bitcast_convert(v, DType::s8), four = like(both, 4);
  return hlo::concatenate({hlo::shift_right_arithmetic(hlo::shift_left(both, four), four),
                           hlo::shift_right_arithmetic(both, four)},
                          both.rank() - 1);
}

// Scales lack the last dimension.
Value times_scales(Value packed, Value scales) {
  const Value numbers = hlo::convert(unpacked(packed), scales.dtype());
  Dims axes(static_cast<size_t>(scales.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return hlo::multiply(numbers, spread(scales, numbers.dims(), axes));
}

// packed, scales, whether the groups lie apart
void dequantize(Context& c) {
  const QuantizedWeight w{c.in(0), c.in(1), c.flag(2)};
  const Value groups = numbers_of(w);
  const Value whole = reshaped(w.apart ? hlo::transpose(groups, {1, 0, 2}) : groups, c.out().dims);
  c.result(hlo::stands_for(whole, {.op = kWeight, .operands = {w.packed, w.scales}, .numbers = {w.apart}}));
}

// A TPU has numbers of 4 bits, torch has no type for them.
void narrow(Context& c) { c.result(hlo::convert(c.in(0), DType::s4)); }
void widen(Context& c) { c.result(hlo::convert(c.in(0), DType::s8)); }

}  // namespace

std::optional<QuantizedWeight> quantized_weight(Value v) {
  const hlo::Definition* how = hlo::definition_of(v);
  const bool turned = hlo::made_by(how, "transpose") && v.rank() == 2 && how->numbers[0] == 1;
  if (turned) how = hlo::definition_of(how->operands[0]);
  if (!how || how->op != kWeight) return std::nullopt;
  return QuantizedWeight{how->operands[0], how->operands[1], how->numbers[0] != 0, turned};
}

Value numbers_of(const QuantizedWeight& w) { return times_scales(w.packed, w.scales); }

Value rows_of(const QuantizedWeight& w, Value index) {
  const int64_t axis = w.apart ? 1 : 0;
  const Value rows = times_scales(take(w.packed, index, axis), take(w.scales, index, axis));
  Dims dims = index.dims(), order(static_cast<size_t>(rows.rank()));
  std::iota(order.begin(), order.end(), 0);
  if (w.apart) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);  // groups after the places
  const Value sorted = transposed(rows, order);
  dims.push_back(rows.dim(w.apart ? 0 : rows.rank() - 2) * rows.dim(rows.rank() - 1));
  return reshaped(sorted, dims);
}

std::span<const Row> quantized_rows() {
  static const Row rows[] = {
      {{"tpubridge::dequantize"}, dequantize},
      {{"tpubridge::to_s4"}, narrow},
      {{"tpubridge::from_s4"}, widen},
  };
  return rows;
}

}  // namespace tpubridge::lower
