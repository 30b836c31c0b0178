// c10d's backend for tensors of the device. What it is asked for is traced, so it is done at once as far as
// the caller can see; the values come when somebody reads them.
#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/distributed/job.h"
#include "tpubridge/distributed/process_group.h"

namespace tpubridge::distributed {
namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class Traced final : public c10d::Work {
 public:
  Traced(int64_t rank, c10d::OpType type, Tensors results)
      : Work(static_cast<int>(rank), type), results_(std::move(results)) {
    finish();
  }
  Tensors result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(results_));
    return future;
  }

 private:
  Tensors results_;
};

[[noreturn]] void not_there(const std::string& why, std::string hint) {
  throw TPUDistributedError(why, {{"rank", std::to_string(rank())}}, std::move(hint), Code::unsupported);
}

std::string name_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "mean";
    case c10d::ReduceOp::PRODUCT:
      return "product";
    case c10d::ReduceOp::MIN:
      return "min";
    case c10d::ReduceOp::MAX:
      return "max";
    default:
      not_there("this reduction is not there on the device", "Use sum, avg, product, min or max.");
  }
}

// What this rank has no use for, while another may wait for it: it runs at once. A step runs as a whole.
void run_unread(const at::Tensor& given) {
  if (!device::recording()) (void)given.cpu();
}

class DeviceBackend final : public c10d::Backend {
 public:
  DeviceBackend(int64_t rank, int64_t world) : Backend(static_cast<int>(rank), static_cast<int>(world)) {}
  const std::string getBackendName() const override { return "tpubridge"; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& o) override {
    return in_place(tensors, c10d::OpType::ALLREDUCE,
                    [&](const at::Tensor& t) { return all_reduce(t, name_of(o.reduceOp)); });
  }
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& o) override {
    return allreduce(tensors, o);
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& o) override {
    return in_place(tensors, c10d::OpType::BROADCAST,
                    [&](const at::Tensor& t) { return distributed::broadcast(t, o.rootRank); });
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& o) override {
    return in_place(tensors, c10d::OpType::REDUCE, [&](const at::Tensor& t) {
      const auto all = all_reduce(t, name_of(o.reduceOp));
      if (getRank() == o.rootRank) return all;
      run_unread(all);
      return t;
    });
  }

  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions&) override {
    const at::NoGradGuard no_grad;
    Tensors done;
    for (size_t i = 0; i < inputs.size(); ++i) gather_into(outputs.at(i), inputs[i], done);
    return traced(c10d::OpType::ALLGATHER, std::move(done));
  }
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& o) override {
    return allgather(outputs, inputs, o);
  }
  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions&) override {
    const at::NoGradGuard no_grad;
    out.copy_(all_gather(in).view(out.sizes()));
    return traced(c10d::OpType::_ALLGATHER_BASE, {out});
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& o) override {
    for (size_t i = 0; i < inputs.size(); ++i) (void)_allgather_base(outputs.at(i), inputs[i], o);
    return traced(c10d::OpType::COALESCED, outputs);
  }
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& o) override {
    const at::NoGradGuard no_grad;
    Tensors done;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (getRank() == o.rootRank)
        gather_into(outputs.at(i), inputs[i], done);
      else
        run_unread(all_gather(inputs[i].unsqueeze(0)));  // as gather_into() does
    }
    return traced(c10d::OpType::GATHER, std::move(done));
  }
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& o) override {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const at::Tensor& mine = outputs[i];
      const auto all =
          getRank() == o.rootRank ? at::stack(inputs.at(i)) : at::zeros(sizes_of_all(mine), mine.options());
      mine.copy_(distributed::broadcast(all, o.rootRank).select(0, getRank()));
    }
    return traced(c10d::OpType::SCATTER, outputs);
  }

  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& o) override {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < outputs.size(); ++i)
      outputs[i].copy_(
          distributed::reduce_scatter(at::stack(inputs.at(i)), name_of(o.reduceOp)).view(outputs[i].sizes()));
    return traced(c10d::OpType::REDUCE_SCATTER, outputs);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                               const c10d::ReduceScatterOptions& o) override {
    const at::NoGradGuard no_grad;
    out.copy_(distributed::reduce_scatter(by_ranks(in), name_of(o.reduceOp)).view(out.sizes()));
    return traced(c10d::OpType::_REDUCE_SCATTER_BASE, {out});
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& o) override {
    for (size_t i = 0; i < inputs.size(); ++i) (void)_reduce_scatter_base(outputs.at(i), inputs[i], o);
    return traced(c10d::OpType::COALESCED, outputs);
  }

  WorkPtr alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_counts,
                        std::vector<int64_t>& in_counts, const c10d::AllToAllOptions&) override {
    const at::NoGradGuard no_grad;
    for (const auto* counts : {&out_counts, &in_counts})
      for (const int64_t n : *counts)
        if (n != counts->front() || n * getSize() != in.size(0))
          not_there("all_to_all with parts of different sizes is not there on the device",
                    "Pad the parts to one size, or exchange copies on the host (.cpu()).");
    out.copy_(all_to_all(in).view(out.sizes()));
    return traced(c10d::OpType::ALLTOALL_BASE, {out});
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) override {
    const at::NoGradGuard no_grad;
    for (const auto& t : inputs)
      if (t.sizes() != inputs[0].sizes())
        not_there("all_to_all with parts of different sizes is not there on the device",
                  "Pad the parts to one size, or exchange copies on the host (.cpu()).");
    const auto all = all_to_all(at::stack(inputs));
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].copy_(all.select(0, static_cast<int64_t>(i)));
    return traced(c10d::OpType::ALLTOALL, outputs);
  }

  WorkPtr send(Tensors& tensors, int to, int tag) override {
    for (const auto& t : tensors) distributed::send(t, to, tag);
    return traced(c10d::OpType::SEND, {});
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    return in_place(tensors, c10d::OpType::RECV,
                    [&](const at::Tensor& t) { return distributed::recv(t, from, tag); });
  }
  WorkPtr recvAnysource(Tensors&, int) override {
    not_there("receiving from anybody is not there on the device", "Say from whom.");
  }
  WorkPtr barrier(const c10d::BarrierOptions&) override {
    distributed::barrier();
    return traced(c10d::OpType::BARRIER, {});
  }

 private:
  [[nodiscard]] WorkPtr traced(c10d::OpType type, Tensors results) const {
    return c10::make_intrusive<Traced>(getRank(), type, std::move(results));
  }
  template <class F>
  WorkPtr in_place(const Tensors& tensors, c10d::OpType type, F change) const {
    const at::NoGradGuard no_grad;
    for (const auto& t : tensors) t.copy_(change(t));
    return traced(type, tensors);
  }
  static void gather_into(Tensors& outputs, const at::Tensor& input, Tensors& done) {
    const auto all = all_gather(input.unsqueeze(0));
    for (size_t r = 0; r < outputs.size(); ++r) {
      outputs[r].copy_(all.select(0, static_cast<int64_t>(r)).view(outputs[r].sizes()));
      done.push_back(outputs[r]);
    }
  }
  [[nodiscard]] std::vector<int64_t> sizes_of_all(const at::Tensor& one) const {
    std::vector<int64_t> out = one.sizes().vec();
    out.insert(out.begin(), getSize());
    return out;
  }
  // c10d's flat form: as many elements as all parts together, in any shape.
  [[nodiscard]] at::Tensor by_ranks(const at::Tensor& in) const {
    if (in.numel() % getSize() != 0)
      not_there("reduce_scatter: " + std::to_string(in.numel()) + " elements have no " +
                    std::to_string(getSize()) + " equal parts",
                "Pad them.");
    return in.reshape({getSize(), in.numel() / getSize()});
  }
};

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> process_group() {
  static std::mutex mutex;
  static auto* known = new c10::intrusive_ptr<c10d::ProcessGroup>;  // as long as the process
  const std::lock_guard lock(mutex);
  if (*known) return *known;
  Job& j = job();
  const auto [rank, world] = std::pair(static_cast<int>(j.place().rank), static_cast<int>(j.place().world));
  auto group = c10::make_intrusive<c10d::ProcessGroup>(j.own_store(), rank, world);
  using Type = c10d::ProcessGroup::BackendType;
  group->setBackend(at::kCPU, Type::GLOO, j.host_backend());
  group->setBackend(at::kPrivateUse1, Type::CUSTOM, c10::make_intrusive<DeviceBackend>(rank, world));
  group->setDefaultBackend(Type::CUSTOM);
  group->setGroupName("tpubridge");
  c10d::register_process_group("tpubridge", group);
  return *known = std::move(group);
}

}  // namespace tpubridge::distributed
