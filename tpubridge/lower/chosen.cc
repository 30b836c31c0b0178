#include "tpubridge/lower/chosen.h"

#include <string_view>
#include <unordered_set>

#include "tpubridge/hlo/control.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using trace::Node;

// Ops whose elements are elements of their operands, or these without a sign.
bool chooses(std::string_view op) {
  static const std::unordered_set<std::string_view> names = {
      "tpubridge::view",
      "abs",
      "adaptive_max_pool2d",
      "adaptive_max_pool3d",
      "amax",
      "amin",
      "aminmax",
      "cat",
      "copy",
      "cummax",
      "cummin",
      "flip",
      "fmax",
      "fmin",
      "gather",
      "index.Tensor",
      "index_select",
      "kthvalue",
      "linalg_vector_norm",  // the largest, where its order is infinity
      "max",
      "max.dim",
      "max_pool2d_with_indices",
      "max_pool3d_with_indices",
      "maximum",
      "median",
      "median.dim",
      "min",
      "min.dim",
      "minimum",
      "mode",
      "nanmedian",
      "nanmedian.dim",
      "neg",
      "norm.Scalar",
      "norm.ScalarOpt_dim",
      "roll",
      "sort",
      "sort.stable",
      "take",
      "topk",
      "tpubridge::convert",
      "where.self",
  };
  return names.contains(op);
}

bool compares(std::string_view op) {
  return op.size() > 3 && op[2] == '.' &&
         std::string_view("eq ne lt le gt ge").find(op.substr(0, 2)) != op.npos;
}

// What a value's elements were before they were chosen.
std::set<Result> sources_of(const trace::Value& value) {
  constexpr size_t kMost = 64;
  std::set<Result> out, seen;
  std::vector<Result> open{{value.node(), value.index()}};
  while (!open.empty() && seen.size() < kMost) {
    const Result at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    if (!at.first->is_pending()) continue;  // in memory: it is what it is
    if (!chooses(at.first->op()->name)) {
      out.insert(at);
      continue;
    }
    for (const auto& o : at.first->operands()) open.emplace_back(o.node(), o.index());
  }
  return out;
}

bool is_rounded(const Shape& shape) { return is_float(shape.dtype) && shape.elements() > 1; }

}  // namespace

std::set<Result> compared_with_chosen(const trace::Graph& graph) {
  std::set<Result> out;
  for (const Node* n : graph.nodes) {
    if (!compares(n->op()->name)) continue;
    std::span<const trace::Value> sides = n->operands();
    // `x - x.max() == 0`
    if (sides.size() == 1 && sides[0]->op() && sides[0]->op()->name == "sub.Tensor")
      sides = sides[0]->operands();
    if (sides.size() < 2 || sides[0] == sides[1] || !is_float(sides[0].shape().dtype)) continue;
    const std::set<Result> left = sources_of(sides[0]);
    for (const Result& r : sources_of(sides[1]))
      if (left.contains(r) && is_rounded(r.first->shapes()[r.second])) out.insert(r);
  }
  return out;
}

Value computed_once(const Value& x, Platform platform) {
  if (x.elements() == 0) return x;
  if (platform != Platform::cpu) return hlo::optimization_barrier(x);
  // XLA's CPU compiler takes barriers away before it looks who computes what. It leaves a loop whose rounds
  // it cannot count: here one, or two where the first element is a NaN. Each gives the same.
  const Dims first(static_cast<size_t>(x.rank()), 0), end(first.size(), 1);
  const Value one = hlo::reshape(hlo::slice(x, first, end), {});
  hlo::Builder& b = x.builder();
  const auto number = [&](int64_t n) { return hlo::constant(b, DType::s32, n); };
  const Value rounds = hlo::select(hlo::compare(one, one, hlo::Direction::eq), number(1), number(2));
  return hlo::while_(
      {number(0), like(x, 0)},
      [&](std::span<const Value> v) -> hlo::Values {
        return {hlo::compare(v[0], rounds, hlo::Direction::lt)};
      },
      [&](std::span<const Value> v) -> hlo::Values {
        return {hlo::add(v[0], number(1)), x};
      })[1];
}

}  // namespace tpubridge::lower
