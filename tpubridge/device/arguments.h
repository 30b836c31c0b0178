// Operands and arguments of a node that a kernel records by hand, in the order in which its row reads them.
#pragma once

#include "tpubridge/device/ops.h"

namespace tpubridge::device {

class Arguments {
 public:
  explicit Arguments(c10::Device device) : device_(device) {}

  void tensor(const at::Tensor& t);  // undefined: the argument is absent; a CPU number: an input
  void tensor(const std::optional<at::Tensor>& t) { tensor(t.value_or(at::Tensor())); }
  void tensors(at::TensorList list);
  void number(double v, bool wide);  // an input of the program, in f32 or f64
  void word(uint64_t bits);          // an s64 input
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
  c10::Device device_;
  std::vector<trace::Value> operands_;
  std::vector<trace::Arg> args_;
};

}  // namespace tpubridge::device
