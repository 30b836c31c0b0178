#include "tests/hlo/cases.h"

namespace tpubridge::hlo {
namespace {

Case scattered(std::string name, ScatterDims dims, Reducer reducer, ScatterFlags flags = {}) {
  return {std::move(name),
          [=](Builder&, In in) -> Values { return {scatter(in[0], in[1], in[2], dims, reducer, flags)}; }};
}

// Rows of a matrix by number, as an embedding takes them.
const GatherDims kRows{
    .offset_dims = {1}, .collapsed_slice_dims = {0}, .start_index_map = {0}, .index_vector_dim = 1};
const ScatterDims kIntoRows{.update_window_dims = {1},
                            .inserted_window_dims = {0},
                            .scatter_dims_to_operand_dims = {0},
                            .index_vector_dim = 1};
// Single elements by their two coordinates.
const GatherDims kElements{
    .offset_dims = {}, .collapsed_slice_dims = {0, 1}, .start_index_map = {0, 1}, .index_vector_dim = 1};
const ScatterDims kIntoElements{.update_window_dims = {},
                                .inserted_window_dims = {0, 1},
                                .scatter_dims_to_operand_dims = {0, 1},
                                .index_vector_dim = 1};

}  // namespace

Family indexing_cases() {
  return {"indexing",
          {{"gather.rows",
            [](Builder&, In in) -> Values {
              return {gather(in[0], in[1], kRows, {1, in[0].dim(1)})};
            }},
           {"gather.elements",
            [](Builder&, In in) -> Values {
              return {gather(in[0], in[1], kElements, {1, 1}, true)};
            }},
           {"gather.windows",
            [](Builder&, In in) -> Values {
              return {gather(in[0], in[1],
                             {.offset_dims = {1, 2},
                              .collapsed_slice_dims = {},
                              .start_index_map = {1, 0},
                              .index_vector_dim = 0},
                             {2, 2})};
            }},
           {"gather.batch",
            [](Builder&, In in) -> Values {
              return {gather(in[0], in[1],
                             {.offset_dims = {},
                              .collapsed_slice_dims = {1},
                              .start_index_map = {1},
                              .index_vector_dim = 2,
                              .operand_batching_dims = {0},
                              .start_indices_batching_dims = {0}},
                             {1, 1})};
            }},
           scattered("scatter.add", kIntoRows, Reducer::add),
           scattered("scatter.maximum", kIntoElements, Reducer::maximum, {.sorted = true}),
           {"scatter.set",
            [](Builder&, In in) -> Values {
              return {scatter_set(in[0], in[1], in[2], kIntoElements, {.unique = true})};
            }},
           scattered("scatter.batch",
                     {.update_window_dims = {},
                      .inserted_window_dims = {1},
                      .scatter_dims_to_operand_dims = {1},
                      .index_vector_dim = 2,
                      .input_batching_dims = {0},
                      .scatter_indices_batching_dims = {0}},
                     Reducer::add),
           {"scatter.two",
            [](Builder&, In in) -> Values {
              return scatter({in[0], in[1]}, in[2], {in[3], in[4]},
                             {.update_window_dims = {},
                              .inserted_window_dims = {0},
                              .scatter_dims_to_operand_dims = {0},
                              .index_vector_dim = 1},
                             [](In a) -> Values {
                               return {add(a[0], a[2]), minimum(a[1], a[3])};
                             });
            }},
           {"sort",
            [](Builder&, In in) -> Values {
              return sort({in[0]}, 1, false,
                          [](In a) -> Values { return {compare(a[0], a[1], Direction::lt)}; });
            }},
           {"sort.pairs",
            [](Builder& b, In in) -> Values {
              return sort({in[0], iota(b, {DType::s32, in[0].dims()}, 0)}, 0, true,
                          [](In a) -> Values { return {compare(a[0], a[1], Direction::gt)}; });
            }},
           {"top_k", [](Builder&, In in) -> Values {
              const auto [values, places] = top_k(in[0], 2);
              return {values, places};
            }}}};
}

}  // namespace tpubridge::hlo
