// The table of ops that become StableHLO: one row per op, one family per file.
//
// A row is named like torch's functional overload ("add.Tensor"); in-place and out= variants find the row of
// their functional twin by themselves. Ops of ours have names with "tpubridge::".
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/trace/node.h"

namespace tpubridge::lower {

class Call;
class Context;

enum Flags : unsigned {
  plain = 0,
  promote = 1,          // operands meet in one element type, torch's rules; Context::common()
  promote_scalars = 2,  // its Scalar arguments take part in that
  bake = 4,             // Scalar arguments are part of the program, not inputs of it
  random = 8,           // gets two more operands at the end: seed and offset (s64 numbers)
  composite = 16,       // torch would compose it of other ops; this row is taken instead
  keep_format = 64,     // (32 is precision.h's) results lie in memory like the arguments: channels last
  fitting = 128,        // numbers that the result's type cannot hold are left to the CPU
  may_fail = 256,       // its program may fail when it runs: it takes no memory over, and is waited for
};

// An op that the user brought (kernels/). What is wrong with a call of it is told, not left to the CPU.
struct Custom {
  virtual ~Custom() = default;
  // Whether this plugin runs it, and takes such a call; throws where not.
  virtual void check(const Call& call) const = 0;
  // Where the op has no Meta kernel.
  [[nodiscard]] virtual std::vector<Shape> shapes(const Call& call) const = 0;
  virtual void lower(Context& context) const = 0;
};

struct Row : trace::Op {
  void (*lower)(Context&) = nullptr;
  unsigned flags = plain;
  // Output shapes, where torch has no Meta kernel for the op. An element type `token` stands for the promoted
  // one. Empty result: this call is left to the CPU.
  std::vector<Shape> (*shape)(const Call&) = nullptr;
  // Where it has loose arguments: whether they may be inputs of the program, at their values of this call.
  // None: always.
  bool (*fits)(const Call&) = nullptr;
  const Custom* custom = nullptr;  // in the place of `lower` and `shape`
};

[[nodiscard]] const Row* find(std::string_view name);     // null where there is no row
[[nodiscard]] const std::vector<const Row*>& all_rows();  // sorted by name

// The families; each is one file.
[[nodiscard]] std::span<const Row> view_rows();
[[nodiscard]] std::span<const Row> quantized_rows();
[[nodiscard]] std::span<const Row> unary_rows();
[[nodiscard]] std::span<const Row> binary_rows();
[[nodiscard]] std::span<const Row> ternary_rows();
[[nodiscard]] std::span<const Row> activation_rows();
[[nodiscard]] std::span<const Row> factory_rows();
[[nodiscard]] std::span<const Row> reduction_rows();
[[nodiscard]] std::span<const Row> matmul_rows();
[[nodiscard]] std::span<const Row> softmax_rows();
[[nodiscard]] std::span<const Row> norm_rows();
[[nodiscard]] std::span<const Row> index_rows();
[[nodiscard]] std::span<const Row> loss_rows();
[[nodiscard]] std::span<const Row> convolution_rows();
[[nodiscard]] std::span<const Row> pooling_rows();
[[nodiscard]] std::span<const Row> adaptive_pooling_rows();
[[nodiscard]] std::span<const Row> random_rows();
[[nodiscard]] std::span<const Row> special_rows();
[[nodiscard]] std::span<const Row> incomplete_gamma_rows();
[[nodiscard]] std::span<const Row> polynomial_rows();
[[nodiscard]] std::span<const Row> piecewise_rows();
[[nodiscard]] std::span<const Row> number_part_rows();
[[nodiscard]] std::span<const Row> flat_place_rows();
[[nodiscard]] std::span<const Row> layout_rows();
[[nodiscard]] std::span<const Row> rnn_rows();
[[nodiscard]] std::span<const Row> recurrent_rows();
[[nodiscard]] std::span<const Row> attention_rows();
[[nodiscard]] std::span<const Row> optimizer_rows();
[[nodiscard]] std::span<const Row> resample_rows();
[[nodiscard]] std::span<const Row> smooth_resample_rows();
[[nodiscard]] std::span<const Row> embedding_bag_rows();
[[nodiscard]] std::span<const Row> margin_loss_rows();
[[nodiscard]] std::span<const Row> padding_rows();
[[nodiscard]] std::span<const Row> patch_rows();
[[nodiscard]] std::span<const Row> sampling_rows();
[[nodiscard]] std::span<const Row> distance_rows();
[[nodiscard]] std::span<const Row> scatter_rows();
[[nodiscard]] std::span<const Row> fourier_rows();
[[nodiscard]] std::span<const Row> order_rows();
[[nodiscard]] std::span<const Row> unpooling_rows();
[[nodiscard]] std::span<const Row> cholesky_rows();
[[nodiscard]] std::span<const Row> lu_rows();
[[nodiscard]] std::span<const Row> qr_rows();
[[nodiscard]] std::span<const Row> spectral_rows();

}  // namespace tpubridge::lower
