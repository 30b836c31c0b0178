// Gather and scatter, in full generality, and sorting.
#pragma once

#include <cstdint>
#include <vector>

#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/reduction.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

// Index vectors lie along `index_vector_dim` of the indices (or are scalars, where that is the indices'
// rank); entry k of one is a place in dimension start_index_map[k] of the operand. Each names a slice of
// `slice_sizes`; its dimensions, without the collapsed and batching ones, become `offset_dims` of the result.
struct GatherDims {
  std::vector<int64_t> offset_dims, collapsed_slice_dims, start_index_map;
  int64_t index_vector_dim = 0;
  std::vector<int64_t> operand_batching_dims = {}, start_indices_batching_dims = {};
};
// Places outside of the operand are clamped to the nearest inside.
[[nodiscard]] Value gather(Value operand, Value indices, const GatherDims& dims, List<int64_t> slice_sizes,
                           bool sorted = false);

// The same backwards: `update_window_dims` of the updates are a slice of the operand.
struct ScatterDims {
  std::vector<int64_t> update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  std::vector<int64_t> input_batching_dims = {}, scatter_indices_batching_dims = {};
};
struct ScatterFlags {
  bool sorted = false, unique = false;
};
// Updates outside of the operand are left out. The body gets old0, …, new0, … and gives what stays. The kinds
// put old and new together; `scatter_set` keeps the new.
[[nodiscard]] Values scatter(List<Value> operands, Value indices, List<Value> updates,
                             const ScatterDims& dims, const Body& body, ScatterFlags flags = {});
[[nodiscard]] Value scatter(Value operand, Value indices, Value updates, const ScatterDims& dims,
                            Reducer reducer, ScatterFlags flags = {});
[[nodiscard]] Value scatter_set(Value operand, Value indices, Value updates, const ScatterDims& dims,
                                ScatterFlags flags = {});

// Sorts along `dim` all operands by one comparator: it gets the scalars lhs0, rhs0, lhs1, rhs1, … and gives a
// pred, true where lhs goes first.
[[nodiscard]] Values sort(List<Value> operands, int64_t dim, bool stable, const Body& less);

}  // namespace tpubridge::hlo
