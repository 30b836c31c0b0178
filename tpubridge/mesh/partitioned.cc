// Trace, split the arguments, run everywhere, keep what the first device has.
#include "tpubridge/mesh/partitioned.h"

#include <map>
#include <mutex>
#include <unordered_map>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/program.h"
#include "tpubridge/step/record.h"

namespace tpubridge::mesh {
namespace {

using device::Recording;
using trace::Graph;
using trace::Value;
using Output = std::pair<const trace::Node*, uint32_t>;

// A computed value on every device but the first; good while the first one's data is there and the same.
struct Copies {
  std::weak_ptr<trace::DeviceData> of;
  uint64_t version = 0;
  std::vector<Value> values;  // on devices 1, 2, …
};

std::optional<int64_t> batch_of(const std::vector<at::Tensor>& arguments) {
  for (const auto& t : arguments)
    if (t.defined() && t.dim() > 0) return t.size(0);
  return std::nullopt;
}

exec::BufferData& data_of(const Value& v) { return static_cast<exec::BufferData&>(*v->data(v.index())); }

// A computed value of this tensor, which is dense.
Value computed(const at::Tensor& t) {
  Value v = device::read(t);
  if (v->is_pending()) exec::materialise(t.device().index(), {v}, "argument of a partitioned call");
  return v;
}

// Parts of the argument along its first dimension, part i on device i.
std::vector<Value> split(const at::Tensor& whole, int devices) {
  const int64_t rows = whole.size(0) / devices;
  std::vector<at::Tensor> parts;
  for (int i = 0; i < devices; ++i) parts.push_back(whole.narrow(0, i * rows, rows).clone());
  std::vector<Value> out;
  for (const auto& p : parts) out.push_back(device::read(p));
  exec::materialise(0, out, "parts of a batch");
  for (int i = 1; i < devices; ++i)
    out[static_cast<size_t>(i)] = exec::copy_to(out[static_cast<size_t>(i)], i);
  return out;
}

// The structure of the graph with what is split how over how many devices.
exec::Key key_of(const Graph& graph, const lower::Partitions& p) {
  exec::Key key = graph.hash;
  uint64_t word = 0x51ed270b0badf00dull + static_cast<uint64_t>(p.devices);
  for (const bool s : p.split) word = (word ^ (s ? 2 : 1)) * 0x9e3779b97f4a7c15ull;
  key[0] ^= word;
  key[1] ^= word * 0xbf58476d1ce4e5b9ull;
  return exec::in_this_mode(key);
}

exec::Ready program_of(const Graph& graph, const lower::Partitions& p) {
  const exec::Key key = key_of(graph, p);
  if (auto known = exec::compiling_afresh() ? nullptr : exec::find_structure(key)) return {std::move(known)};
  pjrt::CompileOptions options;
  options.num_partitions = static_cast<int>(p.devices);
  options.use_spmd_partitioning = options.use_shardy = true;
  for (int i = 0; i < p.devices; ++i) options.devices.push_back(exec::device(i).id());
  const auto platform = lower::platform_named(exec::client().platform_name());
  return exec::program_over(lower::program(graph, {}, platform, p), options, key);
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

struct Partitioned::Impl {
  std::mutex mutex;
  int devices = exec::device_count();
  std::unordered_map<const trace::DeviceData*, Copies> copies;
  PartitionReport told;
  mutable std::mutex told_mutex;

  // One recorded call: what it left to compute, and which of its leaves are split.
  struct Traced {
    std::shared_ptr<Recording> recording;
    std::vector<at::Tensor> results;
    std::map<Output, std::vector<Value>> parts;  // of arguments that are split, one for each device
  };

  Traced trace(const std::vector<at::Tensor>& arguments,
               const std::function<std::vector<at::Tensor>()>& run) {
    check_batch(arguments);
    const auto batch = batch_of(arguments);
    Traced t;
    for (int i = 0; i < devices; ++i) exec::materialise(i, {}, "before a partitioned call");
    for (const auto& a : arguments) {
      if (!a.defined() || a.dim() == 0 || a.size(0) != *batch || *batch == 0) continue;
      const Value v = computed(a);
      auto& parts = t.parts[{v.node(), v.index()}];
      if (parts.empty() && !exec::compiling_afresh()) parts = split(a, devices);
    }
    t.recording = std::make_shared<Recording>(HostReads::refuse);
    step::touch_all(*t.recording, arguments);
    try {
      const device::RecordingScope scope(t.recording);
      t.results = run();
    } catch (...) {
      undo(t);
      throw;
    }
    step::touch_all(*t.recording, t.results);
    return t;
  }

  static void undo(const Traced& t) {
    const exec::Lock lock(exec::mutex());
    t.recording->undo();
  }

  [[nodiscard]] lower::Partitions partitions(const Graph& graph, const Traced& t) const {
    lower::Partitions p{.devices = devices, .split = {}};
    for (const auto& leaf : graph.leaves) p.split.push_back(t.parts.contains({leaf.node, leaf.index}));
    return p;
  }

  Graph collect(const Traced& t) const {
    auto roots = step::left_pending(*t.recording);
    for (const auto& r : roots)
      if (r->device() != 0)
        throw distributed_error("partition",
                                "a partitioned call computes on device " + std::to_string(r->device()),
                                "Everything it uses must be on the first device.");
    return roots.empty() ? Graph() : trace::collect(std::move(roots));
  }

  // The value of a leaf on each device.
  std::vector<Value> everywhere(const trace::Leaf& leaf, const Traced& t) {
    if (const auto p = t.parts.find({leaf.node, leaf.index}); p != t.parts.end()) return p->second;
    // Only a reference is taken. NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    const Value first(const_cast<trace::Node*>(leaf.node), leaf.index);
    Copies& c = copies[&data_of(first)];
    if (c.of.lock() != first->data(leaf.index) || c.version != data_of(first).version) {
      c = {first->data(leaf.index), data_of(first).version, {}};
      for (int i = 1; i < devices; ++i) c.values.push_back(exec::copy_to(first, i));
      note_copies(devices - 1);
    }
    std::vector<Value> out{first};
    out.insert(out.end(), c.values.begin(), c.values.end());
    return out;
  }

  void note_copies(int64_t n) {
    const std::lock_guard lock(told_mutex);
    told.copies += n;
  }

  // What the call wrote into tensors from before it: the other devices have it already.
  void keep_state(const Graph& graph, const Traced& t, std::vector<std::vector<pjrt::Buffer>>& outputs) {
    std::map<Output, size_t> roots;
    for (size_t i = 0; i < graph.roots.size(); ++i)
      roots[{graph.roots[i].node(), graph.roots[i].index()}] = i;
    for (const auto& f : t.recording->found) {
      const auto alive = f.storage.lock();
      if (!alive || !f.value) continue;
      const Value& now = static_cast<device::Storage&>(*alive).slot.value();
      const auto root = now ? roots.find({now.node(), now.index()}) : roots.end();
      if (root == roots.end()) continue;
      Copies c{now->data(now.index()), data_of(now).version, {}};
      for (int d = 1; d < devices; ++d)
        c.values.push_back(
            exec::leaf_of(std::move(outputs[static_cast<size_t>(d)][root->second]), now.shape(), d));
      copies[&data_of(now)] = std::move(c);
      roots.erase(root);
    }
  }

  void execute(const Graph& graph, const Traced& t) {
    const exec::Ready ready = program_of(graph, partitions(graph, t));
    const auto& program = *ready.program->program;
    std::vector<Value> held;
    std::vector<pjrt::Buffer> packs;
    std::vector<std::vector<const pjrt::Buffer*>> lists(static_cast<size_t>(devices));
    for (const auto& leaf : graph.leaves) {
      auto values = everywhere(leaf, t);
      for (size_t d = 0; d < lists.size(); ++d)
        lists[d].push_back(&exec::buffer_of(*values[d].node(), values[d].index()));
      for (auto& v : values) held.push_back(std::move(v));
    }
    const auto numbers = lower::number_packs(graph);
    packs.reserve(numbers.size() * lists.size());
    for (const auto& pack : numbers)
      for (int d = 0; d < devices; ++d) {
        packs.push_back(
            exec::client().to_device(pjrt::HostArray{pack.bytes.data(), pack.shape, {}}, exec::device(d)));
        lists[static_cast<size_t>(d)].push_back(&packs.back());
      }
    for (int d = 0; d < devices; ++d) exec::check_memory(d, ready.program->needs, "a partitioned call");
    ready.count();
    auto outputs = exec::execute_all(program, lists);
    exec::resolve(graph, std::move(outputs[0]));
    keep_state(graph, t, outputs);
    std::erase_if(copies, [](const auto& c) { return c.second.of.expired(); });
    const std::lock_guard lock(told_mutex);
    if (program.signature()) told.parameters = program.signature()->parameters;
  }
};

Partitioned::Partitioned() : impl_(std::make_unique<Impl>()) { impl_->told.devices = impl_->devices; }
Partitioned::~Partitioned() = default;

at::Tensor Partitioned::place(const at::Tensor& argument) {
  if (!argument.defined()) return argument;
  const at::Tensor t = argument.to(c10::Device(c10::DeviceType::PrivateUse1, 0));
  const bool whole = t.is_contiguous() && t.storage().nbytes() == t.nbytes();
  return whole ? t : t.clone(at::MemoryFormat::Contiguous);
}

std::vector<at::Tensor> Partitioned::call(const std::vector<at::Tensor>& arguments,
                                          const std::vector<uint64_t>&,
                                          const std::function<std::vector<at::Tensor>()>& run,
                                          std::shared_ptr<void>*& shape) {
  shape = nullptr;  // each call runs, so that results have their form
  if (device::recording() || exec::eager()) return run();
  Impl& m = *impl_;
  const std::lock_guard one_at_a_time(m.mutex);
  auto t = m.trace(arguments, run);
  try {
    const exec::Lock lock(exec::mutex());
    const Graph graph = m.collect(t);
    if (!graph.roots.empty()) m.execute(graph, t);
  } catch (...) {
    Impl::undo(t);
    throw;
  }
  const std::lock_guard lock(m.told_mutex);
  ++m.told.calls;
  return std::move(t.results);
}

std::shared_ptr<const void> Partitioned::prepare(const std::vector<at::Tensor>& arguments,
                                                 const std::function<std::vector<at::Tensor>()>& run) {
  Impl& m = *impl_;
  const std::lock_guard one_at_a_time(m.mutex);
  const auto t = m.trace(arguments, run);
  std::shared_ptr<const exec::Compiled> compiled;
  try {
    const exec::Lock lock(exec::mutex());
    const Graph graph = m.collect(t);
    if (!graph.roots.empty()) compiled = program_of(graph, m.partitions(graph, t)).program;
  } catch (...) {
    Impl::undo(t);
    throw;
  }
  Impl::undo(t);
  return compiled;
}

PartitionReport Partitioned::report() const {
  const std::lock_guard lock(impl_->told_mutex);
  return impl_->told;
}

}  // namespace tpubridge::mesh
