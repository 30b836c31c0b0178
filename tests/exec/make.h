// Hand-made graphs for the tests of exec/.
#pragma once

#include <string_view>
#include <vector>

#include "tpubridge/exec/live.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/table.h"

namespace tpubridge::exec {

using trace::Node;
using trace::Ref;
using trace::Value;

inline Value upload(const std::vector<float>& v) {
  return to_device(v.data(), Shape{DType::f32, {static_cast<int64_t>(v.size())}}, {}, 0);
}
inline std::vector<float> download(const Value& v) {
  std::vector<float> out(static_cast<size_t>(v.shape().elements()));
  to_host(v, out.data(), out.size() * sizeof(float));
  return out;
}
inline Value make(const char* op, const Value& a, const Value& b) {
  return Node::make(lower::find(op), {a, b}, {Ref{0}, Ref{1}}, {a.shape()}, 0, DType::f32);
}

}  // namespace tpubridge::exec
