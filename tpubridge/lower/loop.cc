// The graph is a private function, so that it is lowered as in a program of its own; around it a while.
//
// On XLA's CPU plugin a step whose rows were cut out and put away inside of the body differed from single
// calls in the last bits of its loss (seen in one case of ManyFuzz; which pass does it was not found out). So
// there a round finds its rows cut out by the round before, and the next one puts its results away: the body
// reads and writes whole buffers, as a program of its own does. Elsewhere they may fuse: each would be a
// kernel more.
#include "tpubridge/lower/loop.h"

#include "tpubridge/hlo/constant.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/hlo/elementwise.h"
#include "tpubridge/hlo/shape_ops.h"

namespace tpubridge::lower {
namespace {

using hlo::Value;
using hlo::Values;

Shape with_rounds(const Shape& shape, int64_t rounds) {
  Shape out = shape;
  out.dims.insert(out.dims.begin(), rounds);
  return out;
}

Values start_of_round(Value stack, Value round) {
  Values starts(static_cast<size_t>(stack.rank()), hlo::constant(stack.builder(), DType::s32, 0));
  starts[0] = round;
  return starts;
}

Value round_of(Value stack, Value round) {
  std::vector<int64_t> sizes = stack.dims();
  sizes[0] = 1;
  const Value row = hlo::dynamic_slice(stack, start_of_round(stack, round), sizes);
  return hlo::reshape(row, std::vector<int64_t>(sizes.begin() + 1, sizes.end()));
}

Value with_round(Value stack, Value row, Value round) {
  std::vector<int64_t> sizes = stack.dims();
  sizes[0] = 1;
  return hlo::dynamic_update_slice(stack, hlo::reshape(row, sizes), start_of_round(stack, round));
}

class LoopWriter {
 public:
  LoopWriter(const trace::Graph& graph, const Loop& loop, Platform platform)
      : graph_(graph), loop_(loop), apart_(platform == Platform::cpu) {}

  std::string run(const std::vector<Donation>& donated, Platform platform,
                  const std::vector<trace::Loose>& inputs, const trace::SharedNumbers& shared) {
    const std::vector<Shape> shapes = parameters_of(graph_, inputs, shared);
    const hlo::Function& step = b_.function("tpubridge_step", shapes, [&](std::span<const Value> v) {
      return lower_graph(b_, graph_, v, platform, inputs, shared);
    });
    std::vector<hlo::ParameterAttrs> attrs(shapes.size());
    for (const Donation& d : donated) {
      attrs[static_cast<size_t>(d.leaf)].alias_result = d.root;
      attrs[static_cast<size_t>(d.leaf)].donate = !d.root;
    }
    for (size_t i = 0; i < shapes.size(); ++i)
      parameters_.push_back(
          b_.parameter(has_rows(i) ? with_rounds(shapes[i], loop_.rounds) : shapes[i], attrs[i]));
    plan();
    const Values ends = hlo::while_(
        begins_,
        [&](std::span<const Value> v) -> Values {
          return {hlo::compare(v[0], number(loop_.rounds), hlo::Direction::lt)};
        },
        [&](std::span<const Value> v) { return round(step, v); });
    Values results;
    for (size_t at : last_) results.push_back(ends[at]);
    for (size_t i = 0; i < loop_.each.size(); ++i)
      results.push_back(
          apart_ ? with_round(ends[each_ + i], ends[root_at_[loop_.each[i]]], number(loop_.rounds - 1))
                 : ends[each_ + i]);
    return b_.finish(results);
  }

 private:
  Value number(int64_t n) { return hlo::constant(b_, DType::s32, n); }
  [[nodiscard]] bool has_rows(size_t parameter) const {
    return parameter >= graph_.leaves.size() || loop_.stacked[parameter];
  }

  size_t carry(Value begin) {
    begins_.push_back(begin);
    return begins_.size() - 1;
  }
  // Its value of the round before, in every round.
  void carry_root(size_t root) {
    if (root_at_[root] != 0) return;
    roots_.push_back(root);
    root_at_[root] = carry(hlo::constant(b_, graph_.roots[root].shape(), 0));
  }

  // What goes from round to round: their count, the carried leaves, other roots whose last value is wanted,
  // rows that were cut out, and the rows of every round.
  void plan() {
    carry(number(0));
    at_.assign(parameters_.size(), 0);
    root_at_.assign(graph_.roots.size(), 0);
    for (size_t i = 0; i < graph_.leaves.size(); ++i) {
      if (!loop_.carried[i]) continue;
      roots_.push_back(*loop_.carried[i]);
      root_at_[*loop_.carried[i]] = at_[i] = carry(parameters_[i]);
    }
    for (size_t root : loop_.last) {
      carry_root(root);
      last_.push_back(root_at_[root]);
    }
    for (size_t i = 0; apart_ && i < loop_.each.size(); ++i) carry_root(loop_.each[i]);
    for (size_t i = 0; apart_ && i < parameters_.size(); ++i)
      if (has_rows(i)) at_[i] = carry(round_of(parameters_[i], number(0)));
    each_ = begins_.size();
    for (size_t root : loop_.each)
      carry(hlo::constant(b_, with_rounds(graph_.roots[root].shape(), loop_.rounds), 0));
  }

  Values round(const hlo::Function& step, std::span<const Value> v) {
    Values operands;
    for (size_t i = 0; i < parameters_.size(); ++i)
      operands.push_back(at_[i] != 0   ? v[at_[i]]
                         : has_rows(i) ? round_of(parameters_[i], v[0])
                                       : parameters_[i]);
    const Values results = hlo::call(b_, step, operands);
    const Value after = hlo::add(v[0], number(1)), before = hlo::subtract(v[0], number(1));
    Values next{after};
    for (size_t root : roots_) next.push_back(results[root]);
    for (size_t i = 0; apart_ && i < parameters_.size(); ++i)
      if (has_rows(i)) next.push_back(round_of(parameters_[i], after));  // behind the end: the last one again
    // Before the first round there is nothing to put away: what goes to the first row is overwritten.
    for (size_t i = 0; i < loop_.each.size(); ++i)
      next.push_back(apart_ ? with_round(v[each_ + i], v[root_at_[loop_.each[i]]], before)
                            : with_round(v[each_ + i], results[loop_.each[i]], v[0]));
    return next;
  }

  const trace::Graph& graph_;
  const Loop& loop_;
  const bool apart_;  // rows are cut out and put away a round earlier and later
  hlo::Builder b_;
  Values parameters_, begins_;
  // Places among what is carried: of each parameter (0: it is not), of each root, of those of `last`.
  std::vector<size_t> at_, root_at_, last_;
  std::vector<size_t> roots_;  // those that are carried, in order
  size_t each_ = 0;
};

}  // namespace

std::string loop_program(const trace::Graph& graph, const Loop& loop, const std::vector<Donation>& donated,
                         Platform platform, const std::vector<trace::Loose>& inputs,
                         const trace::SharedNumbers& shared) {
  return LoopWriter(graph, loop, platform).run(donated, platform, inputs, shared);
}

}  // namespace tpubridge::lower
