// Arguments and shared pieces.
#include "tpubridge/lower/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tpubridge/base/errors.h"
#include "tpubridge/hlo/chlo.h"
#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/indexing.h"

namespace tpubridge::lower {

int Call::ref(size_t arg) const {
  const auto* r = std::get_if<trace::Ref>(&args_.at(arg));
  if (!r || r->operand < 0) throw ProgramError(fmt::format("argument {} is no operand", arg));
  return r->operand;
}

const Shape& Call::shape(size_t arg) const {
  static const Shape scalar{DType::f32, {}};
  return is_tensor(arg) ? *operands_[static_cast<size_t>(ref(arg))] : scalar;
}

bool Call::has(size_t arg) const {
  if (arg >= args_.size() || std::holds_alternative<std::monostate>(args_[arg])) return false;
  const auto* r = std::get_if<trace::Ref>(&args_[arg]);
  return !r || r->operand >= 0;
}

bool Call::is_tensor(size_t arg) const { return has(arg) && std::holds_alternative<trace::Ref>(args_[arg]); }

bool Call::is_list(size_t arg) const {
  return has(arg) && std::holds_alternative<std::vector<trace::Ref>>(args_[arg]);
}

std::vector<const Shape*> Call::shapes(size_t arg) const {
  std::vector<const Shape*> out;
  for (auto r : std::get<std::vector<trace::Ref>>(args_.at(arg)))
    out.push_back(r.operand < 0 ? nullptr : operands_[static_cast<size_t>(r.operand)]);
  return out;
}

int64_t Call::integer(size_t arg) const {
  if (const auto* d = std::get_if<double>(&args_.at(arg))) return static_cast<int64_t>(*d);
  if (const auto* f = std::get_if<bool>(&args_[arg])) return *f ? 1 : 0;
  return std::get<int64_t>(args_[arg]);
}

double Call::number(size_t arg) const {
  if (const auto* d = std::get_if<double>(&args_.at(arg))) return *d;
  return static_cast<double>(integer(arg));
}

bool Call::flag(size_t arg) const { return integer(arg) != 0; }

Dims Call::integers(size_t arg) const {
  if (!has(arg)) return {};
  if (const auto* i = std::get_if<int64_t>(&args_[arg])) return {*i};
  return std::get<Dims>(args_[arg]);
}

std::string Call::text(size_t arg) const {
  return has(arg) ? std::get<std::string>(args_[arg]) : std::string();
}

std::optional<DType> Call::dtype(size_t arg) const {
  if (!has(arg)) return std::nullopt;
  return std::get<DType>(args_[arg]);
}

Value Context::in(size_t arg) const { return operands_values_[static_cast<size_t>(ref(arg))]; }

Value Context::in(size_t arg, DType dtype) const {
  if (is_tensor(arg)) return to(in(arg), dtype);
  if (const auto* d = std::get_if<double>(&args_.at(arg))) {
    if (is_int(dtype)) return hlo::constant(b, dtype, static_cast<int64_t>(*d));
    if (dtype == DType::pred) return hlo::constant(b, dtype, *d != 0);
    return hlo::constant(b, dtype, *d);
  }
  const int64_t i = integer(arg);
  return dtype == DType::pred ? hlo::constant(b, dtype, i != 0) : hlo::constant(b, dtype, i);
}

std::vector<Value> Context::list(size_t arg) const {
  std::vector<Value> out;
  for (auto r : std::get<std::vector<trace::Ref>>(args_.at(arg)))
    out.push_back(r.operand < 0 ? Value() : operands_values_[static_cast<size_t>(r.operand)]);
  return out;
}

DType Context::compute() const {
  const DType from = node_.common(), to = out().dtype;
  const bool whole = is_int(from) || from == DType::pred;
  return whole && (is_float(to) || is_complex(to)) ? to : from;
}

DType opmath_of(DType t) { return is_float(t) && bits(t) < 32 ? DType::f32 : t; }
DType Context::opmath() const { return opmath_of(compute()); }

void Context::result(Value v, size_t i) {
  const Shape& promised = out(i);
  v = to(v, promised.dtype);
  if (v.dims() != promised.dims)
    throw ProgramError(fmt::format("the row of {} gives {}, the trace promised {}", node_.op()->name,
                                   v.shape().str(), promised.str()));
  results_[i] = v;
}

Value to(Value v, DType dtype) {
  if (v.dtype() == dtype) return v;
  if (dtype == DType::pred) return hlo::compare(v, like(v, 0), hlo::Direction::ne);
  if (is_complex(v.dtype()) && !is_complex(dtype)) return to(hlo::real(v), dtype);
  return hlo::convert(v, dtype);
}

Value expand(Value v, const Dims& dims) {
  if (v.dims() == dims) return v;
  Dims axes(static_cast<size_t>(v.rank()));
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(dims.size()) - v.rank());
  return hlo::broadcast_in_dim(v, dims, axes);
}

Value fill(hlo::Builder& b, DType dtype, const Dims& dims, hlo::Scalar v) {
  return hlo::constant(b, Shape{dtype, dims}, v);
}
Value like(Value v, hlo::Scalar s) { return hlo::constant(v.builder(), v.shape(), s); }
Value in_range(Value places, int64_t size) {
  return hlo::and_(hlo::compare(places, like(places, 0), hlo::Direction::ge),
                   hlo::compare(places, like(places, size), hlo::Direction::lt));
}
Value mul(Value a, Value b) { return hlo::multiply(a, b); }
Value scaled(Value v, double by) { return mul(v, like(v, by)); }
Value wide(const Context& c, size_t arg) { return c.in(arg, opmath_of(c.out().dtype)); }

Value reshaped(Value v, const Dims& dims) { return v.dims() == dims ? v : hlo::reshape(v, dims); }

Value transposed(Value v, const Dims& order) {
  return std::is_sorted(order.begin(), order.end()) ? v : hlo::transpose(v, order);
}

Value sum(Value v, const Dims& axes) {
  if (axes.empty()) return v;
  return hlo::reduce(v, hlo::constant(v.builder(), v.dtype(), 0), axes, hlo::Reducer::add);
}
namespace {

// In a program over several devices an extreme may become a collective, and XLA's for CPUs loses NaN there.
Value with_nan(Value extreme, Value of, const Dims& axes) {
  hlo::Builder& b = of.builder();
  if (b.partitions() == 1 || !is_float(of.dtype())) return extreme;
  const Value any = hlo::reduce(hlo::compare(of, of, hlo::Direction::ne),
                                hlo::constant(b, DType::pred, false), axes, hlo::Reducer::or_);
  return hlo::select(any, like(extreme, std::numeric_limits<double>::quiet_NaN()), extreme);
}

}  // namespace

Value max(Value v, const Dims& axes) {
  if (axes.empty()) return v;
  const Value least = hlo::constant(v.builder(), v.dtype(), hlo::lowest(v.dtype()));
  return with_nan(hlo::reduce(v, least, axes, hlo::Reducer::maximum), v, axes);
}
Value min(Value v, const Dims& axes) {
  if (axes.empty()) return v;
  const Value most = hlo::constant(v.builder(), v.dtype(), hlo::highest(v.dtype()));
  return with_nan(hlo::reduce(v, most, axes, hlo::Reducer::minimum), v, axes);
}

// By doubling: log2(n) shifted additions, which every backend vectorises.
Value conjugate(Value v) { return is_complex(v.dtype()) ? hlo::conj(v) : v; }
DType real_of(DType t) { return t == DType::c128 ? DType::f64 : t == DType::c64 ? DType::f32 : t; }
Value at_least_1d(Value v) { return v.rank() == 0 ? reshaped(v, {1}) : v; }
Value wrapped_index(Value i, int64_t size) {
  return hlo::select(hlo::compare(i, like(i, 0), hlo::Direction::lt), hlo::add(i, like(i, size)), i);
}

Value running(Value x, int64_t axis, Value neutral, Value (*join)(Value, Value)) {
  const Dims zero(static_cast<size_t>(x.rank()), 0);
  for (int64_t step = 1, n = x.dim(axis); step < n; step *= 2) {
    Dims low = zero, high = zero;
    low[static_cast<size_t>(axis)] = step;
    high[static_cast<size_t>(axis)] = -step;
    x = join(x, hlo::pad(x, neutral, low, high));
  }
  return x;
}
Value running(Value x, int64_t axis, hlo::Reducer r) {
  const bool add = r == hlo::Reducer::add;
  const Value neutral = hlo::constant(x.builder(), x.dtype(), add ? 0 : 1);
  return running(x, axis, neutral, add ? hlo::add : hlo::multiply);
}

Value take(Value x, Value index, int64_t axis) {
  hlo::GatherDims d;
  Dims sizes = x.dims();
  sizes[static_cast<size_t>(axis)] = 1;
  for (int64_t i = 0; i < axis; ++i) d.offset_dims.push_back(i);
  for (int64_t i = axis + 1; i < x.rank(); ++i) d.offset_dims.push_back(i - 1 + index.rank());
  d.collapsed_slice_dims = {axis};
  d.start_index_map = {axis};
  d.index_vector_dim = index.rank();
  return hlo::gather(x, index, d, sizes);
}

Value spread(Value v, const Dims& dims, const Dims& axes) { return hlo::broadcast_in_dim(v, dims, axes); }

Dims wrapped(Dims axes, int64_t rank, bool empty_is_all) {
  if (axes.empty() && empty_is_all) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (auto& a : axes)
    if (a < 0) a += rank;
  if (rank == 0) axes.clear();
  std::sort(axes.begin(), axes.end());
  return axes;
}

bool are_axes(const Dims& axes, int64_t rank) {
  const int64_t reach = std::max<int64_t>(rank, 1);  // a scalar has one
  for (const int64_t a : axes)
    if (a < -reach || a >= reach) return false;
  const Dims sorted = wrapped(axes, rank);
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

Dims others(const Dims& axes, int64_t rank) {
  Dims out;
  for (int64_t i = 0; i < rank; ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) out.push_back(i);
  return out;
}

int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

Dims broadcast(std::initializer_list<const Dims*> all) {
  Dims out;
  for (const Dims* dims : all) {
    if (dims->size() > out.size()) out.insert(out.begin(), dims->size() - out.size(), 1);
    const size_t shift = out.size() - dims->size();
    for (size_t i = 0; i < dims->size(); ++i) {
      int64_t& o = out[i + shift];
      const int64_t d = (*dims)[i];
      if (o != d && o != 1 && d != 1)
        throw ArgumentError(
            fmt::format("The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton "
                        "dimension {}",
                        o, d, i + shift));
      if (o == 1) o = d;
    }
  }
  return out;
}

hlo::Values better_of(std::span<const Value> v, bool largest) {
  using hlo::Direction;
  Value better = hlo::compare(v[0], v[2], largest ? Direction::gt : Direction::lt);
  Value same = hlo::compare(v[0], v[2], Direction::eq);
  if (is_float(v[0].dtype())) {
    const Value a = hlo::compare(v[0], v[0], Direction::ne), o = hlo::compare(v[2], v[2], Direction::ne);
    better = hlo::or_(better, hlo::and_(a, hlo::not_(o)));
    same = hlo::or_(same, hlo::and_(a, o));
  }
  const Value first = hlo::or_(better, hlo::and_(same, hlo::compare(v[1], v[3], Direction::lt)));
  return {hlo::select(first, v[0], v[2]), hlo::select(first, v[1], v[3])};
}

const Dims& absent_dims() {
  static const Dims dims{-1};
  return dims;
}
Shape wanted_or_absent(bool wanted, DType t, const Dims& dims) { return {t, wanted ? dims : absent_dims()}; }

std::vector<Shape> like_first(const Call& c) { return {c.shape(0)}; }
std::vector<Shape> like_second(const Call& c) { return {c.shape(1)}; }
std::vector<Shape> mask_like_first(const Call& c) { return {Shape{DType::pred, c.dims(0)}}; }
std::vector<Shape> mask_of_both(const Call& c) {
  return {Shape{DType::pred, broadcast({&c.dims(0), &c.dims(1)})}};
}

}  // namespace tpubridge::lower
