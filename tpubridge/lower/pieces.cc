#include "tpubridge/lower/pieces.h"

#include <algorithm>
#include <map>

#include "tpubridge/hlo/definition.h"

namespace tpubridge::lower {
namespace {

constexpr int kDeepest = 1024;  // sums in each other

// The whole is `rows` rows of `width` elements, a piece some columns of all of them. Slices along any one
// dimension are that, however memory was cut into dimensions.
struct Pieces {
  int64_t rows = 1, width = 1;
  std::map<int64_t, Value> parts;  // by the column where they begin
  [[nodiscard]] int64_t columns(Value part) const { return part.elements() / rows; }
};

const int64_t* constant_in(Value v) {
  const hlo::Definition* how = hlo::definition_of(v);
  return how && how->scalar ? std::get_if<int64_t>(&how->scalar->variant()) : nullptr;
}

// zeros, the piece, starts
std::optional<Pieces> written(const hlo::Values& operands) {
  if (!hlo::is_zero(operands[0])) return std::nullopt;
  const Dims &dims = operands[0].dims(), &piece = operands[1].dims();
  Pieces out;
  int64_t begin = 0;
  bool cut = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto* start = constant_in(operands[i + 2]);
    if (!start || *start < 0 || *start + piece[i] > dims[i]) return std::nullopt;
    if (piece[i] != dims[i]) {
      if (cut) return std::nullopt;
      cut = true;
      begin = *start;
    } else if (cut) {
      begin *= dims[i];
    }
    (cut ? out.width : out.rows) *= dims[i];
  }
  if (!cut || operands[1].elements() == 0) return std::nullopt;
  out.parts.emplace(begin, operands[1]);
  return out;
}

bool merge(Pieces& into, const Pieces& other) {
  if (into.rows != other.rows || into.width != other.width) return false;
  for (const auto& [begin, part] : other.parts) {
    const auto next = into.parts.lower_bound(begin);
    if (next != into.parts.end() && next->first < begin + into.columns(part)) return false;
    if (next != into.parts.begin()) {
      const auto& [before, there] = *std::prev(next);
      if (before + into.columns(there) > begin) return false;
    }
    into.parts.emplace(begin, part);
  }
  return true;
}

std::optional<Pieces> both_of(Value a, Value b, int depth);

std::optional<Pieces> pieces_of(Value v, int depth) {
  const hlo::Definition* how = hlo::definition_of(v);
  if (depth > kDeepest) return std::nullopt;
  if (hlo::made_by(how, "reshape")) return pieces_of(how->operands[0], depth + 1);
  if (hlo::made_by(how, "dynamic_update_slice")) return written(how->operands);
  return hlo::made_by(how, "add") ? both_of(how->operands[0], how->operands[1], depth + 1) : std::nullopt;
}

// Any long sum asks this for each of its additions: what cannot be pieces is seen before the sum is followed,
// and the operand that was added last is followed first.
std::optional<Pieces> both_of(Value a, Value b, int depth) {
  for (Value v : {a, b}) {
    const hlo::Definition* how = hlo::definition_of(v);
    if (!hlo::made_by(how, "reshape") && !hlo::made_by(how, "dynamic_update_slice") &&
        !hlo::made_by(how, "add"))
      return std::nullopt;
  }
  auto last = pieces_of(b, depth);
  const auto before = last ? pieces_of(a, depth) : std::nullopt;
  return before && merge(*last, *before) ? last : std::nullopt;
}

}  // namespace

std::optional<Value> side_by_side(Value a, Value b) {
  const auto pieces = both_of(a, b, 0);
  if (!pieces) return std::nullopt;
  int64_t covered = 0;
  for (const auto& [begin, part] : pieces->parts) covered += pieces->columns(part);
  if (covered != pieces->width) return std::nullopt;
  std::vector<Value> parts;
  for (const auto& [begin, part] : pieces->parts)
    parts.push_back(reshaped(part, {pieces->rows, pieces->columns(part)}));
  return reshaped(hlo::concatenate(parts, 1), a.dims());
}

}  // namespace tpubridge::lower
