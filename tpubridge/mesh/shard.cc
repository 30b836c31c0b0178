// Laying tensors out over a mesh, and looking how they lie.
#include <torch/csrc/autograd/custom_function.h>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/api.h"
#include "tpubridge/device/arguments.h"
#include "tpubridge/device/dtype.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/mesh/layout.h"

namespace tpubridge {
namespace {

using mesh::layout_over;

void check_defined(const char* operation, const at::Tensor& t) {
  if (!t.defined()) throw distributed_error(operation, "the tensor is undefined");
}

// One node that changes nothing but where the value lies.
at::Tensor laid_out(const at::Tensor& t, const exec::Layout& layout) {
  const exec::Lock lock(exec::mutex());
  device::Arguments a(t.device());
  a.tensor(t);
  a.constant(layout.grid->text());
  a.constant(layout.text());
  static const lower::Row* row = lower::find("tpubridge::constrain");
  const auto values = std::move(a).record(row, {device::shape_of(t)});
  at::Tensor out = device::dense_tensor(values[0], t.scalar_type(), t.device());
  device::after_op(t.device().index());
  return out;
}

struct Constrain : torch::autograd::Function<Constrain> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& t,
                            const std::string& grid, const std::string& text) {
    ctx->saved_data["grid"] = grid;
    ctx->saved_data["text"] = text;
    return laid_out_by(t, grid, text);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor& g = gradients[0];
    if (!g.defined()) return {at::Tensor(), at::Tensor(), at::Tensor()};
    return {Constrain::apply(g, ctx->saved_data["grid"].toStringRef(), ctx->saved_data["text"].toStringRef()),
            at::Tensor(), at::Tensor()};
  }
  static at::Tensor laid_out_by(const at::Tensor& t, const std::string& grid, const std::string& text);
};

exec::Layout layout_of_text(const std::string& grid, const std::string& text, int64_t rank) {
  exec::Layout out = exec::replicated_over(exec::grid_of_text(grid), static_cast<size_t>(rank));
  size_t d = 0;
  std::string name;
  const auto end_of_name = [&] {
    for (size_t a = 0; a < out.grid->axes.size(); ++a)
      if (!name.empty() && out.grid->axes[a].first == name) out.dims[d].push_back(static_cast<int>(a));
    name.clear();
  };
  for (const char c : text) {
    if (c == ',' || c == '+')
      end_of_name();
    else
      name += c;
    if (c == ',') ++d;
  }
  if (rank > 0) end_of_name();
  return out;
}

at::Tensor Constrain::laid_out_by(const at::Tensor& t, const std::string& grid, const std::string& text) {
  return laid_out(t, layout_of_text(grid, text, t.dim()));
}

at::Tensor from_host(const at::Tensor& t, const exec::Layout& layout, c10::Device device) {
  const at::Tensor dense = t.detach().contiguous();
  const Shape shape = device::shape_of(dense);
  return device::dense_tensor(exec::to_devices(dense.const_data_ptr(), shape, {}, layout),
                              dense.scalar_type(), device);
}

at::Tensor on_mesh(const char* operation, const at::Tensor& t, const Mesh& mesh) {
  if (device::is_tpu(t) && t.device() != mesh.device())
    throw distributed_error(operation,
                            "a tensor on " + t.device().str() + " for a mesh on " + mesh.device().str(),
                            "Move it there first: t.to(mesh.device()).");
  return t.to(mesh.device());
}

// Its data, where it lies on several devices.
std::shared_ptr<const exec::BufferData> spread_data(const at::Tensor& t) {
  if (!t.defined() || !device::is_tpu(t)) return nullptr;
  const trace::Value v = device::read(t);
  exec::materialise(t.device().index(), {v}, "sharding");
  (void)exec::data_of(*v.node(), v.index());  // throws where it is gone
  auto data = std::static_pointer_cast<const exec::BufferData>(v->data(v.index()));
  return data->spread() ? data : nullptr;
}

}  // namespace

at::Tensor constrain(const at::Tensor& t, const Mesh& mesh, const Split& split) {
  check_defined("constrain", t);
  const exec::Layout layout = layout_over("constrain", t.sizes(), mesh, split);
  if (!device::is_tpu(t))
    throw distributed_error("constrain", "the tensor is not on the device", "shard() brings it there.");
  return Constrain::apply(on_mesh("constrain", t, mesh), layout.grid->text(), layout.text());
}

at::Tensor shard(const at::Tensor& t, const Mesh& mesh, const Split& split) {
  check_defined("shard", t);
  const exec::Layout layout = layout_over("shard", t.sizes(), mesh, split);
  const bool differentiable = at::GradMode::is_enabled() && t.requires_grad();
  if (t.is_cpu() && !differentiable && !device::recording()) return from_host(t, layout, mesh.device());
  const at::Tensor out = constrain(on_mesh("shard", t, mesh), mesh, split);
  if (!device::recording()) sync(out);
  return out;
}

at::Tensor replicate(const at::Tensor& t, const Mesh& mesh) { return shard(t, mesh, {}); }

void shard_(at::Tensor& t, const Mesh& mesh, const Split& split) {
  check_defined("shard_", t);
  const torch::NoGradGuard no_grad;
  t.set_data(shard(t.detach(), mesh, split));
}

at::Tensor unshard(const at::Tensor& t) {
  const exec::Lock lock(exec::mutex());
  const auto data = spread_data(t);
  if (!data) return t;
  const at::Tensor host = t.detach().cpu();
  return host.to(t.device());
}

std::optional<Sharding> sharding_of(const at::Tensor& t) {
  const exec::Lock lock(exec::mutex());
  const auto data = spread_data(t);
  if (!data) return std::nullopt;
  const auto& layout = data->spread()->layout;
  return Sharding{Mesh(layout.grid), mesh::split_of(layout)};
}

std::vector<Part> parts_of(const at::Tensor& t) {
  const exec::Lock lock(exec::mutex());
  check_defined("parts_of", t);
  const auto data = spread_data(t);
  if (!data)
    throw distributed_error("parts_of", "the tensor is on one device", "shard() lays it out over several.");
  const exec::Spread& s = *data->spread();
  std::vector<Part> out;
  for (size_t i = 0; i < s.layout.grid->devices.size(); ++i) {
    const pjrt::Buffer& part = i == 0 ? data->as_it_is() : s.others[i - 1];
    at::Tensor host = at::empty(part.shape().dims, t.scalar_type());
    part.to_host(host.mutable_data_ptr(), host.nbytes());
    out.push_back({s.layout.grid->devices[i], s.layout.begin(s.whole, i), std::move(host)});
  }
  return out;
}

at::Tensor from_parts(const std::vector<at::Tensor>& parts, const Mesh& mesh, const Split& split) {
  constexpr const char* kName = "from_parts";
  if (parts.size() != mesh.devices().size())
    throw distributed_error(kName, std::to_string(parts.size()) + " parts for " +
                                       std::to_string(mesh.devices().size()) + " devices");
  for (const auto& p : parts) {
    check_defined(kName, p);
    if (!p.is_cpu() || p.sizes() != parts[0].sizes() || p.scalar_type() != parts[0].scalar_type())
      throw distributed_error(kName, "the parts are not on the CPU, or differ in size or type");
  }
  exec::Layout layout = exec::replicated_over(mesh.grid(), static_cast<size_t>(parts[0].dim()));
  std::vector<int64_t> whole = parts[0].sizes().vec();
  for (size_t d = 0; d < split.size() && d < whole.size(); ++d)
    for (const auto& axis : split[d].axes) whole[d] *= mesh.size(axis);
  layout = layout_over(kName, whole, mesh, split);
  std::vector<pjrt::Buffer> buffers;
  const DType type = device::shape_of(parts[0]).dtype;
  for (size_t i = 0; i < parts.size(); ++i) {
    const at::Tensor dense = parts[i].contiguous();
    buffers.push_back(exec::client().to_device(
        pjrt::HostArray{dense.const_data_ptr(), Shape{type, dense.sizes().vec()}, {}},
        exec::device(mesh.devices()[i])));
  }
  return device::dense_tensor(exec::spread_leaf(std::move(buffers), Shape{type, whole}, layout),
                              parts[0].scalar_type(), mesh.device());
}

}  // namespace tpubridge
