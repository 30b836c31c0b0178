#include "tpubridge/mesh/partitioner.h"

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/device/torch.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/lower/program.h"

namespace tpubridge::mesh {
namespace {

using trace::Graph;
using trace::Value;

std::optional<int64_t> batch_of(const std::vector<at::Tensor>& arguments) {
  for (const auto& t : arguments)
    if (t.defined() && t.dim() > 0) return t.size(0);
  return std::nullopt;
}

exec::BufferData& data_of(const Value& v) { return static_cast<exec::BufferData&>(*v->data(v.index())); }

constexpr const char* kMesh = "mesh";

// Each device has its part of the leaves that are split along the batch, and all of the others and of the
// results.
lower::Partitions along_the_batch(const Graph& graph, const std::vector<bool>& split, int devices) {
  lower::Partitions p{.mesh = hlo::Mesh{.name = kMesh, .axes = {{"batch", devices}}}};
  const auto whole = [](const Shape& shape) {
    return hlo::Sharding{.mesh = kMesh, .dims = std::vector<std::vector<std::string>>(shape.dims.size())};
  };
  for (size_t i = 0; i < graph.leaves.size(); ++i) {
    p.leaves.push_back(whole(graph.leaves[i].shape()));
    if (split[i]) p.leaves.back().dims[0] = {"batch"};
  }
  for (const auto& root : graph.roots) p.results.emplace_back(whole(root.shape()));
  return p;
}

exec::Mode mode_of(const pjrt::CompileOptions& options, const std::vector<bool>& split) {
  exec::Mode mode = exec::this_mode(options);
  std::string text;
  for (const bool s : split) text += s ? '1' : '0';
  mode.add("split", text);
  return mode;
}

}  // namespace

void check_batch(const std::vector<at::Tensor>& arguments) {
  const auto batch = batch_of(arguments);
  const int devices = exec::device_count();
  if (!batch || *batch % devices == 0) return;
  throw distributed_error("partition",
                          "a batch of " + std::to_string(*batch) + " cannot be split over " +
                              std::to_string(devices) + " devices",
                          "Give a batch of a multiple of " + std::to_string(devices) + ", for example " +
                              std::to_string((*batch / devices + 1) * devices) + ".");
}

CompiledStep<std::function<std::vector<at::Tensor>(at::Tensor)>> Partitioner::slicer(int devices) {
  const auto slice = [devices](const at::Tensor& whole) {
    const int64_t rows = whole.size(0) / devices;
    std::vector<at::Tensor> parts;
    for (int i = 0; i < devices; ++i) parts.push_back(whole.narrow(0, i * rows, rows).clone());
    return parts;
  };
  return {slice, StepOptions{.programs = 64, .name = "parts of a batch"}};
}

Partitioner::Parts Partitioner::parts_of(const at::Tensor& whole) {
  at::NoGradGuard no_grad;
  const auto parts = slice_(whole.detach());
  const exec::Lock lock(exec::mutex());
  Parts out{device::read(parts[0])};
  for (int i = 1; i < devices_; ++i)
    out.push_back(exec::copy_to(device::read(parts[static_cast<size_t>(i)]), i));
  return out;
}

void Partitioner::begin(const std::vector<at::Tensor>& arguments) {
  check_batch(arguments);
  const int64_t batch = batch_of(arguments).value_or(0);
  split_.assign(arguments.size(), false);
  parts_.assign(arguments.size(), {});
  for (size_t i = 0; i < arguments.size(); ++i) {
    const at::Tensor& a = arguments[i];
    if (!a.defined() || a.dim() == 0 || a.size(0) != batch || batch == 0) continue;
    split_[i] = true;
    if (!exec::compiling_afresh()) parts_[i] = parts_of(a);
  }
}

exec::Ready Partitioner::program(const Graph& graph, const std::vector<bool>& split) {
  for (const auto& r : graph.roots)
    if (r->device() != 0)
      throw distributed_error("partition",
                              "a partitioned call computes on device " + std::to_string(r->device()),
                              "Everything it uses must be on the first device.");
  pjrt::CompileOptions options;
  options.num_partitions = devices_;
  options.use_spmd_partitioning = options.use_shardy = true;
  for (int i = 0; i < devices_; ++i) options.devices.push_back(exec::device(i).id());
  const exec::Mode mode = mode_of(options, split);
  if (auto known = exec::compiling_afresh() ? nullptr : exec::find_structure(graph, mode))
    return {std::move(known)};
  std::vector<int64_t> donated = trace::private_leaves(graph);
  std::erase_if(donated, [&](int64_t i) { return split[static_cast<size_t>(i)]; });
  const auto platform = lower::platform_named(exec::client().platform_name());
  const std::string text = lower::program(graph, exec::donations(graph, donated, 0), platform,
                                          along_the_batch(graph, split, devices_));
  return exec::program_over(text, options, mode, exec::structure_of(graph), std::move(donated));
}

const Partitioner::Copies& Partitioner::copies_of(const std::shared_ptr<trace::DeviceData>& first) {
  const auto& data = static_cast<const exec::BufferData&>(*first);
  Copies& c = copies_[first.get()];
  if (c.of.lock() == first && c.version == data.version) return c;
  c = {first, data.version, {}};
  for (int i = 1; i < devices_; ++i) {
    exec::check_memory(i, data.buffer().shape().bytes(),
                       "copying " + data.buffer().shape().str() + " between devices");
    c.values.push_back(exec::leaf_of(data.buffer().copy_to(exec::device(i)), data.buffer().shape(), i));
  }
  const std::lock_guard lock(mutex_);
  copied_ += devices_ - 1;
  return c;
}

std::vector<pjrt::Buffer> Partitioner::run(const exec::Compiled& compiled, const std::vector<Input>& leaves,
                                           const std::vector<std::vector<const pjrt::Buffer*>>& packs,
                                           const std::vector<int64_t>& not_donated) {
  std::vector<std::vector<const pjrt::Buffer*>> lists(static_cast<size_t>(devices_));
  const auto add = [&](size_t device, const Value& v) {
    lists[device].push_back(&exec::buffer_of(*v.node(), v.index()));
  };
  for (const auto& leaf : leaves) {
    if (leaf.argument) {
      const Parts& parts = parts_[*leaf.argument];
      for (size_t d = 0; d < lists.size(); ++d) add(d, parts[d]);
      continue;
    }
    const Copies& copies = copies_of(leaf.data);
    lists[0].push_back(&static_cast<const exec::BufferData&>(*leaf.data).buffer());
    for (size_t d = 1; d < lists.size(); ++d) add(d, copies.values[d - 1]);
  }
  for (const auto& pack : packs)
    for (size_t d = 0; d < lists.size(); ++d) lists[d].push_back(pack[d]);
  for (int d = 0; d < devices_; ++d) exec::check_memory(d, compiled.needs, "a partitioned call");
  others_ = exec::execute_all(*compiled.program, lists, not_donated);
  parts_.clear();
  auto first = std::move(others_[0]);
  if (copies_.size() > 2 * leaves.size() + 16)
    std::erase_if(copies_, [](const auto& c) { return c.second.of.expired(); });
  const std::lock_guard lock(mutex_);
  if (compiled.program->signature()) parameters_ = compiled.program->signature()->parameters;
  return first;
}

void Partitioner::keep(const std::vector<Kept>& kept) {
  for (const auto& k : kept) {
    const auto& first = k.value->data(k.value.index());
    const uint64_t version = data_of(k.value).version;
    Copies& c = copies_[first.get()];
    const bool known = c.of.lock() == first;
    if (known && c.version == version) continue;  // two tensors that hold one result
    if (!known) c.values.clear();
    for (size_t d = 1; d < others_.size(); ++d) {
      pjrt::Buffer& result = others_[d][k.root];
      if (known)
        data_of(c.values[d - 1]).replace(std::move(result));
      else
        c.values.push_back(exec::leaf_of(std::move(result), k.value.shape(), static_cast<int>(d)));
    }
    c.of = first;
    c.version = version;
  }
  others_.clear();
}

int64_t Partitioner::copied() const {
  const std::lock_guard lock(mutex_);
  return copied_;
}
std::vector<Shape> Partitioner::parameters() const {
  const std::lock_guard lock(mutex_);
  return parameters_;
}

}  // namespace tpubridge::mesh
