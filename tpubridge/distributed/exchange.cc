#include "tpubridge/distributed/exchange.h"

#include <ATen/ATen.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/distributed/job.h"

namespace tpubridge::distributed {
namespace {

std::vector<Shape> shapes_of(const OpCall& call) {
  const Shape &x = call.shape("x"), &token = call.shape("token");
  const std::string kind = call.text("kind");
  if (kind == "send" || kind == "barrier") return {token, token};
  std::vector<int64_t> dims = x.dims;
  if (kind == "all_gather") dims.at(0) *= job().place().world;
  if (kind == "reduce_scatter") dims.at(0) /= job().place().world;
  return {Shape(x.dtype, dims), token};
}

// What each rank adds to the sum of all losses.
std::vector<at::Tensor> gradient_of(const GradientCall& call) {
  const at::Tensor& g = call.gradients[0];
  const std::string kind = call.arguments[3].toStringRef(), reduction = call.arguments[4].toStringRef();
  const int64_t root = call.arguments[5].toInt();
  if (!g.defined()) return {at::Tensor(), at::Tensor()};
  const bool sums = reduction == "sum" || reduction == "mean";
  if (kind == "all_reduce" && sums) return {all_reduce(g, reduction), at::Tensor()};
  if (kind == "all_gather") return {reduce_scatter(g, "sum"), at::Tensor()};
  if (kind == "reduce_scatter" && sums) {
    const auto all = all_gather(g);
    return {reduction == "mean" ? all / world_size() : all, at::Tensor()};
  }
  if (kind == "broadcast") {
    const auto all = all_reduce(g, "sum");
    return {rank() == root ? all : at::zeros_like(all), at::Tensor()};
  }
  if (kind == "all_to_all") return {all_to_all(g), at::Tensor()};
  throw UnsupportedError(kind + (reduction.empty() ? "" : " by " + reduction) + " has no gradient", {},
                         "detach() what goes into it.");
}

}  // namespace

const UserOp& exchange_op() {
  static const UserOp op = register_ffi(
      "tpubridge_process::exchange(Tensor x, Tensor token, str group, str kind, str reduction, int other, "
      "int tag) -> (Tensor, Tensor)",
      [](const ffi::Call& call) { return job().group(call.text("group")).exchange(call); }, shapes_of,
      {.gradient = gradient_of});
  return op;
}

}  // namespace tpubridge::distributed
