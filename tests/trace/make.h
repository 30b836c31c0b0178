// Nodes of no particular meaning for the tests of trace/.
#pragma once

#include <utility>
#include <vector>

#include "tpubridge/trace/node.h"

namespace tpubridge::trace {

inline const Op kAdd{"add"}, kMul{"mul"}, kSplit{"split"};
inline const Shape kShape{DType::f32, {4}};

inline Value leaf(Shape shape = kShape) {
  return Node::leaf(std::make_shared<DeviceData>(), std::move(shape), 0);
}
inline Value op(const Op& o, std::vector<Value> in, std::vector<Arg> args = {}, Shape shape = kShape,
                int device = 0) {
  return Node::make(&o, std::move(in), std::move(args), {std::move(shape)}, device, DType::f32);
}
inline Value number(double v, DType type = DType::f32) {
  Number n;
  n.dtype = type;
  n.real = v;
  return Node::number(n, 0);
}

}  // namespace tpubridge::trace
