#include "tpubridge/capi/compile_options.h"

#include <fmt/format.h>

#include <protozero/pbf_writer.hpp>

#include "tpubridge/base/errors.h"

namespace tpubridge::pjrt {
namespace {

void check(const CompileOptions& o) {
  if (o.num_replicas < 1 || o.num_partitions < 1)
    throw ArgumentError(fmt::format("a program needs at least one replica and one partition, not {} and {}",
                                    o.num_replicas, o.num_partitions));
  const auto total = static_cast<size_t>(o.num_replicas) * static_cast<size_t>(o.num_partitions);
  if (!o.devices.empty() && o.devices.size() != total)
    throw ArgumentError(fmt::format("{} replicas × {} partitions need {} devices, {} are named",
                                    o.num_replicas, o.num_partitions, total, o.devices.size()));
  if (o.portable && total != 1) throw ArgumentError("a portable program runs on one device");
  if (o.optimization_level && (*o.optimization_level < 0 || *o.optimization_level > 3))
    throw ArgumentError(fmt::format("XLA's optimization level is 0 to 3, not {}", *o.optimization_level));
}

std::string build_options(const CompileOptions& o) {
  std::string out;
  protozero::pbf_writer build(out);
  build.add_int64(1, -1);  // device_ordinal: any
  build.add_int64(4, o.num_replicas);
  build.add_int64(5, o.num_partitions);
  if (o.use_spmd_partitioning) build.add_bool(6, true);
  if (!o.devices.empty()) {
    std::string text;
    protozero::pbf_writer assignment(text);
    assignment.add_int32(1, o.num_replicas);
    assignment.add_int32(2, o.num_partitions);
    for (int p = 0; p < o.num_partitions; ++p) {
      protozero::pbf_writer computation(assignment, 3);
      std::vector<int64_t> ids;
      for (int r = 0; r < o.num_replicas; ++r)
        ids.push_back(o.devices[static_cast<size_t>(r) * static_cast<size_t>(o.num_partitions) +
                                static_cast<size_t>(p)]);
      computation.add_packed_int64(1, ids.begin(), ids.end());
    }
    build.add_message(9, text);
  }
  if (o.propagate_sharding_to_outputs) build.add_bool(12, true);
  if (o.propagate_sharding_to_parameters) build.add_bool(18, true);
  if (o.use_shardy) build.add_bool(19, true);
  if (o.optimization_level) build.add_enum(24, *o.optimization_level + 1);  // EffortLevel: 0 unknown, 1 is O0
  return out;
}

}  // namespace

std::string CompileOptions::serialize() const {
  check(*this);
  std::string out;
  protozero::pbf_writer options(out);
  options.add_message(3, build_options(*this));
  if (portable) options.add_bool(4, true);
  for (const auto& [name, value] : overrides) {
    protozero::pbf_writer entry(options, 7);
    entry.add_string(1, name);
    protozero::pbf_writer field(entry, 2);
    if (const auto* s = std::get_if<std::string>(&value)) field.add_string(1, *s);
    if (const auto* b = std::get_if<bool>(&value)) field.add_bool(2, *b);
    if (const auto* i = std::get_if<int64_t>(&value)) field.add_int64(3, *i);
    if (const auto* d = std::get_if<double>(&value)) field.add_double(4, *d);
  }
  return out;
}

}  // namespace tpubridge::pjrt
