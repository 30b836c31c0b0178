#include "tpubridge/lower/one_hot.h"

#include "tpubridge/hlo/definition.h"

namespace tpubridge::lower {
namespace {

// What was spread over the axis; nothing where v came about in another way.
Value before_spread(Value v, const Dims& rest) {
  const hlo::Definition* how = hlo::definition_of(v);
  return hlo::made_by(how, "broadcast_in_dim") && how->numbers == rest ? how->operands[0] : Value();
}

}  // namespace

Value hot_mask(Value classes, Value kept, const Dims& dims, int64_t axis) {
  const Dims rest = others({axis}, static_cast<int64_t>(dims.size()));
  const Value place = hlo::iota(classes.builder(), Shape{DType::s32, dims}, axis);
  const Value same =
      hlo::compare(place, spread(hlo::convert(classes, DType::s32), dims, rest), hlo::Direction::eq);
  return hlo::and_(same, spread(kept, dims, rest));
}

std::optional<Value> sum_of_hot(Value v, int64_t axis) {
  const Dims rest = others({axis}, v.rank());
  const hlo::Definition* chosen = hlo::definition_of(v);
  if (!hlo::made_by(chosen, "select") || !hlo::is_zero(chosen->operands[2])) return std::nullopt;
  const hlo::Definition* mask = hlo::definition_of(chosen->operands[0]);
  if (!hlo::made_by(mask, "and")) return std::nullopt;
  const hlo::Definition* same = hlo::definition_of(mask->operands[0]);
  if (!hlo::made_by(same, "compare") || same->attributes.find(" EQ>") == std::string::npos)
    return std::nullopt;
  const hlo::Definition* place = hlo::definition_of(same->operands[0]);
  if (!hlo::made_by(place, "iota") || place->numbers[0] != axis) return std::nullopt;
  const Value classes = before_spread(same->operands[1], rest), kept = before_spread(mask->operands[1], rest),
              each = before_spread(chosen->operands[1], rest);
  if (!classes || !kept || !each) return std::nullopt;
  return hlo::select(hlo::and_(kept, in_range(classes, v.dim(axis))), each, like(each, 0));
}

}  // namespace tpubridge::lower
