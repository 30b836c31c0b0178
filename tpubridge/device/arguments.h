// Operands and arguments of a node that a kernel records by hand, in the order in which its row reads them.
#pragma once

#include <functional>

#include "tpubridge/device/ops.h"

namespace tpubridge::device {

// A number of the host. Where `again` is given, a replayed call of a compiled step asks it for the value
// anew.
struct HostNumber {
  double value = 0;
  std::function<double()> again = nullptr;
};

class Arguments {
 public:
  explicit Arguments(c10::Device device) : device_(device) {}

  void tensor(const at::Tensor& t);  // undefined: the argument is absent; a CPU number: an input
  void tensor(const std::optional<at::Tensor>& t) { tensor(t.value_or(at::Tensor())); }
  void tensors(at::TensorList list);
  void number(const HostNumber& n, bool wide);  // an input of the program, in f32 or f64
  void draw(int64_t elements);  // seed and offset of the device's generator, which moves on by so many
  void absent() { args_.emplace_back(trace::Ref{}); }
  template <class T>
  void constant(T value) {  // part of the program
    args_.emplace_back(std::move(value));
  }

  // One node; gives its results.
  [[nodiscard]] std::vector<trace::Value> record(const lower::Row* row, std::vector<Shape> shapes) &&;

 private:
  [[nodiscard]] trace::Ref read_operand(const at::Tensor& t);
  [[nodiscard]] trace::Ref put(trace::Value v);
  [[nodiscard]] trace::Value number_node(double v, bool wide) const;
  c10::Device device_;
  std::vector<trace::Value> operands_;
  std::vector<trace::Arg> args_;
};

}  // namespace tpubridge::device
