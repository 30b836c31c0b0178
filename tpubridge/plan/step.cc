#include "tpubridge/plan/step.h"

#include <torch/nn/module.h>

#include <map>
#include <set>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/text.h"
#include "tpubridge/device/quantized.h"
#include "tpubridge/export/refuse.h"
#include "tpubridge/lower/program.h"
#include "tpubridge/pjrt/ffi.h"
#include "tpubridge/step/tracer.h"

namespace tpubridge::plan {
namespace {

using step::Ended;
using step::Source;
using step::Target;

constexpr const char* kMesh = "mesh";

// Nothing is compiled here: another process does.
class NoCompiler final : public step::Runner {
 public:
  [[nodiscard]] int devices() const override { return 1; }
  void begin(const std::vector<at::Tensor>&) override {}
  [[nodiscard]] bool splits(size_t) const override { return false; }
  [[nodiscard]] exec::Ready program(const trace::Graph&, const std::vector<bool>&) override { return {}; }
  [[nodiscard]] std::vector<pjrt::Buffer> run(const exec::Compiled&, const std::vector<Input>&,
                                              const std::vector<std::vector<const pjrt::Buffer*>>&,
                                              const std::vector<int64_t>&) override {
    return {};
  }
  void keep(const std::vector<Kept>&) override {}
};

struct Known {
  Role role;
  std::string name;
};

// What is kept where, by its storage.
std::map<const c10::StorageImpl*, Known> known_storages(const StepToPlan& step) {
  std::map<const c10::StorageImpl*, Known> out;
  const auto add = [&](Role role, const std::string& name, const at::Tensor& t) {
    if (!t.defined() || !t.has_storage()) return;
    out.try_emplace(t.storage().unsafeGetStorageImpl(), Known{role, name});
    const auto packed = device::is_tpu(t) ? device::quantized_of(t) : nullptr;
    if (!packed) return;
    out.try_emplace(packed->packed.get(), Known{role, name + ".packed"});
    out.try_emplace(packed->scales.get(), Known{role, name + ".scales"});
  };
  for (const auto& t : step.inputs) add(Role::input, t.name, t.tensor);
  for (const auto& p : step.module->named_parameters()) add(Role::weight, p.key(), p.value());
  for (const auto& b : step.module->named_buffers()) add(Role::weight, b.key(), b.value());
  for (const auto& t : step.state) add(Role::state, t.name, t.tensor);
  return out;
}

int64_t size_of(const StepToPlan& step, const std::string& axis) {
  for (const auto& [name, size] : step.mesh)
    if (name == axis) return size;
  return 1;
}

// 4 bits are half a byte there.
int64_t dense_bytes(const Shape& shape) {
  const bool half = shape.dtype == DType::s4 || shape.dtype == DType::u4;
  return half ? (shape.elements() + 1) / 2 : shape.bytes();
}

class Planner {
 public:
  explicit Planner(const StepToPlan& step) : step_(step), known_(known_storages(step)) {
    for (const auto& [name, size] : step.mesh) out_.partitions *= size;
    for (const auto& input : step.inputs) arguments_.push_back(input.tensor);
  }

  PlannedStep run() {
    const StepOptions options{.modules = {step_.module}, .name = step_.name};
    NoCompiler runner;
    step::Tracer tracer(options, &runner);
    auto call = tracer.record(
        arguments_, [&] { return step_.call(arguments_); }, /*notes_zeros=*/false);
    const exec::Lock lock(exec::mutex());  // as long as the graph is used
    const Ended ended = tracer.finish(*call, arguments_, /*only_compile=*/true);
    try {
      write(ended);
    } catch (...) {
      call->results.clear();
      call->undo();
      throw;
    }
    call->results.clear();
    call->undo();
    return std::move(out_);
  }

 private:
  void write(const Ended& ended) {
    if (ended.graph.roots.empty())
      throw UnsupportedError("'" + step_.name + "' computes nothing on the device", {}, "",
                             Code::unsupported);
    lower::Partitions partitions;
    if (out_.partitions > 1) partitions.mesh = hlo::Mesh{.name = kMesh, .axes = step_.mesh};
    for (size_t i = 0; i < ended.recorded.leaves; ++i) add_leaf(ended, i, partitions);
    const auto donated = donations(ended);
    partitions.results.resize(ended.graph.roots.size());
    for (const auto& d : donated)
      if (partitions.mesh)
        partitions.results[static_cast<size_t>(*d.root)] = partitions.leaves[static_cast<size_t>(d.leaf)];
    for (const auto& pack : lower::number_packs(ended.graph))
      out_.parameters.push_back({Role::constant, "numbers", pack.shape, pack.shape.bytes()});
    out_.text = lower::program(ended.graph, donated, lower::Platform::tpu, partitions);
    if (ffi::is_called_by(out_.text))
      throw UnsupportedError(
          "'" + step_.name + "' calls C++ functions of this process, which a TPU cannot call",
          {{"custom call", std::string(ffi::kTarget)}}, "Give these ops a lowering (docs/kernels.md).",
          Code::unsupported);
  }

  void add_leaf(const Ended& ended, size_t i, lower::Partitions& partitions) {
    const Source& source = ended.recorded.sources[i];
    const Shape& shape = ended.graph.leaves[i].shape();
    const auto at = source.identity ? known_.find(source.identity) : known_.end();
    const Known known = at == known_.end() ? Known{Role::constant, "constant"} : at->second;
    Split split = partitions.mesh && step_.split ? step_.split(known.role, known.name, shape) : Split();
    split.resize(shape.dims.size());
    int64_t parts = 1;
    for (size_t d = 0; d < split.size(); ++d)
      for (const auto& axis : split[d]) parts *= checked(known.name, shape, d, split[d], axis);
    if (partitions.mesh) partitions.leaves.push_back({.mesh = kMesh, .dims = split});
    out_.parameters.push_back({known.role, known.name, shape, dense_bytes(shape) / parts});
  }

  // The size of the axis; a dimension that its axes do not divide is refused.
  int64_t checked(const std::string& name, const Shape& shape, size_t d, const std::vector<std::string>& axes,
                  const std::string& axis) const {
    int64_t all = 1;
    for (const auto& a : axes) all *= size_of(step_, a);
    if (shape.dims[d] % all != 0)
      throw distributed_error("fit",
                              quote(name) + " has " + std::to_string(shape.dims[d]) +
                                  " elements in dimension " + std::to_string(d) +
                                  ", which cannot be split over " + std::to_string(all) + " devices",
                              "Take a mesh (or a batch) that divides it.");
    return size_of(step_, axis);
  }

  // What a result takes the place of, as a compiled step does it.
  static std::vector<lower::Donation> donations(const Ended& ended) {
    std::vector<lower::Donation> out;
    std::set<size_t> roots, leaves;
    const auto& r = ended.recorded;
    for (const Target& t : r.targets) {
      if (t.kind != Target::Kind::captured || !t.is_root || t.from >= ended.graph.roots.size()) continue;
      for (size_t i = 0; i < r.leaves; ++i) {
        if (r.sources[i].identity != t.identity ||
            ended.graph.leaves[i].shape() != ended.graph.roots[t.from].shape())
          continue;
        if (leaves.insert(i).second && roots.insert(t.from).second)
          out.push_back({static_cast<int64_t>(i), static_cast<int64_t>(t.from)});
        break;
      }
    }
    return out;
  }

  const StepToPlan& step_;
  const std::map<const c10::StorageImpl*, Known> known_;
  std::vector<at::Tensor> arguments_;
  PlannedStep out_;
};

}  // namespace

PlannedStep plan_step(const StepToPlan& step) {
  const at::AutoGradMode gradients(step.training);
  return Planner(step).run();
}

}  // namespace tpubridge::plan
