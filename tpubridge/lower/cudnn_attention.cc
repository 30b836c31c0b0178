// The form of the call is XLA's: operands [batch, length, heads, width], results [batch, heads, length,
// width] in that same memory order, a workspace at the end, and the settings as JSON in which integers are
// strings.
#include "tpubridge/lower/cudnn_attention.h"

#include <nlohmann/json.hpp>

#include "tpubridge/hlo/custom_call.h"
#include "tpubridge/hlo/shape_ops.h"

namespace tpubridge::lower {
namespace {

using hlo::Value;
using hlo::Values;
using nlohmann::json;

json texts(const std::vector<int64_t>& numbers) {
  json out = json::array();
  for (int64_t n : numbers) out.push_back(std::to_string(n));
  return out;
}

// Which dimensions a product of two operands contracts and which are its batch.
json product(int64_t lhs, int64_t rhs, const std::vector<int64_t>& lhs_batch) {
  return {{"lhs_contracting_dimensions", texts({lhs})},
          {"rhs_contracting_dimensions", texts({rhs})},
          {"lhs_batch_dimensions", texts(lhs_batch)},
          {"rhs_batch_dimensions", texts({0, 2})}};
}

json scores_shape(Value q, Value k) {
  const json layout{{"dim_level_types", json::array()},
                    {"dim_unique", json::array()},
                    {"dim_ordered", json::array()},
                    {"minor_to_major", texts({3, 2, 1, 0})},
                    {"tiles", json::array()},
                    {"element_size_in_bits", "0"},
                    {"memory_space", "0"},
                    {"index_primitive_type", "PRIMITIVE_TYPE_INVALID"},
                    {"pointer_primitive_type", "PRIMITIVE_TYPE_INVALID"},
                    {"dynamic_shape_metadata_prefix_bytes", "0"}};
  return {{"element_type", q.dtype() == DType::bf16 ? "BF16" : "F16"},
          {"dimensions", texts({q.dim(0), q.dim(1), q.dim(2), k.dim(2)})},
          {"tuple_shapes", json::array()},
          {"layout", layout},
          {"is_dynamic_dimension", {false, false, false, false}}};
}

std::string settings(const CudnnAttention& a, Value q, Value k, const json& products) {
  json attention{{"algorithm",
                  {{"algo_id", "0"},
                   {"math_type", "TENSOR_OP_MATH"},
                   {"tuning_knobs", {{"17", "1"}, {"24", "0"}}},
                   {"is_cudnn_frontend", true},
                   {"workspace_size", "0"}}},
                 {"fmha_scale", a.scale},
                 {"intermediate_tensor_shape", scores_shape(q, k)},
                 {"is_flash_attention", true},
                 {"mask_type", a.causal ? "CAUSAL" : "NO_MASK"},
                 {"dropout_rate", 0.0},
                 {"seed", 42},
                 {"sliding_window_length", 0},
                 {"max_seg_per_batch", 1},
                 {"is_paged_attention", false}};
  attention.update(products);
  return json{{"operation_queue_id", "0"}, {"cudnn_fmha_backend_config", attention}}.dump();
}

const std::vector<int64_t> kRowMajor{3, 2, 1, 0}, kHeadsInside{3, 1, 2, 0}, kStatistics{2, 1, 0};

Value heads_inside(Value v) { return hlo::transpose(v, {0, 2, 1, 3}); }

Values call(const char* target, const Values& operands, std::vector<Shape> results, std::string settings) {
  hlo::CustomCall c;
  c.target = target;
  c.api = hlo::CustomCall::Api::status;
  c.backend_config = std::move(settings);
  for (const Value& v : operands) c.operand_layouts.push_back(v.rank() == 4 ? kRowMajor : kStatistics);
  for (const Shape& s : results) c.result_layouts.push_back(s.dims.size() == 4 ? kHeadsInside : kStatistics);
  results.push_back({DType::u8, {0}});
  c.result_layouts.push_back({0});
  Values out = hlo::custom_call(operands[0].builder(), operands, results, c);
  out.pop_back();
  return out;
}

}  // namespace

bool cudnn_takes(const CudnnAttention& a, Value q, Value k, Value v) {
  const DType t = q.dtype();
  if ((t != DType::bf16 && t != DType::f16) || q.rank() != 4) return false;
  const int64_t width = q.dim(3);
  if (width != v.dim(3) || width % 8 != 0 || width > 128 || width == 0) return false;
  if (q.dim(0) == 0 || q.dim(1) == 0 || q.dim(2) < 2 || k.dim(2) < 2) return false;
  return q.dim(2) % 2 == 0 && k.dim(2) % 2 == 0 && (!a.causal || q.dim(2) == k.dim(2));
}

Values cudnn_forward(const CudnnAttention& a, Value q, Value k, Value v) {
  const json products{{"bmm1_dot_dimension_numbers", product(3, 3, {0, 2})},
                      {"bmm2_dot_dimension_numbers", product(3, 1, {0, 1})}};
  return call("__cudnn$fmhaSoftmax", {heads_inside(q), heads_inside(k), heads_inside(v)},
              {q.shape(), {DType::f32, {q.dim(0), q.dim(1), q.dim(2)}}}, settings(a, q, k, products));
}

Values cudnn_backward(const CudnnAttention& a, std::span<const Value> in) {
  const Value g = in[0], q = in[1], k = in[2], v = in[3], out = in[4], sums = in[5];
  const json products{{"bmm1_grad_gemm1_dot_dimension_numbers", product(2, 1, {0, 1})},
                      {"bmm1_grad_gemm2_dot_dimension_numbers", product(3, 1, {0, 1})},
                      {"bmm2_grad_gemm1_dot_dimension_numbers", product(2, 1, {0, 1})},
                      {"bmm2_grad_gemm2_dot_dimension_numbers", product(3, 3, {0, 2})}};
  return call("__cudnn$fmhaSoftmaxBackward",
              {heads_inside(q), heads_inside(k), heads_inside(v), sums, heads_inside(g), heads_inside(out)},
              {q.shape(), k.shape(), v.shape()}, settings(a, q, k, products));
}

}  // namespace tpubridge::lower
