// The collectives as their users see them.
#include <ATen/ATen.h>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/dtype.h"
#include "tpubridge/distributed/job.h"

namespace tpubridge::distributed {
namespace {

[[noreturn]] void refuse(const std::string& kind, const std::string& why, std::string hint = {}) {
  throw TPUDistributedError(kind + ": " + why, {{"rank", std::to_string(rank())}}, std::move(hint),
                            Code::invalid_argument);
}

at::Tensor exchanged(const at::Tensor& x, const std::string& kind, const std::string& reduction = "",
                     int64_t other = 0, int64_t tag = 0) {
  Job& j = job();
  if (!x.defined()) refuse(kind, "the tensor is undefined");
  const auto dtype = device::dtype_of(x.scalar_type());
  if (!dtype || x.layout() != at::kStrided)
    refuse(kind, "tensors of this kind cannot be exchanged: " + x.toString());
  if (!reduction.empty()) check_reduction(*dtype, reduction);
  if (other < 0 || other >= j.place().world)
    refuse(kind, "there is no rank " + std::to_string(other) + " among " + std::to_string(j.place().world));
  if (x.is_privateuseone()) return j.exchange(x, kind, reduction, other, tag);
  const at::Device device(at::kPrivateUse1, j.first_device());
  return j.exchange(x.to(device), kind, reduction, other, tag).to(x.device());
}

void check_parts(const at::Tensor& x, const std::string& kind) {
  const int64_t world = job().place().world;
  if (x.defined() && (x.dim() == 0 || x.size(0) % world != 0))
    refuse(
        kind,
        "the first dimension of " + c10::str(x.sizes()) + " has no " + std::to_string(world) + " equal parts",
        "Pad it to a multiple of the number of processes.");
}

}  // namespace

at::Tensor all_reduce(const at::Tensor& x, const std::string& reduction) {
  if (reduction.empty()) refuse("all_reduce", "the reduction has no name");
  return exchanged(x, "all_reduce", reduction);
}

at::Tensor all_gather(const at::Tensor& x) {
  if (x.defined() && x.dim() == 0) return exchanged(x.view({1}), "all_gather");
  return exchanged(x, "all_gather");
}

at::Tensor reduce_scatter(const at::Tensor& x, const std::string& reduction) {
  if (reduction.empty()) refuse("reduce_scatter", "the reduction has no name");
  check_parts(x, "reduce_scatter");
  return exchanged(x, "reduce_scatter", reduction);
}

at::Tensor broadcast(const at::Tensor& x, int64_t root) { return exchanged(x, "broadcast", "", root); }

at::Tensor all_to_all(const at::Tensor& x) {
  check_parts(x, "all_to_all");
  return exchanged(x, "all_to_all");
}

namespace {
void check_message(const char* kind, int64_t other, int64_t tag) {
  if (other == rank()) refuse(kind, "a process cannot send to itself");
  if (tag < 0 || tag > 1'000'000'000) refuse(kind, "a tag is a number from 0 to 1000000000");
}
}  // namespace

void send(const at::Tensor& x, int64_t to, int64_t tag) {
  check_message("send", to, tag);
  const at::NoGradGuard no_grad;
  (void)exchanged(x, "send", "", to, tag);
}

at::Tensor recv(const at::Tensor& x, int64_t from, int64_t tag) {
  check_message("recv", from, tag);
  const at::NoGradGuard no_grad;
  return exchanged(x, "recv", "", from, tag);
}

void barrier() {
  const at::NoGradGuard no_grad;
  const auto x = at::zeros({1}, at::TensorOptions(at::kInt).device(at::kPrivateUse1, job().first_device()));
  (void)job().exchange(x, "barrier", "", 0, 0).cpu();
}

}  // namespace tpubridge::distributed
