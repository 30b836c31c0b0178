#include "tpubridge/lower/overlap.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "tpubridge/lower/context.h"
#include "tpubridge/trace/geometry.h"

namespace tpubridge::lower {
namespace {

using trace::Geometry;
using trace::Node;

constexpr std::string_view kUpdate = "tpubridge::update", kView = "tpubridge::view";

// Ops that give their first operand, written to or seen in another way: the compiler may use its memory.
bool goes_on_from(std::string_view op) {
  static const std::unordered_set<std::string_view> names = {
      kUpdate,
      kView,
      "tpubridge::reinterpret",
      "tpubridge::resize",
      "index_copy",
      "index_put",
      "index_add",
      "index_fill.int_Scalar",
      "scatter.src",
      "scatter.value",
      "scatter_add",
      "scatter_reduce.two",
      "_index_put_impl",
      "index_fill.int_Tensor",
      "put",
  };
  return names.contains(op);
}

bool is_write(std::string_view op) {
  return op != kView && op.substr(0, 9) != "tpubridge" && goes_on_from(op);
}

bool is_elementwise(const Node& n) {
  static const auto rows = [] {
    std::unordered_set<const trace::Op*> out;
    for (const auto family : {unary_rows(), binary_rows(), ternary_rows(), activation_rows()})
      for (const Row& r : family) out.insert(find(r.name));
    return out;
  }();
  return rows.contains(n.op()) || n.op()->name == "tpubridge::convert";
}

std::vector<int64_t> list(const trace::Arg& a) {
  const auto* v = std::get_if<std::vector<int64_t>>(&a);
  return v ? *v : std::vector<int64_t>();
}
std::optional<int64_t> number(const trace::Arg& a) {
  const auto* v = std::get_if<int64_t>(&a);
  return v ? std::optional(*v) : std::nullopt;
}

class Search {
 public:
  Search(const trace::Graph& graph, const std::vector<trace::Loose>& inputs)
      : graph_(graph), inputs_(inputs) {
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) place_[graph.nodes[i]] = i;
  }

  bool overlaps(const Node& write) {
    const Node* end = end_of(write.operands()[0].node());
    const Later& later = depending_on(end, place_.at(&write));
    const auto reaches = [&](const trace::Value& v) { return depends(later, end, v.node()); };
    const auto parts = write.operands().subspan(1);
    if (std::ranges::none_of(parts, reaches)) return false;
    if (write.op()->name != kUpdate || parts.size() != 1) return true;
    std::vector<trace::Value> open{parts[0]};
    std::unordered_set<const Node*> seen;
    while (!open.empty()) {
      const trace::Value v = open.back();
      open.pop_back();
      if (!reaches(v) || !seen.insert(v.node()).second) continue;
      if (v.node() == end || !v->is_pending()) return true;
      if (v->op()->name == kView && reads_what_is_written(*v.node(), write)) continue;
      if (!is_elementwise(*v.node())) return true;
      for (const auto& o : v->operands()) {
        if (reaches(o) && o.shape().dims != v.shape().dims) return true;
        open.push_back(o);
      }
    }
    return false;
  }

 private:
  // Of the nodes from one on, whether they are computed from another.
  struct Later {
    size_t from = 0;
    std::vector<bool> of;
  };

  static bool goes_on(const Node& n) {
    if (goes_on_from(n.op()->name)) return true;
    // x * 1, x + 0: the compiler takes them away, and then they are x. Other numbers are operands.
    return n.operands().size() == 1 && is_elementwise(n) && n.operands()[0].shape() == n.shapes()[0];
  }

  // From what is written to, back to where it came from.
  const Node* end_of(const Node* n) {
    std::vector<const Node*> way;
    for (; n->is_pending() && goes_on(*n); n = n->operands()[0].node()) {
      if (const auto known = ends_.find(n); known != ends_.end()) {
        n = known->second;
        break;
      }
      way.push_back(n);
    }
    for (const Node* w : way) ends_[w] = n;
    return n;
  }

  bool depends(const Later& later, const Node* end, const Node* n) const {
    if (n == end) return true;
    const auto at = place_.find(n);
    if (at == place_.end() || at->second < later.from) return false;
    const size_t i = at->second - later.from;
    return i < later.of.size() && later.of[i];
  }

  // Of the nodes behind `end`, up to a place: no node of the graph is looked at twice for it.
  const Later& depending_on(const Node* end, size_t to) {
    const auto [it, fresh] = depending_.try_emplace(end);
    Later& later = it->second;
    if (const auto at = place_.find(end); fresh && at != place_.end()) later.from = at->second + 1;
    while (later.from + later.of.size() < to) {
      const Node& n = *graph_.nodes[later.from + later.of.size()];
      later.of.push_back(std::ranges::any_of(
          n.operands(), [&](const trace::Value& o) { return depends(later, end, o.node()); }));
    }
    return later;
  }

  bool is_input(const Node& n, uint32_t arg) const {
    return std::ranges::binary_search(inputs_, trace::Loose{place_.at(&n), arg});
  }

  // Sizes, strides and offset stand at 3 of a view and at 4 of an update, those of the memory before them.
  // Two boxes of the same sizes that are as long as the memory or one element long are the same or lie apart.
  bool reads_what_is_written(const Node& view, const Node& write) const {
    if (view.operands()[0] != write.operands()[0]) return false;
    const auto &v = view.args(), &w = write.args();
    if (list(v[1]) != list(w[2]) || list(v[2]) != list(w[3])) return false;
    if (list(v[3]) != list(w[4]) || list(v[4]) != list(w[5])) return false;
    if (!is_input(view, 5) && !is_input(write, 6) && number(v[5]) == number(w[6])) return true;
    const auto box = trace::box_of(Geometry{list(v[3]), list(v[4]), number(v[5]).value_or(0)},
                                   view.operands()[0].shape().elements());
    if (!box || box->padding != 0) return false;
    for (size_t i = 0; i < box->extent.size(); ++i)
      if (box->extent[i] != 1 && box->extent[i] != box->memory[i]) return false;
    return true;
  }

  const trace::Graph& graph_;
  const std::vector<trace::Loose>& inputs_;
  std::unordered_map<const Node*, uint32_t> place_;
  std::unordered_map<const Node*, const Node*> ends_;
  std::unordered_map<const Node*, Later> depending_;
};

}  // namespace

std::unordered_set<const Node*> overlapping_writes(const trace::Graph& graph,
                                                   const std::vector<trace::Loose>& inputs) {
  std::unordered_set<const Node*> out;
  std::optional<Search> search;
  for (const Node* n : graph.nodes) {
    const std::string_view op = n->op()->name;
    if ((op != kUpdate && !is_write(op)) || n->operands().size() < 2) continue;
    if (!search) search.emplace(graph, inputs);
    if (search->overlaps(*n)) out.insert(n);
  }
  return out;
}

Value with_piece_apart(const Value& memory, const Value& piece, const std::vector<Value>& starts) {
  Value inside;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = static_cast<int64_t>(i), n = piece.dim(axis);
    if (n == memory.dim(axis)) continue;
    const Value at = hlo::iota(memory.builder(), Shape{starts[i].dtype(), memory.dims()}, axis);
    const Value from = hlo::broadcast_in_dim(starts[i], memory.dims(), {});
    // A start is moved inside, as the op that writes does it.
    const Value begin = hlo::clamp(like(at, 0), from, like(at, memory.dim(axis) - n));
    const Value here = hlo::and_(hlo::compare(at, begin, hlo::Direction::ge),
                                 hlo::compare(at, hlo::add(begin, like(at, n)), hlo::Direction::lt));
    inside = inside ? hlo::and_(inside, here) : here;
  }
  if (!inside) return piece;
  return hlo::select(inside, hlo::dynamic_update_slice(like(memory, 0), piece, starts), memory);
}

Value with_window(const Value& memory, const std::vector<int64_t>& axes, const Value& place,
                  const Value& window) {
  std::vector<int64_t> sizes = memory.dims();
  Value here;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto i = static_cast<int64_t>(k);
    sizes[static_cast<size_t>(axes[k])] = 1;
    const Value at = hlo::iota(memory.builder(), Shape{place.dtype(), memory.dims()}, axes[k]);
    const Value along = reshaped(hlo::slice(place, {0, i}, {1, i + 1}), {});
    const Value same = hlo::compare(at, expand(along, memory.dims()), hlo::Direction::eq);
    here = here ? hlo::and_(here, same) : same;
  }
  return hlo::select(here, expand(reshaped(window, sizes), memory.dims()), memory);
}

}  // namespace tpubridge::lower
