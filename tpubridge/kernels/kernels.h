// Ops of the user's own on the device (docs/kernels.md): a lowering, a C++ function, or a kernel from JAX.
//
// Each is an op of torch's dispatcher. The first argument is its name, "my::op", where TORCH_LIBRARY has
// defined it, or its whole schema, "my::op(Tensor x, float eps) -> Tensor", which is then defined here. An op
// has one implementation on the device: a second one is refused.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "tpubridge/base/files.h"
#include "tpubridge/kernels/call.h"
#include "tpubridge/pjrt/ffi.h"

namespace tpubridge {

// A call whose gradient is asked for.
struct GradientCall {
  std::vector<c10::IValue> arguments;  // as the op got them
  std::vector<at::Tensor> inputs;      // the tensors among them, lists unrolled
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> gradients;  // of the outputs
};
// One tensor for each of `inputs`, undefined where it has none. Made of torch's ops it has gradients itself.
using Gradient = std::function<std::vector<at::Tensor>(const GradientCall&)>;

// The op, to be called from C++ with no more ado.
class UserOp {
 public:
  explicit UserOp(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] const std::string& name() const { return name_; }
  // Arguments in the order of the schema; those with defaults may be left out at the end.
  template <class... Args>
  [[nodiscard]] at::Tensor operator()(Args&&... args) const {  // of several results: the first
    return call({c10::IValue(std::forward<Args>(args))...}).at(0);
  }
  [[nodiscard]] std::vector<at::Tensor> call(std::vector<c10::IValue> arguments) const;

 private:
  std::string name_;
};

// Made of hlo's ops. Shapes come from the op's Meta kernel; where it has none, from what the lowering gives.
using Lowering = std::function<Lowered(const LoweringCall&)>;
UserOp register_lowering(const std::string& op, Lowering lowering, Gradient gradient = {});

// A C++ function, on the CPU plugin and on CUDA; `shapes` may be left out where the op has a Meta kernel.
using Shapes = std::function<std::vector<Shape>(const OpCall&)>;
struct FfiOptions {
  Gradient gradient = {};
  // A program with a function that may fail is waited for, and takes no input's memory over, so that nothing
  // is lost when it does. Without that a failed step loses what it was to overwrite.
  bool may_fail = true;
};
namespace detail {
UserOp register_function(const std::string& op, ffi::Function function, Shapes shapes, FfiOptions options);
}
template <class F>  // gives nothing and throws, or gives a text that is empty where all went well
UserOp register_ffi(const std::string& op, F function, Shapes shapes = {}, FfiOptions options = {}) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const ffi::Call&>>) {
    return detail::register_function(
        op,
        [function = std::move(function)](const ffi::Call& call) mutable {
          function(call);
          return std::string();
        },
        std::move(shapes), std::move(options));
  } else {
    return detail::register_function(op, std::move(function), std::move(shapes), std::move(options));
  }
}

// The StableHLO text that jax.export writes (exported.mlir_module()). Each file is for one list of shapes; a
// call takes the file that fits. Where no schema is known, it is made of the first file: "x0", "x1", … are
// tensors.
struct KernelOptions {
  // Files whose @main takes the inputs and the gradients of the results (as exported.vjp()), or the inputs,
  // the results and their gradients, and gives the gradients of the floating inputs. One for each forward
  // file.
  std::vector<Path> gradient_files = {};
  Gradient gradient = {};  // or this
};
UserOp register_kernel(const std::string& op, const std::vector<Path>& files, KernelOptions options = {});
inline UserOp register_kernel(const std::string& op, const Path& file, KernelOptions options = {}) {
  return register_kernel(op, std::vector<Path>{file}, std::move(options));
}

}  // namespace tpubridge
