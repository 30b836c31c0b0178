// One boxed kernel for every op: it records a node where lower/ has a row, and runs on the CPU where it has
// none.
#pragma once

#include <memory>
#include <vector>

#include "tpubridge/device/torch.h"
#include "tpubridge/lower/table.h"
#include "tpubridge/trace/node.h"

namespace tpubridge::device {

enum class Kind {
  tensor,
  tensors,
  scalar,
  integer,
  number,
  boolean,
  integers,
  numbers,
  text,
  dtype,
  generator,
  ignored,
  other
};

struct IndexRule;  // check_indices.h

// What is known of an overload before it is called.
struct OpInfo {
  const c10::FunctionSchema* schema = nullptr;
  const lower::Row* row = nullptr;
  std::vector<Kind> kinds;             // of the arguments
  std::vector<size_t> written;         // arguments that the op writes, in the order of its results
  size_t row_args = 0;                 // the arguments that the row sees (the others are out= tensors)
  bool resizes = false;                // out= tensors take the size of the result
  bool traceable = false;              // the row and every argument can be recorded
  const IndexRule* indices = nullptr;  // where checked mode looks for places out of range
};

// `row`: for an op of the user's own; ours are found by their names.
[[nodiscard]] OpInfo describe(const c10::OperatorHandle& op, const lower::Row* row = nullptr);
[[nodiscard]] bool has_meta(const c10::OperatorHandle& op);  // a kernel that tells the shapes of results

// Sizes, strides and element type of a result.
struct Meta {
  std::vector<int64_t> sizes, strides;
  c10::ScalarType dtype;
  bool absent = false;  // an undefined tensor: a gradient that nobody asked for
};

// The results of a call by its Meta kernel; throws what the op throws for wrong arguments. For results that
// are written to an argument, the geometry that argument must get.
[[nodiscard]] std::vector<Meta> infer(const c10::OperatorHandle& op, const OpInfo& info,
                                      c10::ArrayRef<c10::IValue> args);

struct CallKey;
struct Plan;
class Plans;

class TracedOp final : public c10::OperatorKernel {
 public:
  explicit TracedOp(OpInfo info);
  ~TracedOp() override;
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack);

 private:
  const Plan& plan(const c10::OperatorHandle& op, c10::Device device, c10::ArrayRef<c10::IValue> args,
                   const CallKey& key);
  OpInfo info_;
  std::unique_ptr<Plans> plans_;
};

// torch's setting for products of f32, as a number of hlo::Precision.
[[nodiscard]] int64_t float32_precision();

// Records a node by hand, for kernels that are written out: operands, arguments and shapes as given.
[[nodiscard]] std::vector<trace::Value> record(const lower::Row* row, std::vector<trace::Value> operands,
                                               std::vector<trace::Arg> args, std::vector<Shape> shapes,
                                               int device, DType common);

}  // namespace tpubridge::device
