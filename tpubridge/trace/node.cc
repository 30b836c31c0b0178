// Making, resolving and dropping nodes.
#include "tpubridge/trace/node.h"

#include <xxhash.h>

#include <array>

#include "tpubridge/base/errors.h"
#include "tpubridge/trace/hash.h"

namespace tpubridge::trace {
namespace {

std::atomic<uint64_t> next_id{1};
constexpr int kDevices = 64;
std::array<std::atomic<int64_t>, kDevices> pending{};
std::atomic<int64_t>& pending_of(int device) { return pending[static_cast<size_t>(device) % kDevices]; }

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

int64_t pending_nodes(int device) { return pending_of(device).load(std::memory_order_relaxed); }

Value Node::make(const Op* op, std::vector<Value> operands, std::vector<Arg> args, std::vector<Shape> shapes,
                 int device, DType common) {
  auto* n = new Node;
  n->id_ = next_id.fetch_add(1, std::memory_order_relaxed);
  n->op_ = op;
  n->operands_ = std::move(operands);
  n->args_ = std::move(args);
  n->shapes_ = std::move(shapes);
  n->device_ = device;
  n->common_ = common;
  uint64_t h = mix(reinterpret_cast<uintptr_t>(op), static_cast<uint64_t>(common));
  for (const auto& a : n->args_) h = hash_arg(h, a);
  for (const auto& s : n->shapes_) h = hash_shape(h, s);
  n->hash_ = h;
  pending_of(device).fetch_add(1, std::memory_order_relaxed);
  return Value(n, 0);
}

Value Node::leaf(std::shared_ptr<DeviceData> data, Shape shape, int device) {
  auto* n = new Node;
  n->id_ = next_id.fetch_add(1, std::memory_order_relaxed);
  n->hash_ = hash_shape(1, shape);
  n->shapes_.push_back(std::move(shape));
  n->data_.push_back(std::move(data));
  n->device_ = device;
  return Value(n, 0);
}

Value Node::number(Number number, int device) {
  auto* n = new Node;
  n->id_ = next_id.fetch_add(1, std::memory_order_relaxed);
  n->shapes_.push_back(Shape{number.dtype, {}});
  n->hash_ = hash_shape(2, n->shapes_[0]);
  n->number_ = number;
  n->device_ = device;
  return Value(n, 0);
}

const std::shared_ptr<DeviceData>& Node::data(uint32_t i) const {
  if (error_) std::rethrow_exception(error_);
  return data_[i];
}

void Node::become_leaf() {
  op_ = nullptr;
  auto operands = std::move(operands_);
  operands_.clear();
  args_.clear();
  pending_of(device_).fetch_sub(1, std::memory_order_relaxed);
}

void Node::resolve(std::vector<std::shared_ptr<DeviceData>> data) {
  data_ = std::move(data);
  become_leaf();
}

void Node::poison(std::exception_ptr error) {
  error_ = std::move(error);
  data_.resize(shapes_.size());
  become_leaf();
}

void Node::drop(Node* node) {
  std::vector<Node*> dead{node};
  while (!dead.empty()) {
    Node* n = dead.back();
    dead.pop_back();
    for (auto& operand : n->operands_) {
      Node* o = operand.release();
      if (o && o->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) dead.push_back(o);
    }
    if (n->op_) pending_of(n->device_).fetch_sub(1, std::memory_order_relaxed);
    delete n;
  }
}

}  // namespace tpubridge::trace
