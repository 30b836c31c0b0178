#include "tpubridge/hlo/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"
#include "tpubridge/hlo/reducer.h"

namespace tpubridge::hlo {
namespace {

using Groups = std::vector<std::vector<int64_t>>;

// With a channel, some ops count partitions and others replicas.
enum class WithChannel { replicas, partitions };

int64_t id_count(const Builder& b, const Participants& who, WithChannel mode) {
  if (who.global_ids) return b.replicas() * b.partitions();
  return who.channel > 0 && mode == WithChannel::partitions ? b.partitions() : b.replicas();
}

void check_channel(std::string_view op, const Participants& who) {
  if (who.channel < 0) fail(op, fmt::format("the channel {} is negative", who.channel));
  if (who.global_ids && who.channel == 0) fail(op, "global ids need a channel above 0");
}

// The groups, checked: every id once at most, and where `even`, all groups of one size.
Groups groups_of(std::string_view op, const Builder& b, const Participants& who, WithChannel mode,
                 bool even) {
  check_channel(op, who);
  const int64_t count = id_count(b, who, mode);
  if (who.groups.empty()) {
    Groups all(1, std::vector<int64_t>(static_cast<size_t>(count)));
    std::iota(all[0].begin(), all[0].end(), 0);
    return all;
  }
  std::vector<int64_t> ids;
  for (const auto& group : who.groups) {
    if (group.empty()) fail(op, "a group is empty");
    if (even && group.size() != who.groups[0].size())
      fail(op, fmt::format("groups of {} and {} devices: all must be of one size", who.groups[0].size(),
                           group.size()));
    ids.insert(ids.end(), group.begin(), group.end());
  }
  for (const int64_t id : ids)
    if (id < 0 || id >= count)
      fail(op, fmt::format("a group names {}, but ids go from 0 to {}", id, count - 1), {},
           "ModuleOptions says how many replicas and partitions there are");
  std::sort(ids.begin(), ids.end());
  if (const auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end())
    fail(op, fmt::format("the groups name {} twice", *twice));
  if (static_cast<int64_t>(ids.size()) != count)
    fail(op, fmt::format("the groups name {} of {} ids: every one must be in a group", ids.size(), count));
  return who.groups;
}

std::string groups_text(const Groups& groups) {
  size_t width = 0;
  for (const auto& g : groups) width = std::max(width, g.size());
  std::string out = "dense<[";
  for (size_t i = 0; i < groups.size(); ++i) {
    std::vector<int64_t> row = groups[i];
    row.resize(width, -1);
    append_list(out.append(i ? ", [" : "["), row);
    out += ']';
  }
  return out += fmt::format("]> : tensor<{}x{}xi64>", groups.size(), width);
}

void write(Op& writer, const Groups& groups, const Participants& who) {
  writer.attr("replica_groups", groups_text(groups));
  if (who.channel > 0)
    writer.attr("channel_handle",
                fmt::format("#stablehlo.channel_handle<handle = {}, type = 1>", who.channel));
  if (who.global_ids) writer.attr("use_global_device_ids", "unit");
}

// How many devices exchange data: with a channel and no global ids, all partitions of the group's replicas.
int64_t group_size(const Builder& b, const Groups& groups, const Participants& who, WithChannel mode) {
  const auto n = static_cast<int64_t>(groups[0].size());
  return who.channel > 0 && !who.global_ids && mode == WithChannel::replicas ? n * b.partitions() : n;
}

// The size of a dimension of which `parts` devices each hold one part.
int64_t joined(std::string_view op, const Value& x, int64_t dim, int64_t parts) {
  int64_t out = 0;
  if (__builtin_mul_overflow(x.dim(dim), parts, &out)) fail(op, "the result is too large", x);
  return out;
}

void check_array(std::string_view op, const Value& x) {
  if (x.dtype() == DType::token) fail(op, "takes no token", x);
}

}  // namespace

Value all_reduce(Value x, Reducer reducer, const Participants& who) {
  static constexpr std::string_view op = "stablehlo.all_reduce";
  check_array(op, x);
  const std::string region = reducer_text(op, reducer, x.builder().type(x.dtype(), {}));
  const Groups groups = groups_of(op, x.builder(), who, WithChannel::replicas, false);
  Op writer(op, {x});
  write(writer, groups, who);
  return writer.text_region(region).result(x.type());
}

Values all_reduce(List<Value> operands, const Body& body, const Participants& who) {
  static constexpr std::string_view op = "stablehlo.all_reduce";
  if (operands.empty()) fail(op, "needs at least one operand");
  const Type* scalar = operands[0].builder().type(operands[0].dtype(), {});
  std::vector<const Type*> types;
  for (const Value& v : operands) {
    check_array(op, v);
    check_same_dtype(op, operands[0], v);
    types.push_back(v.type());
  }
  const Groups groups = groups_of(op, operands[0].builder(), who, WithChannel::replicas, false);
  Op writer(op, operands);
  write(writer, groups, who);
  check_region(op, "reducer", writer.region({scalar, scalar}, Op::Sees::nothing, body), {scalar});
  return writer.results(types);
}

Value all_gather(Value x, int64_t dim, const Participants& who) {
  static constexpr std::string_view op = "stablehlo.all_gather";
  check_array(op, x);
  check_dim(op, "all_gather_dim", dim, x.rank());
  const Groups groups = groups_of(op, x.builder(), who, WithChannel::replicas, true);
  std::vector<int64_t> dims = x.dims();
  dims[static_cast<size_t>(dim)] =
      joined(op, x, dim, group_size(x.builder(), groups, who, WithChannel::replicas));
  Op writer(op, {x});
  writer.number("all_gather_dim", dim, "i64");
  write(writer, groups, who);
  return writer.result(x.dtype(), dims);
}

Value reduce_scatter(Value x, int64_t dim, Reducer reducer, const Participants& who) {
  static constexpr std::string_view op = "stablehlo.reduce_scatter";
  check_array(op, x);
  check_dim(op, "scatter_dimension", dim, x.rank());
  const std::string region = reducer_text(op, reducer, x.builder().type(x.dtype(), {}));
  const Groups groups = groups_of(op, x.builder(), who, WithChannel::replicas, true);
  const int64_t parts = group_size(x.builder(), groups, who, WithChannel::replicas);
  std::vector<int64_t> dims = x.dims();
  if (x.dim(dim) % parts) fail(op, fmt::format("dimension {} does not split into {} parts", dim, parts), x);
  dims[static_cast<size_t>(dim)] /= parts;
  Op writer(op, {x});
  writer.number("scatter_dimension", dim, "i64");
  write(writer, groups, who);
  return writer.text_region(region).result(x.dtype(), dims);
}

Value all_to_all(Value x, int64_t split_dim, int64_t concat_dim, const Participants& who) {
  static constexpr std::string_view op = "stablehlo.all_to_all";
  check_array(op, x);
  check_dim(op, "split_dimension", split_dim, x.rank());
  check_dim(op, "concat_dimension", concat_dim, x.rank());
  if (who.global_ids) fail(op, "takes no global ids", x);
  const Groups groups = groups_of(op, x.builder(), who, WithChannel::partitions, true);
  const int64_t parts = group_size(x.builder(), groups, who, WithChannel::partitions);
  if (x.dim(split_dim) % parts)
    fail(op, fmt::format("dimension {} does not split into {} parts", split_dim, parts), x);
  std::vector<int64_t> dims = x.dims();
  dims[static_cast<size_t>(concat_dim)] = joined(op, x, concat_dim, parts);
  dims[static_cast<size_t>(split_dim)] /= parts;
  Op writer(op, {x});
  writer.number("split_dimension", split_dim, "i64")
      .number("concat_dimension", concat_dim, "i64")
      .number("split_count", parts, "i64");
  write(writer, groups, who);
  return writer.result(x.dtype(), dims);
}

Value collective_broadcast(Value x, const Participants& who) {
  static constexpr std::string_view op = "stablehlo.collective_broadcast";
  check_array(op, x);
  if (who.global_ids) fail(op, "takes no global ids", x);
  const Groups groups = groups_of(op, x.builder(), who, WithChannel::partitions, true);
  Op writer(op, {x});
  write(writer, groups, who);
  return writer.result(x.type());
}

Value collective_permute(Value x, const std::vector<std::pair<int64_t, int64_t>>& pairs, int64_t channel) {
  static constexpr std::string_view op = "stablehlo.collective_permute";
  check_array(op, x);
  const Participants who{{}, channel, false};
  check_channel(op, who);
  const int64_t count = id_count(x.builder(), who, WithChannel::partitions);
  std::vector<int64_t> sources, targets;
  for (const auto& [source, target] : pairs) {
    if (source < 0 || source >= count || target < 0 || target >= count)
      fail(op, fmt::format("{} to {}: ids go from 0 to {}", source, target, count - 1), x);
    if (contains(sources, source) || contains(targets, target))
      fail(op, fmt::format("{} to {}: a device sends once and receives once at most", source, target), x);
    sources.push_back(source);
    targets.push_back(target);
  }
  Op writer(op, {x});
  writer.table("source_target_pairs", pairs);
  if (channel > 0)
    writer.attr("channel_handle", fmt::format("#stablehlo.channel_handle<handle = {}, type = 1>", channel));
  return writer.result(x.type());
}

Value partition_id(Builder& b) { return Op("stablehlo.partition_id", b, {}).result(DType::u32, {}); }
Value replica_id(Builder& b) { return Op("stablehlo.replica_id", b, {}).result(DType::u32, {}); }

}  // namespace tpubridge::hlo
