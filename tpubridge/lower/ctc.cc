// Connectionist temporal classification: how likely a sequence of labels is, over all ways to lay it along
// the time, blanks between. One loop over the time forwards, one backwards, in logarithms.
//
// States of a sequence of L labels: 2 L + 1 of them, a blank before, between and behind the labels.
#include <limits>

#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/time_loop.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Of two-dimensional v, column i becomes column i + by.
Value moved(Value v, int64_t by, hlo::Scalar blank) {
  return hlo::pad(v, hlo::constant(v.builder(), v.dtype(), blank), {0, by}, {0, -by});
}

// The logarithm of a sum of three; of none of them, the logarithm of nothing.
Value log_sum_of(Value a, Value b, Value c) {
  Value top = hlo::maximum(a, hlo::maximum(b, c));
  top = hlo::select(hlo::compare(top, like(top, kNever), Direction::eq), like(top, 0), top);
  const auto part = [&](Value v) { return hlo::exponential(hlo::subtract(v, top)); };
  return hlo::add(hlo::log(hlo::add(hlo::add(part(a), part(b)), part(c))), top);
}

// log_probs [time, n, classes], targets [n, labels], how many steps and labels each has, blank.
struct Labels {
  Labels(const Context& c, size_t first, int64_t blank)
      : log_probs(c.in(first)),
        steps(log_probs.dim(0)),
        n(log_probs.dim(1)),
        classes(log_probs.dim(2)),
        width(2 * c.dims(first + 1)[1] + 1) {
    hlo::Builder& b = c.b;
    const int64_t labels = c.dims(first + 1)[1];
    // What is no class stands behind the end of its row, or is a wrong call: any class will do.
    const Value y = c.in(first + 1, DType::s64),
                known =
                    hlo::clamp(hlo::constant(b, DType::s64, 0), y, hlo::constant(b, DType::s64, classes - 1));
    const Value pairs =
        hlo::concatenate({fill(b, DType::s64, {n, labels, 1}, blank), reshaped(known, {n, labels, 1})}, 2);
    const Value states =
        hlo::concatenate({reshaped(pairs, {n, 2 * labels}), fill(b, DType::s64, {n, 1}, blank)}, 1);
    skips = hlo::compare(states, moved(states, 2, blank), Direction::ne);
    place = hlo::iota(b, Shape{DType::s64, {n, width}}, 1);
    skips = hlo::and_(skips, hlo::compare(place, like(place, 2), Direction::ge));
    const Value row = hlo::iota(b, Shape{DType::s64, {n, width}}, 0);
    flat = reshaped(hlo::add(hlo::multiply(row, like(row, classes)), states), {n * width});
    emitted = reshaped(take(reshaped(log_probs, {steps, n * classes}), flat, 1), {steps, n, width});
    times = c.in(first + 2, DType::s32);
    const Value count = c.in(first + 3, DType::s64);
    last = spread(hlo::add(count, count), place.dims(), {0});
    inside = hlo::compare(place, last, Direction::le);
  }

  [[nodiscard]] Value never() const { return fill(place.builder(), log_probs.dtype(), {n, width}, kNever); }
  [[nodiscard]] Value where(Value mask, Value v) const { return hlo::select(mask, v, never()); }
  // pred [n, width]: whether the time has come to something that is `offset` before the last step.
  [[nodiscard]] Value at_time(Value t, int64_t offset, Direction d) const {
    const Value now = spread(t, times.dims(), {});
    return spread(hlo::compare(hlo::add(now, like(now, offset)), times, d), place.dims(), {0});
  }

  Value log_probs;
  int64_t steps, n, classes, width;
  Value place, skips;   // [n, width]: which state; whether it may come straight from the one before the last
  Value flat, emitted;  // where in [n · classes] each state's class is; their log-probabilities over time
  Value times;          // [n]
  Value last, inside;   // [n, width]: the last state; up to it
};

// log_probs, targets, input_lengths, target_lengths, blank, zero_infinity → losses, forward logarithms
void ctc(Context& c) {
  const Labels l(c, 0, c.integer(4));
  const TimeLoop loop(l.steps, false, {}, {});
  // As if before the first step it had stood in state 0.
  const Value before = l.where(hlo::compare(l.place, like(l.place, 0), Direction::eq), like(l.never(), 0));
  const Value series = fill(c.b, before.dtype(), {l.steps, l.n, l.width}, kNever);
  const auto out = loop.run({before, series}, [&](Value t, std::span<const Value> v) -> hlo::Values {
    const Value from_two = l.where(l.skips, moved(v[0], 2, kNever));
    const Value sum = log_sum_of(v[0], moved(v[0], 1, kNever), from_two);
    const Value next = l.where(l.inside, hlo::add(sum, TimeLoop::at(l.emitted, t)));
    return {hlo::select(l.at_time(t, 0, Direction::lt), next, v[0]), TimeLoop::put(v[1], next, t)};
  });
  const Value ends =
      hlo::and_(l.inside, hlo::compare(hlo::add(l.place, like(l.place, 1)), l.last, Direction::ge));
  const Value final = l.where(ends, out[0]);
  Value top = max(final, {1});
  const Value nowhere = hlo::compare(top, like(top, kNever), Direction::eq);
  top = hlo::select(nowhere, like(top, 0), top);
  const Value total = sum(hlo::exponential(hlo::subtract(final, spread(top, final.dims(), {0}))), {1});
  c.result(hlo::negate(hlo::add(hlo::log(total), top)), 0);
  c.result(transposed(out[1], {1, 0, 2}), 1);
}

// grad, log_probs, targets, input_lengths, target_lengths, losses, forward logarithms, blank, zero_infinity
void ctc_backward(Context& c) {
  const Labels l(c, 1, c.integer(7));
  const TimeLoop loop(l.steps, true, {}, {});
  const Value forward = transposed(c.in(6), {1, 0, 2}), loss = c.in(5);
  const Value lost = hlo::compare(loss, like(loss, -kNever), Direction::eq);
  const Value wide_loss = spread(hlo::select(lost, like(loss, 0), loss), l.place.dims(), {0});
  // As if behind the last step it had stood in the last state.
  const Value behind = l.where(hlo::compare(l.place, l.last, Direction::eq), like(l.never(), 0));
  const Value to_two = moved(to(l.skips, DType::s32), -2, 0);
  const Value may_skip = hlo::compare(to_two, like(to_two, 0), Direction::ne);
  const Value series = fill(c.b, forward.dtype(), {l.steps, l.n, l.width}, 0);
  const auto out = loop.run({l.never(), series}, [&](Value t, std::span<const Value> v) -> hlo::Values {
    const Value from = hlo::select(l.at_time(t, 1, Direction::eq), behind, v[0]);
    const Value skipped = l.where(may_skip, moved(from, -2, kNever));
    const Value now = TimeLoop::at(l.emitted, t), rest = log_sum_of(from, moved(from, -1, kNever), skipped);
    const Value first = TimeLoop::at(forward, t);
    // How likely it is that the time goes through this state.
    const Value share = hlo::exponential(hlo::add(hlo::add(first, rest), wide_loss));
    const Value possible = hlo::and_(
        hlo::compare(first, like(first, kNever), Direction::ne),
        hlo::and_(hlo::compare(rest, like(rest, kNever), Direction::ne), l.at_time(t, 0, Direction::lt)));
    return {hlo::add(rest, now), TimeLoop::put(v[1], hlo::select(possible, share, like(share, 0)), t)};
  });
  hlo::ScatterDims d;
  d.update_window_dims = {1};
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  const Value rows = transposed(reshaped(out[1], {l.steps, l.n * l.width}), {1, 0});
  const Value used = hlo::scatter(fill(c.b, rows.dtype(), {l.n * l.classes, l.steps}, 0), l.flat, rows, d,
                                  hlo::Reducer::add);
  const Value share = reshaped(transposed(used, {1, 0}), l.log_probs.dims());
  const auto each = [&](Value v) { return spread(v, share.dims(), {1}); };
  Value g = hlo::subtract(hlo::exponential(l.log_probs), share);
  const double impossible = c.flag(8) ? 0 : std::numeric_limits<double>::quiet_NaN();
  g = hlo::multiply(g, each(c.in(0, g.dtype())));
  g = hlo::select(each(lost), like(g, impossible), g);
  const Value t = hlo::iota(c.b, Shape{DType::s32, share.dims()}, 0);
  c.result(hlo::select(hlo::compare(t, each(l.times), Direction::lt), g, like(g, 0)));
}

bool are_labels(const Call& c, size_t first, size_t blank) {
  const Dims &p = c.dims(first), &y = c.dims(first + 1);
  const DType t = c.shape(first).dtype;
  if ((t != DType::f32 && t != DType::f64) || p.size() != 3 || product(p) == 0) return false;
  if (y.size() != 2 || y[0] != p[1] || y[1] == 0 || !is_int(c.shape(first + 1).dtype)) return false;
  for (size_t arg : {first + 2, first + 3})
    if (c.dims(arg) != Dims{p[1]} || !is_int(c.shape(arg).dtype)) return false;
  return c.integer(blank) >= 0 && c.integer(blank) < p[2];
}

}  // namespace

std::span<const Row> ctc_rows() {
  static const Row rows[] = {
      {{"_ctc_loss.Tensor"},
       ctc,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (!are_labels(c, 0, 4)) return {};
         const DType t = c.shape(0).dtype;
         const Dims& p = c.dims(0);
         return {Shape{t, {p[1]}}, Shape{t, {p[1], p[0], 2 * c.dims(1)[1] + 1}}};
       }},
      {{"_ctc_loss_backward.Tensor"},
       ctc_backward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const bool fits = are_labels(c, 1, 7) && c.dims(0) == Dims{c.dims(1)[1]} &&
                           c.dims(6) == Dims{c.dims(1)[1], c.dims(1)[0], 2 * c.dims(2)[1] + 1};
         return fits ? like_second(c) : std::vector<Shape>();
       }},
  };
  return rows;
}

}  // namespace tpubridge::lower
