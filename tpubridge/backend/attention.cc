#include "tpubridge/backend/attention.h"

#include <ATen/Functions.h>

#include <limits>

namespace tpubridge {

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask, double dropout, bool causal) {
  if (!causal || !mask || !mask->defined())
    return at::scaled_dot_product_attention(q, k, v, mask, dropout, causal);
  const auto ones = at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool));
  const at::Tensor both = mask->scalar_type() == at::kBool
                              ? mask->logical_and(ones.tril())
                              : mask->masked_fill(ones.triu(1), -std::numeric_limits<double>::infinity());
  return at::scaled_dot_product_attention(q, k, v, both, dropout, false);
}

}  // namespace tpubridge
