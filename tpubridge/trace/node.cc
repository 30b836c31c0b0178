// Making, resolving and dropping nodes.
#include "tpubridge/trace/node.h"

#include <xxhash.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/trace/hash.h"

namespace tpubridge::trace {
namespace {

std::atomic<uint64_t> next_id{1};

uint64_t hash_arg(uint64_t seed, const Arg& arg) {
  seed = mix(seed, arg.index());
  return std::visit(
      [&](const auto& v) -> uint64_t {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return seed;
        } else if constexpr (std::is_same_v<T, std::string>) {
          return XXH3_64bits_withSeed(v.data(), v.size(), seed);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>> ||
                             std::is_same_v<T, std::vector<double>> || std::is_same_v<T, std::vector<Ref>>) {
          return XXH3_64bits_withSeed(v.data(), v.size() * sizeof(v[0]), mix(seed, v.size()));
        } else if constexpr (std::is_same_v<T, Ref>) {
          return mix(seed, static_cast<uint64_t>(v.operand));
        } else {
          return XXH3_64bits_withSeed(&v, sizeof(v), seed);
        }
      },
      arg);
}

}  // namespace

Spec::Spec(const Op* o, std::vector<Arg> a, std::vector<Shape> s, DType c)
    : op(o), args(std::move(a)), shapes(std::move(s)), common(c) {
  hash = mix(mix(reinterpret_cast<uintptr_t>(op), static_cast<uint64_t>(common)), args.size());
  family = hash;
  for (size_t i = 0; i < args.size(); ++i) {
    hash = hash_arg(hash, args[i]);
    family = is_loose(*this, i) ? mix(family, args[i].index()) : hash_arg(family, args[i]);
  }
  for (const auto& shape : shapes) hash = hash_shape(hash, shape), family = hash_shape(family, shape);
}

Node::Node(SpecPtr spec, State state, int device, Lane* lane)
    : device_(device),
      state_(state),
      lane_(lane),
      id_(next_id.fetch_add(1, std::memory_order_relaxed)),
      spec_(std::move(spec)) {}

Node* Node::create(SpecPtr spec, State state, int device, std::span<Value> operands, Lane* lane) {
  static_assert(alignof(Node) >= alignof(Value) && sizeof(Node) % alignof(Value) == 0);
  void* memory = ::operator new(sizeof(Node) + operands.size() * sizeof(Value));
  auto* n = new (memory) Node(std::move(spec), state, device, lane);
  for (auto& o : operands) new (n->operand_array() + n->operand_count_++) Value(std::move(o));
  return n;
}

void Node::destroy(Node* n) {
  std::destroy_n(n->operand_array(), n->operand_count_);
  n->~Node();
  ::operator delete(n);
}

Lane& Node::lane_for(std::span<const Value> operands) {
  if (in_backward())
    for (const auto& o : operands)
      if (o->is_pending()) {  // gradients are; weights were made by whoever made the model
        work_in(*o->lane_);
        return *o->lane_;
      }
  return this_lane();
}

Value Node::make(SpecPtr spec, std::span<Value> operands, int device) {
  Lane& lane = lane_for(operands);
  lane.pending.fetch_add(1, std::memory_order_relaxed);
  return Value(create(std::move(spec), State::pending, device, operands, &lane), 0);
}

Value Node::make(const Op* op, std::vector<Value> operands, std::vector<Arg> args, std::vector<Shape> shapes,
                 int device, DType common) {
  return make(std::make_shared<const Spec>(op, std::move(args), std::move(shapes), common), operands, device);
}

Value Node::leaf(std::shared_ptr<DeviceData> data, Shape shape, int device) {
  const DType dtype = shape.dtype;
  return leaf(std::move(data),
              std::make_shared<const Spec>(nullptr, std::vector<Arg>(), std::vector{std::move(shape)}, dtype),
              device);
}

Value Node::leaf(std::shared_ptr<DeviceData> data, SpecPtr spec, int device) {
  Node* n = create(std::move(spec), State::data, device, {}, &this_lane());
  n->data_.push_back(std::move(data));
  return Value(n, 0);
}

Value Node::number(Number number, int device) {
  static const auto spec_of = [](DType t) {
    return std::make_shared<const Spec>(nullptr, std::vector<Arg>(), std::vector{Shape{t, {}}}, t);
  };
  static const SpecPtr f32 = spec_of(DType::f32), f64 = spec_of(DType::f64), s64 = spec_of(DType::s64);
  const SpecPtr& spec = number.dtype == DType::f32 ? f32 : number.dtype == DType::f64 ? f64 : s64;
  Node* n = create(spec, State::number, device, {}, nullptr);
  n->number_ = number;
  return Value(n, 0);
}

const std::shared_ptr<DeviceData>& Node::data(uint32_t i) const {
  if (error_) std::rethrow_exception(error_);
  return data_[i];
}

void Node::become_leaf() {
  state_ = State::data;
  const uint32_t n = std::exchange(operand_count_, 0);
  std::destroy_n(operand_array(), n);
  lane_->pending.fetch_sub(1, std::memory_order_relaxed);
}

void Node::resolve(std::vector<std::shared_ptr<DeviceData>> data) {
  data_ = std::move(data);
  become_leaf();
}

void Node::poison(std::exception_ptr error) {
  error_ = std::move(error);
  data_.resize(shapes().size());
  become_leaf();
}

void Node::drop(Node* n) {
  std::vector<Node*> more;
  while (n) {
    Node* next = nullptr;
    for (uint32_t i = 0; i < n->operand_count_; ++i) {
      Node* o = n->operand_array()[i].release();
      if (!o || o->refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      if (next) more.push_back(next);
      next = o;
    }
    if (n->is_pending()) n->lane_->pending.fetch_sub(1, std::memory_order_relaxed);
    destroy(n);
    if (!next && !more.empty()) {
      next = more.back();
      more.pop_back();
    }
    n = next;
  }
}

}  // namespace tpubridge::trace
