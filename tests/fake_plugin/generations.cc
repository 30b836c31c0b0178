// Facts by generation, and the layout of a slice: ids run along x, then y, then z; a host holds a block of
// chips.
#include "generations.h"

#include <algorithm>
#include <charconv>

#include "registry.h"

namespace fake {
namespace {

using Bounds = std::array<int64_t, 3>;

constexpr Generation kGenerations[] = {
    {"v4", "v4", "TPU v4", 32745971712, 1, 2, 3, 275, 1228},
    {"v5e", "v5e", "TPU v5 lite", 16909334528, 1, 1, 2, 197, 819},
    {"v5p", "v5p", "TPU v5", 102786660352, 1, 1, 3, 459, 2765},
    {"v6e", "v6e", "TPU v6 lite", 33546041344, 1, 1, 2, 918, 1640},
    {"v7", "tpu7x", "TPU7x", 101724450816, 2, 2, 3, 2307, 7380},
};

[[noreturn]] void refuse(const std::string& what) { throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, what}; }

Bounds bounds_from(const std::string& text) {
  Bounds bounds = {1, 1, 1};
  const char *at = text.data(), *const end = at + text.size();
  int dims = 0;
  for (; dims < 3 && at < end; ++dims) {
    const auto [next, error] = std::from_chars(at, end, bounds[dims]);
    if (error != std::errc() || bounds[dims] < 1 || bounds[dims] > 64 || (next < end && *next != 'x')) break;
    at = next < end ? next + 1 : next;
  }
  if (at != end || dims < 2 || text.back() == 'x')
    refuse("Invalid topology layout for a single slice: " + text);
  return bounds;
}

// A host of a slice this large holds at most 2x2x1 chips.
Bounds host_bounds(const Bounds& slice, const std::string& text) {
  const Bounds host = {std::min<int64_t>(slice[0], 2), std::min<int64_t>(slice[1], 2), 1};
  for (int i = 0; i < 3; ++i)
    if (slice[i] % host[i])
      refuse("Topology layout \"" + text + "\" is not divisible by the chips of a host (2x2x1)");
  return host;
}

std::vector<Place> lay_out(const Bounds& slice, const Bounds& host, int cores) {
  std::vector<Place> places;
  int id = 0;
  for (int64_t z = 0; z < slice[2]; ++z)
    for (int64_t y = 0; y < slice[1]; ++y)
      for (int64_t x = 0; x < slice[0]; ++x)
        for (int core = 0; core < cores; ++core) {
          const int64_t hx = x / host[0], hy = y / host[1], hz = z / host[2];
          const int64_t wide = slice[0] / host[0], deep = slice[1] / host[1];
          places.push_back({id++, static_cast<int>(hx + wide * (hy + deep * hz)), {x, y, z}, core});
        }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.host < b.host; });
  return places;
}

std::string triple(const Place& p) {
  return std::to_string(p.coords[0]) + "," + std::to_string(p.coords[1]) + "," + std::to_string(p.coords[2]);
}

}  // namespace

const Generation& generation(std::string_view name) {
  for (const Generation& g : kGenerations)
    if (name == g.name || name == g.topology_name) return g;
  refuse("Invalid TPU generation " + std::string(name) + "; known are v4, v5e, v5p, v6e, v7");
}

std::string Place::str() const {
  return "TpuDevice(id=" + std::to_string(id) + ", process_index=" + std::to_string(host) + ", coords=(" +
         triple(*this) + "), core_on_chip=" + std::to_string(core) + ")";
}

std::string Place::debug() const {
  return "TPU_" + std::to_string(id) + "(process=" + std::to_string(host) + ",(" + triple(*this) + "," +
         std::to_string(core) + "))";
}

Machine machine_from(const Settings& s) {
  const Generation& g = generation(s.generation);
  Machine machine{&g, s.cores ? s.cores : g.cores, s.hbm_mb ? s.hbm_mb << 20 : g.hbm_bytes, {}};
  Bounds slice, host;
  if (!s.bounds.empty()) {
    slice = bounds_from(s.bounds);
    host = host_bounds(slice, s.bounds);
  } else {
    if (s.chips % s.hosts)
      refuse(std::to_string(s.chips) + " chips do not divide among " + std::to_string(s.hosts) + " hosts");
    const int64_t each = s.chips / s.hosts;
    host = each % 2 ? Bounds{each, 1, 1} : Bounds{2, each / 2, 1};
    slice = g.dims == 2 ? Bounds{host[0], host[1] * s.hosts, 1} : Bounds{host[0], host[1], s.hosts};
  }
  machine.places = lay_out(slice, host, machine.cores);
  if (machine.places.back().host < s.host) refuse("there is no host " + std::to_string(s.host));
  return machine;
}

Machine machine_from_topology(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) refuse("Your TPU topology name " + std::string(name) + " is invalid");
  const std::string which(name.substr(0, colon)), layout(name.substr(colon + 1));
  for (const Generation& g : kGenerations) {
    if (which != g.topology_name) continue;
    const Bounds slice = bounds_from(layout);
    return {&g, g.topology_cores, g.hbm_bytes, lay_out(slice, host_bounds(slice, layout), g.topology_cores)};
  }
  refuse("Invalid TPU external name: TPU " + which);
}

}  // namespace fake
