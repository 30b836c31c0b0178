#include "tpubridge/mesh/mesh.h"

#include <algorithm>
#include <set>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/mesh/layout.h"

namespace tpubridge {
namespace {

constexpr const char* kMesh = "mesh";

bool is_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

int64_t checked_places(const std::vector<Mesh::Axis>& axes) {
  if (axes.empty()) throw distributed_error(kMesh, "a mesh without axes", "Give one: Mesh({{\"data\", 4}}).");
  std::set<std::string_view> names;
  int64_t places = 1;
  for (const auto& [name, size] : axes) {
    if (!is_name(name))
      throw distributed_error(kMesh, "'" + name + "' is no name for an axis",
                              "Use letters, digits and _, beginning with a letter.");
    if (!names.insert(name).second) throw distributed_error(kMesh, "two axes are named '" + name + "'");
    if (size < 1 || __builtin_mul_overflow(places, size, &places))
      throw distributed_error(kMesh, "the axis '" + name + "' has the size " + std::to_string(size),
                              "Sizes are 1 and more.");
  }
  return places;
}

}  // namespace

Mesh::Mesh(std::vector<Axis> axes, std::vector<int> devices) {
  const int64_t places = checked_places(axes);
  const int there = exec::device_count();
  if (devices.empty())
    for (int i = 0; i < std::min<int64_t>(places, there); ++i) devices.push_back(i);
  if (static_cast<int64_t>(devices.size()) != places)
    throw distributed_error(
        kMesh, "a mesh of " + std::to_string(places) + " devices over " + std::to_string(devices.size()),
        "There are " + std::to_string(there) +
            " in this process. On the CPU plugin TPUBRIDGE_CPU_DEVICES makes more.");
  std::set<int> used;
  for (const int d : devices) {
    if (d < 0 || d >= there)
      throw distributed_error(kMesh, "there is no device " + std::to_string(d),
                              "Devices are 0 to " + std::to_string(there - 1) + ".");
    if (!used.insert(d).second) throw distributed_error(kMesh, "device " + std::to_string(d) + " twice");
  }
  grid_ = exec::the_grid({std::move(axes), std::move(devices)});
}

int64_t Mesh::size(std::string_view axis) const {
  for (const auto& [name, size] : axes())
    if (name == axis) return size;
  throw distributed_error(kMesh, "there is no axis '" + std::string(axis) + "' in the mesh " + str());
}

c10::Device Mesh::device() const {
  return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(devices()[0])};
}

std::string Mesh::str() const {
  std::string out;
  for (const auto& [name, size] : axes())
    out.append(out.empty() ? "" : ", ").append(name).append("=").append(std::to_string(size));
  return out;
}

std::string Sharding::str() const { return mesh.str() + ": " + mesh::split_text(split); }

namespace mesh {

exec::Layout layout_over(const char* operation, c10::IntArrayRef sizes, const Mesh& mesh,
                         const Split& split) {
  if (split.size() > sizes.size())
    throw distributed_error(operation, "a split of " + std::to_string(split.size()) +
                                           " dimensions for a tensor of " + std::to_string(sizes.size()));
  exec::Layout out = exec::replicated_over(mesh.grid(), sizes.size());
  std::set<std::string_view> used;
  for (size_t d = 0; d < split.size(); ++d) {
    for (const std::string& axis : split[d].axes) {
      (void)mesh.size(axis);
      if (!used.insert(axis).second)
        throw distributed_error(operation, "the axis '" + axis + "' splits two dimensions");
      const auto at = std::ranges::find(mesh.axes(), axis, &Mesh::Axis::first);
      out.dims[d].push_back(static_cast<int>(at - mesh.axes().begin()));
    }
    if (sizes[d] % out.tiles(d) != 0)
      throw distributed_error(operation,
                              "dimension " + std::to_string(d) + " has " + std::to_string(sizes[d]) +
                                  " elements, which " + std::to_string(out.tiles(d)) +
                                  " devices do not divide",
                              "Pad it to " + std::to_string((sizes[d] / out.tiles(d) + 1) * out.tiles(d)) +
                                  ", or do not split it.");
  }
  return out;
}

std::string split_text(const Split& split) {
  std::string out = "[";
  for (size_t d = 0; d < split.size(); ++d) {
    if (d > 0) out += ", ";
    const auto& axes = split[d].axes;
    if (axes.empty()) out += '-';
    for (size_t i = 0; i < axes.size(); ++i) out.append(i ? "+" : "").append(axes[i]);
  }
  return out + "]";
}

Split split_of(const exec::Layout& layout) {
  Split out;
  for (const auto& axes : layout.dims) {
    SplitBy by(none);
    for (const int a : axes) by.axes.push_back(layout.grid->axes[static_cast<size_t>(a)].first);
    out.push_back(std::move(by));
  }
  return out;
}

}  // namespace mesh
}  // namespace tpubridge
