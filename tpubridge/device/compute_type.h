// The type that a layer computes in, where that is another than the type its parameters are kept in.
//
//   set_compute_type(linear->weight, at::kBFloat16);   // products in bf16, the weight stays f32
//   auto y = linear->forward(x);                       // x of any type; y is f32
//
// Belongs to the parameter, as one object: moving it, new values and optimizer steps leave it. Each op that
// has weights (linear, convolutions, norms, recurrent layers, matrix products) converts its floating-point
// arguments to the type of its weight, and its result to f32; an embedding's rows are rounded to it. The
// conversions are part of the autograd graph: gradients of products are products in the same type, and a
// parameter's gradient has the parameter's own type. Nothing changes for parameters without such a type, and
// nothing is even registered before the first one has one. Only on the device "tpu".
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>

namespace c10 {
class OperatorHandle;
}

namespace tpubridge {

void set_compute_type(const at::Tensor& parameter, std::optional<at::ScalarType> type);  // none: its own
// Of a parameter, or of a view of one.
[[nodiscard]] std::optional<at::ScalarType> compute_type(const at::Tensor& parameter);

// How often any parameter got another one: what was recorded before may compute otherwise now.
[[nodiscard]] uint64_t compute_type_changes();

// Runs an op in the type of its weights, where they have one. For kernels that take the place of torch's own.
using BoxedOp = void (*)(const c10::OperatorHandle&, torch::jit::Stack*);
void in_compute_type(const c10::OperatorHandle& op, torch::jit::Stack* stack, BoxedOp run);

}  // namespace tpubridge
