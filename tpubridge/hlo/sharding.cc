#include "tpubridge/hlo/sharding.h"

#include <fmt/format.h>

#include <algorithm>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {

void check_mesh(const Mesh& m) {
  if (!is_symbol(m.name)) fail("sdy.mesh", fmt::format("'{}' is not a name", m.name));
  int64_t devices = 1;
  for (size_t i = 0; i < m.axes.size(); ++i) {
    const auto& [axis, size] = m.axes[i];
    if (axis.empty()) fail("sdy.mesh", fmt::format("an axis of '{}' has no name", m.name));
    if (size < 1 || __builtin_mul_overflow(devices, size, &devices))
      fail("sdy.mesh", fmt::format("axis '{}' of '{}' has the size {}", axis, m.name, size));
    for (size_t j = 0; j < i; ++j)
      if (m.axes[j].first == axis)
        fail("sdy.mesh", fmt::format("'{}' has two axes named '{}'", m.name, axis));
  }
  if (m.device_ids.empty()) return;
  std::vector<int64_t> sorted = m.device_ids;
  std::sort(sorted.begin(), sorted.end());
  check_count("sdy.mesh", "the list of device ids", sorted.size(), static_cast<size_t>(devices));
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      fail("sdy.mesh", fmt::format("the device ids {} of '{}' are not an order of 0, 1, …, {}",
                                   dims_str(m.device_ids), m.name, devices - 1));
}

std::string mesh_text(const Mesh& m) {
  std::string out = "sdy.mesh @" + m.name + " = <[";
  for (size_t i = 0; i < m.axes.size(); ++i) {
    append_quoted(out.append(i ? ", " : ""), m.axes[i].first);
    append_int(out += '=', m.axes[i].second);
  }
  out += ']';
  // The plain order must not be spelled out.
  if (!std::is_sorted(m.device_ids.begin(), m.device_ids.end())) {
    append_list(out.append(", device_ids=["), m.device_ids);
    out += ']';
  }
  return out += '>';
}

std::string sharding_text(std::string_view op, const Builder& b, const Sharding& sharding, const Type* type) {
  const Mesh* mesh = b.mesh(sharding.mesh);
  if (!mesh) fail(op, fmt::format("no mesh '{}' was declared in this module", sharding.mesh));
  if (sharding.dims.size() != type->shape.dims.size())
    fail(op,
         fmt::format("a sharding of {} dimensions for an array of rank {}", sharding.dims.size(),
                     type->shape.rank()),
         {{"type", type->shape.str()}});
  std::vector<std::string_view> used;
  const auto use = [&](std::string& out, const std::vector<std::string>& axes) {
    for (size_t i = 0; i < axes.size(); ++i) {
      if (std::none_of(mesh->axes.begin(), mesh->axes.end(), [&](auto& a) { return a.first == axes[i]; }))
        fail(op, fmt::format("the mesh '{}' has no axis '{}'", mesh->name, axes[i]));
      if (std::find(used.begin(), used.end(), axes[i]) != used.end())
        fail(op, fmt::format("a sharding uses the axis '{}' twice", axes[i]));
      used.push_back(axes[i]);
      append_quoted(out.append(i ? ", " : ""), axes[i]);
    }
  };
  std::string out = "<@" + mesh->name + ", [";
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    use(out.append(d ? ", {" : "{"), sharding.dims[d]);
    if (sharding.open) out += sharding.dims[d].empty() ? "?" : ", ?";
    out += '}';
  }
  out += ']';
  if (!sharding.replicated.empty()) {
    use(out.append(", replicated={"), sharding.replicated);
    out += '}';
  }
  return out += '>';
}

Value sharding_constraint(Value x, const Sharding& sharding) {
  static constexpr std::string_view op = "sdy.sharding_constraint";
  const std::string text = "#sdy.sharding" + sharding_text(op, x.builder(), sharding, x.type());
  return Op(op, {x}).attr("sharding", text).result(x.type());
}

Value mhlo_sharding_constraint(Value x, const std::string& sharding) {
  static constexpr std::string_view op = "stablehlo.custom_call";
  if (!sharding.starts_with('{') || !sharding.ends_with('}'))
    fail(op, fmt::format("'{}' is not a sharding: one is written {{replicated}} or {{devices=[2,1]<=[2]}}",
                         sharding));
  return Op(op, {x})
      .string("call_target_name", "Sharding")
      .extra("mhlo.sharding", quoted(sharding))
      .result(x.type());
}

}  // namespace tpubridge::hlo
