// Ops in which several devices take part. A program of R replicas and P partitions runs on R·P of them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tpubridge/hlo/builder.h"
#include "tpubridge/hlo/reduction.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

// Who takes part. With channel 0 the groups hold replica ids. With a channel above 0, unique to the op, they
// hold partition ids (all_to_all, collective_permute, collective_broadcast), replica ids whose partitions all
// take part (the others), or with `global_ids` the number replica·P + partition.
struct Participants {
  std::vector<std::vector<int64_t>> groups = {};  // empty: all, in one group; a TPU wants all of one size
  int64_t channel = 0;
  bool global_ids = false;
};

[[nodiscard]] Value all_reduce(Value x, Reducer reducer, const Participants& who = {});
[[nodiscard]] Values all_reduce(List<Value> operands, const Body& body, const Participants& who = {});
// Every device gets the group's arrays, one after the other along `dim`.
[[nodiscard]] Value all_gather(Value x, int64_t dim, const Participants& who = {});
// The reduced array is split along `dim`, each device of the group gets its part.
[[nodiscard]] Value reduce_scatter(Value x, int64_t dim, Reducer reducer, const Participants& who = {});
// Splits along one dimension, sends part i to device i of the group, joins what comes along another.
[[nodiscard]] Value all_to_all(Value x, int64_t split_dim, int64_t concat_dim, const Participants& who = {});
// Every device of a group gets the array of the group's first. Not every compiler has it: XLA's for CPUs and
// TPUs refuse it.
[[nodiscard]] Value collective_broadcast(Value x, const Participants& who = {});
// {source, target}, …; who is no target gets zeros.
[[nodiscard]] Value collective_permute(Value x, const std::vector<std::pair<int64_t, int64_t>>& pairs,
                                       int64_t channel = 0);

[[nodiscard]] Value partition_id(Builder& b);  // u32
[[nodiscard]] Value replica_id(Builder& b);    // u32

}  // namespace tpubridge::hlo
