// The traced graph: nodes, the values they give, and the data of those that were computed.
//
// A node is its operands and a Spec, which says everything else and is shared by calls that are alike. It is
// immutable but for one change: when its values have been computed it becomes a leaf (it keeps the
// data and lets its operands go). Reference counts are atomic; everything else is guarded by exec's one
// mutex. Ids grow with creation, so sorting by id is a topological order.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/trace/lane.h"

namespace tpubridge::trace {

class Node;

// What a computed value is kept in; exec/ derives from it.
struct DeviceData {
  virtual ~DeviceData() = default;
};

// One output of a node. Owns a reference.
class Value {
 public:
  Value() = default;
  Value(Node* node, uint32_t index);  // takes a new reference
  Value(const Value& other) : Value(other.node_, other.index_) {}
  Value(Value&& other) noexcept : node_(std::exchange(other.node_, nullptr)), index_(other.index_) {}
  Value& operator=(Value other) noexcept {
    std::swap(node_, other.node_);
    std::swap(index_, other.index_);
    return *this;
  }
  ~Value() {
    if (node_) drop();
  }

  explicit operator bool() const { return node_ != nullptr; }
  [[nodiscard]] Node* node() const { return node_; }
  [[nodiscard]] Node* operator->() const { return node_; }
  [[nodiscard]] uint32_t index() const { return index_; }
  [[nodiscard]] const Shape& shape() const;
  [[nodiscard]] Node* release() { return std::exchange(node_, nullptr); }  // the reference goes to the caller
  bool operator==(const Value&) const = default;

 private:
  void drop();
  Node* node_ = nullptr;
  uint32_t index_ = 0;
};

// What an operation is; lower/ derives its rows from it. Rows live as long as the process.
struct Op {
  std::string_view name;  // "add.Tensor"
  // Arguments (bit i: argument i) whose numbers change no shape. They are constants of a program until a
  // graph comes that differs in nothing else (family.h): then inputs.
  uint32_t loose = 0;
};

// An argument of an operation: a constant, or (Ref) the operand that holds it. -1: the argument is absent.
struct Ref {
  int operand = -1;
  bool operator==(const Ref&) const = default;
};
using Arg = std::variant<std::monostate, bool, int64_t, double, std::string, DType, std::vector<int64_t>,
                         std::vector<double>, Ref, std::vector<Ref>>;

// Everything about a node but its operands. Calls that differ in their operands alone share one.
struct Spec {
  Spec(const Op* op, std::vector<Arg> args, std::vector<Shape> shapes, DType common);
  const Op* op;  // null for data and numbers
  std::vector<Arg> args;
  std::vector<Shape> shapes;  // of the outputs
  DType common = DType::f32;  // the type torch promotes the operands to
  uint64_t hash = 0;          // of all of these
  uint64_t family = 0;        // the same, whatever the loose arguments are
};
using SpecPtr = std::shared_ptr<const Spec>;
[[nodiscard]] inline bool is_loose(const Spec& s, size_t arg) {
  return s.op && arg < 32 && ((s.op->loose >> arg) & 1) != 0;
}

// A number that is an input of the program, not part of it.
struct Number {
  DType dtype = DType::f32;  // f32, f64 or s64
  double real = 0;
  int64_t integer = 0;
};

class Node {
 public:
  // An operation; the operands are moved from.
  [[nodiscard]] static Value make(SpecPtr spec, std::span<Value> operands, int device);
  [[nodiscard]] static Value make(const Op* op, std::vector<Value> operands, std::vector<Arg> args,
                                  std::vector<Shape> shapes, int device, DType common);
  [[nodiscard]] static Value leaf(std::shared_ptr<DeviceData> data, Shape shape, int device);
  [[nodiscard]] static Value leaf(std::shared_ptr<DeviceData> data, SpecPtr spec, int device);
  [[nodiscard]] static Value number(Number number, int device);

  [[nodiscard]] bool is_leaf() const { return state_ == State::data; }
  [[nodiscard]] bool is_number() const { return state_ == State::number; }
  [[nodiscard]] bool is_pending() const { return state_ == State::pending; }
  [[nodiscard]] const Op* op() const { return is_pending() ? spec_->op : nullptr; }
  [[nodiscard]] std::span<const Value> operands() const { return {operand_array(), operand_count_}; }
  [[nodiscard]] const SpecPtr& spec() const { return spec_; }
  [[nodiscard]] const std::vector<Arg>& args() const { return spec_->args; }
  [[nodiscard]] const std::vector<Shape>& shapes() const { return spec_->shapes; }
  [[nodiscard]] const Number& number() const { return number_; }
  void set_number(double real) { number_.real = real; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] const Lane& lane() const { return *lane_; }  // not of numbers: they belong to nobody
  [[nodiscard]] uint64_t id() const { return id_; }
  [[nodiscard]] uint64_t hash() const { return spec_->hash; }  // not of its operands
  [[nodiscard]] DType common() const { return spec_->common; }
  [[nodiscard]] uint32_t references() const { return refs_.load(std::memory_order_relaxed); }

  // Data of output i; null where nobody wanted it. Throws the error of the program that should have made it.
  [[nodiscard]] const std::shared_ptr<DeviceData>& data(uint32_t i) const;
  [[nodiscard]] std::exception_ptr error() const { return error_; }
  // Turns a pending node into a leaf. `data` has one entry for each output, null for those not computed.
  void resolve(std::vector<std::shared_ptr<DeviceData>> data);
  void poison(std::exception_ptr error);  // its values can never be computed; the reason stays

  // Scratch of the walk that runs at the moment (trace/graph.cc).
  mutable uint64_t mark = 0;
  mutable uint32_t slot = 0, uses = 0;
  mutable bool in_work = false;  // somebody finds the program for it (exec/in_work.h)

 private:
  friend class Value;
  enum class State : uint8_t { pending, data, number };
  Node(SpecPtr spec, State state, int device, Lane* lane);
  static Node* create(SpecPtr spec, State state, int device, std::span<Value> operands, Lane* lane);
  static Lane& lane_for(std::span<const Value> operands);
  static void destroy(Node* node);
  static void drop(Node* n);  // iterative: chains of any length
  void become_leaf();
  // Operands stand behind the node, in the same piece of memory.
  Value* operand_array() { return reinterpret_cast<Value*>(this + 1); }
  [[nodiscard]] const Value* operand_array() const { return reinterpret_cast<const Value*>(this + 1); }

  std::atomic<uint32_t> refs_{0};
  uint32_t operand_count_ = 0;
  int device_;
  State state_;
  Lane* lane_;
  uint64_t id_;
  SpecPtr spec_;
  Number number_;
  std::vector<std::shared_ptr<DeviceData>> data_;
  std::exception_ptr error_;
};

inline Value::Value(Node* node, uint32_t index) : node_(node), index_(index) {
  if (node_) node_->refs_.fetch_add(1, std::memory_order_relaxed);
}
inline void Value::drop() {
  if (node_->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) Node::drop(node_);
}
inline const Shape& Value::shape() const { return node_->shapes()[index_]; }

}  // namespace tpubridge::trace
