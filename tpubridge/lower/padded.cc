#include "tpubridge/lower/padded.h"

#include <algorithm>
#include <unordered_map>

#include "tpubridge/hlo/definition.h"

namespace tpubridge::lower {
namespace {

constexpr size_t kMostSteps = 64;  // a longer chain is better computed once

bool inside(const Dims& small, const Dims& large) {
  return small.size() == large.size() &&
         std::equal(small.begin(), small.end(), large.begin(), [](int64_t a, int64_t b) { return a <= b; });
}

// Computes a value anew with larger dimensions; what then stands beyond the old ones is anything. First all
// values on the way are planned, so that nothing is written where one of them cannot grow.
class Growth {
 public:
  bool plan(Value v, const Dims& dims) {
    if (v.dims() == dims) return true;
    if (const auto known = planned_.find(v.id()); known != planned_.end()) return known->second == dims;
    const hlo::Definition* how = hlo::definition_of(v);
    if (!how || ++begun_ > kMostSteps || v.rank() == 0) return false;
    const auto wanted = operand_dims(v, *how, dims);
    if (wanted.size() != how->operands.size()) return false;
    if (!is_cut(*how))
      for (size_t i = 0; i < wanted.size(); ++i)
        if (!plan(how->operands[i], wanted[i])) return false;
    found_ |= is_cut(*how);
    planned_.emplace(v.id(), dims);
    steps_.push_back(v);
    return true;
  }
  [[nodiscard]] bool saves() const { return found_; }  // it comes down to a part of something larger

  Value grow(Value v) {
    for (Value step : steps_) made_[step.id()] = again(step, planned_.at(step.id()));
    return grown(v);
  }

 private:
  static bool is_cut(const hlo::Definition& how) { return hlo::made_by(&how, "slice"); }

  // How large the operands must be; not one for each where that cannot be said.
  static std::vector<Dims> operand_dims(Value v, const hlo::Definition& how, const Dims& dims) {
    std::vector<Dims> out;
    for (const Value& x : how.operands) out.push_back(x.dims());
    if (how.elementwise) {
      for (Dims& d : out)
        if (!d.empty()) d = dims;
      return out;
    }
    if (hlo::made_by(&how, "constant") || hlo::made_by(&how, "iota")) return out;
    if (is_cut(how)) {
      const bool from_start =
          std::all_of(how.numbers.begin(), how.numbers.end(), [](int64_t s) { return s == 0; });
      return from_start && inside(dims, out[0]) ? out : std::vector<Dims>{};
    }
    if (hlo::made_by(&how, "broadcast_in_dim")) {
      for (size_t i = 0; i < how.numbers.size(); ++i) {
        const auto at = static_cast<size_t>(how.numbers[i]);
        if (out[0][i] != 1) out[0][i] = dims[at];
      }
      return out;
    }
    return hlo::made_by(&how, "reshape") ? reshaped_dims(v.dims(), out[0], dims) : std::vector<Dims>{};
  }

  // One dimension grows; `from` must have it too, with as many elements before it.
  static std::vector<Dims> reshaped_dims(const Dims& now, Dims from, const Dims& dims) {
    int64_t before = 1, other = 1;
    size_t grows = 0, i = 0;
    while (now[grows] == dims[grows]) before *= now[grows++];
    if (!std::equal(now.begin() + static_cast<int64_t>(grows) + 1, now.end(),
                    dims.begin() + static_cast<int64_t>(grows) + 1))
      return {};
    while (i < from.size() && (other != before || from[i] != now[grows])) other *= from[i++];
    if (i == from.size()) return {};
    from[i] = dims[grows];
    return {from};
  }

  Value grown(Value v) const {
    const auto it = made_.find(v.id());
    return it == made_.end() ? v : it->second;
  }

  Value again(Value v, const Dims& dims) const {
    const hlo::Definition& how = *hlo::definition_of(v);
    std::vector<Value> operands;
    for (const Value& x : how.operands) operands.push_back(grown(x));
    if (how.elementwise) return hlo::once_more(v, operands);
    if (how.scalar) return fill(v.builder(), v.dtype(), dims, *how.scalar);
    if (hlo::made_by(&how, "iota")) return hlo::iota(v.builder(), Shape{v.dtype(), dims}, how.numbers[0]);
    if (hlo::made_by(&how, "broadcast_in_dim"))
      return hlo::broadcast_in_dim(operands[0], dims, Dims(how.numbers));
    if (is_cut(how) && how.operands[0].dims() != dims)
      return hlo::slice(how.operands[0], Dims(dims.size(), 0), dims);
    return is_cut(how) ? how.operands[0] : hlo::reshape(operands[0], dims);
  }

  size_t begun_ = 0;  // as deep as it may go, however long the chain
  std::unordered_map<uint32_t, Dims> planned_;
  std::vector<Value> steps_;  // operands before what is made of them
  std::unordered_map<uint32_t, Value> made_;
  bool found_ = false;
};

}  // namespace

Value with_zeros(Value v, const Dims& dims) {
  if (v.dims() == dims) return v;
  // A transposition stays the last, so that a product can read what is below it.
  if (const hlo::Definition* how = hlo::definition_of(v); hlo::made_by(how, "transpose")) {
    Dims below(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) below[static_cast<size_t>(how->numbers[i])] = dims[i];
    return hlo::transpose(with_zeros(how->operands[0], below), Dims(how->numbers));
  }
  Growth growth;
  if (!growth.plan(v, dims) || !growth.saves()) {
    Dims high;
    for (size_t i = 0; i < dims.size(); ++i) high.push_back(dims[i] - v.dims()[i]);
    return hlo::pad(v, fill(v.builder(), v.dtype(), {}, 0), Dims(dims.size(), 0), high);
  }
  const Value whole = growth.grow(v);
  Value kept;
  for (int64_t i = 0; i < v.rank(); ++i) {
    if (v.dim(i) == whole.dim(i)) continue;
    const Value place = hlo::iota(v.builder(), Shape{DType::s32, dims}, i);
    const Value in = hlo::compare(place, like(place, v.dim(i)), hlo::Direction::lt);
    kept = kept ? hlo::and_(kept, in) : in;
  }
  return hlo::select(kept, whole, like(whole, 0));
}

}  // namespace tpubridge::lower
