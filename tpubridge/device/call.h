// A call of an op: its key, its operands, and the plan that calls with the same key share.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tpubridge/device/ops.h"
#include "tpubridge/device/word_map.h"
#include "tpubridge/lower/precision.h"
#include "tpubridge/trace/geometry.h"

namespace tpubridge::device {

// What recording a call gives, whatever its operands hold. Empty outputs: this call is left to the CPU.
struct Plan {
  struct Output {
    std::vector<int64_t> sizes, strides;
    c10::ScalarType dtype;
    std::shared_ptr<const trace::Geometry> geometry;  // the same sizes and strides
    size_t bytes;
    bool absent;  // gives an undefined tensor
    bool dense;   // row-major, as libtorch makes the strides itself
  };
  trace::SpecPtr spec;
  std::vector<Output> outputs;
  int64_t elements = 0;  // of all outputs together
};

[[nodiscard]] at::Tensor make_tensor(trace::Value value, const Plan::Output& like, c10::Device device);

// A call as it was read: everything that decides the plan, as words, and the operands.
struct CallKey {
  Words words;
  c10::SmallVector<trace::Value, 6> operands;
  std::optional<at::Generator> generator;
};

// False where an argument cannot be recorded.
[[nodiscard]] bool read_call(const OpInfo& info, c10::Device device, c10::ArrayRef<c10::IValue> args,
                             CallKey& key);
// Throws what the op throws for wrong arguments.
[[nodiscard]] Plan make_plan(const c10::OperatorHandle& op, const OpInfo& info, c10::Device device,
                             c10::ArrayRef<c10::IValue> args, const CallKey& key);

// The plans of one op. Under exec's mutex.
class Plans : public WordMap<Plan> {};

// Calls `f` with each defined tensor of the arguments.
template <class F>
void each_tensor(const OpInfo& info, c10::ArrayRef<c10::IValue> args, F f) {
  for (size_t i = 0; i < args.size(); ++i) {
    const c10::IValue& v = args[i];
    if (info.kinds[i] == Kind::tensor && v.isTensor()) {
      if (v.toTensor().defined()) f(v.toTensor());
    } else if (info.kinds[i] == Kind::tensors && v.isList()) {
      for (const auto& item : v.toListRef())
        if (!item.isNone() && item.toTensor().defined()) f(item.toTensor());
    }
  }
}

}  // namespace tpubridge::device
