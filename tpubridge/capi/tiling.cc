#include "tpubridge/capi/tiling.h"

#include <algorithm>
#include <numeric>
#include <protozero/pbf_reader.hpp>

#include "tpubridge/base/log.h"

namespace tpubridge::pjrt {
namespace {

using protozero::pbf_wire_type;

// protozero only asserts that a field is of the kind that is asked for, which ends the process.
protozero::pbf_reader submessage(protozero::pbf_reader& field) {
  if (field.wire_type() != pbf_wire_type::length_delimited)
    throw protozero::unknown_pbf_wire_type_exception();
  return field.get_message();
}
void read_list(protozero::pbf_reader& field, std::vector<int64_t>& out) {
  if (field.wire_type() == pbf_wire_type::length_delimited)
    for (const int64_t v : field.get_packed_int64()) out.push_back(v);
  else if (field.wire_type() == pbf_wire_type::varint)
    out.push_back(field.get_int64());
  else
    throw protozero::unknown_pbf_wire_type_exception();
}

// xla.OpSharding.
struct Sharding {
  enum Type : int64_t { replicated = 0, tuple = 2, other = 3 };
  int64_t type = replicated;
  std::vector<int64_t> dims, devices, reshape, permutation, last_kinds;
  bool last_replicated = false;
  std::vector<Sharding> elements;
};

Sharding read_sharding(protozero::pbf_reader m, int levels = 4) {
  Sharding s;
  std::vector<int64_t> one;
  while (m.next()) {
    one.clear();
    switch (m.tag()) {
      case 1:
        read_list(m, one);
        if (!one.empty()) s.type = one.back();
        break;
      case 3:
        read_list(m, s.dims);
        break;
      case 4:
        read_list(m, s.devices);
        break;
      case 5:
        if (levels == 0) throw protozero::exception();
        s.elements.push_back(read_sharding(submessage(m), levels - 1));
        break;
      case 6:
        read_list(m, one);
        s.last_replicated = !one.empty() && one.back() != 0;
        break;
      case 8:
        read_list(m, s.last_kinds);
        break;
      case 9:
        read_list(m, s.reshape);
        break;
      case 10:
        read_list(m, s.permutation);
        break;
      default:
        m.skip();
    }
  }
  return s;
}

// 0, 1, 2, … as an array of the shape `reshape`, transposed: in its new order.
std::vector<int64_t> iota_devices(const Sharding& s, int64_t devices) {
  const size_t rank = s.reshape.size();
  std::vector<int64_t> perm = s.permutation, strides(rank, 1);
  if (perm.empty()) {
    perm.resize(rank);
    std::iota(perm.begin(), perm.end(), 0);
  }
  if (perm.size() != rank) return {};
  for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * s.reshape[i];
  std::vector<int64_t> out, at(rank, 0);
  for (int64_t n = 0; n < devices; ++n) {
    int64_t id = 0;
    for (size_t i = 0; i < rank; ++i) {
      if (perm[i] < 0 || perm[i] >= static_cast<int64_t>(rank)) return {};
      id += at[i] * strides[static_cast<size_t>(perm[i])];
    }
    out.push_back(id);
    for (size_t i = rank; i-- > 0;) {
      if (++at[i] < s.reshape[static_cast<size_t>(perm[i])]) break;
      at[i] = 0;
    }
  }
  return out;
}

int64_t product(const std::vector<int64_t>& list) {
  int64_t n = 1;
  for (const int64_t v : list)
    if (v < 1 || __builtin_mul_overflow(n, v, &n)) return -1;
  return n;
}

std::optional<Tiling> tiling_of(const Sharding& s, int64_t devices) {
  if (s.type == Sharding::replicated) return Tiling{};
  size_t last = s.last_replicated ? 1 : s.last_kinds.size();
  const bool plain = std::ranges::all_of(s.last_kinds, [](int64_t k) { return k == Sharding::replicated; });
  if (s.type != Sharding::other || !plain || last > s.dims.size() || product(s.dims) != devices)
    return std::nullopt;
  std::vector<int64_t> order = s.devices;
  if (!s.reshape.empty()) order = product(s.reshape) == devices ? iota_devices(s, devices) : order;
  if (static_cast<int64_t>(order.size()) != devices) return std::nullopt;
  const size_t rank = s.dims.size() - last;
  Tiling out{{s.dims.begin(), s.dims.begin() + static_cast<std::ptrdiff_t>(rank)}, {}};
  out.at.resize(order.size());
  for (size_t place = 0; place < order.size(); ++place) {
    const int64_t id = order[place];
    if (id < 0 || id >= devices || !out.at[static_cast<size_t>(id)].empty()) return std::nullopt;
    std::vector<int64_t> tile(s.dims.size());
    for (size_t i = s.dims.size(), left = place; i-- > 0;) {
      tile[i] = static_cast<int64_t>(left) % s.dims[i];
      left /= static_cast<size_t>(s.dims[i]);
    }
    tile.resize(rank);
    out.at[static_cast<size_t>(id)] = std::move(tile);
  }
  return rank == 0 ? Tiling{} : out;
}

std::optional<std::vector<Tiling>> read_tilings(protozero::pbf_reader module, int64_t devices) {
  if (!module.next(12)) return std::nullopt;  // spmd_output_sharding
  const Sharding all = read_sharding(submessage(module));
  std::vector<Tiling> out;
  const auto add = [&](const Sharding& s) {
    auto one = tiling_of(s, devices);
    if (one) out.push_back(std::move(*one));
    return one.has_value();
  };
  if (all.type != Sharding::tuple) return add(all) ? std::optional(std::move(out)) : std::nullopt;
  for (const Sharding& s : all.elements)
    if (!add(s)) return std::nullopt;
  return out;
}

}  // namespace

std::optional<std::vector<Tiling>> hlo_result_tilings(std::string_view code, std::string_view format,
                                                      int64_t devices) {
  try {
    protozero::pbf_reader reader(code.data(), code.size());
    if (format == "hlo") return read_tilings(reader, devices);
    if (format == "hlo_with_config" && reader.next(1)) return read_tilings(submessage(reader), devices);
  } catch (const protozero::exception& e) {
    log::debug("pjrt.tilings_unreadable", {{"error", e.what()}});
  }
  return std::nullopt;
}

}  // namespace tpubridge::pjrt
