// Scaled dot-product attention as one traced op. Its kernels are written out because torch's schema mixes
// tensors with numbers and hands the seed of the dropout to the gradient.
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

#include "tpubridge/device/arguments.h"
#include "tpubridge/device/attention_watch.h"
#include "tpubridge/device/dtype.h"
#include "tpubridge/device/ops.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::device {

using at::Tensor;
using OptTensor = std::optional<Tensor>;

namespace {

// What the row reads: equal batches, whole groups of query heads, one floating-point type. All else goes by
// torch's own composition, which also has the words for what is wrong.
bool fits(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& mask, bool gqa) {
  const int64_t rank = q.dim();
  if (rank < 3 || k.dim() != rank || v.dim() != rank || !q.is_floating_point()) return false;
  if (q.layout() != c10::kStrided || k.device() != q.device() || v.device() != q.device()) return false;
  if (k.scalar_type() != q.scalar_type() || v.scalar_type() != q.scalar_type()) return false;
  for (int64_t i = 0; i < rank - 3; ++i)
    if (k.size(i) != q.size(i) || v.size(i) != q.size(i)) return false;
  const int64_t heads = k.size(-3);
  if (v.size(-3) != heads || k.size(-2) != v.size(-2) || q.size(-1) != k.size(-1)) return false;
  if (q.size(-3) != heads && !(gqa && heads > 0 && q.size(-3) % heads == 0)) return false;
  if (!mask || !mask->defined()) return true;
  std::vector<int64_t> full = q.sizes().vec();
  full.back() = k.size(-2);
  return mask->device() == q.device() && mask->dim() <= rank && at::is_expandable_to(mask->sizes(), full);
}

thread_local WatchAttention* watch = nullptr;

}  // namespace

WatchAttention::WatchAttention() : before_(std::exchange(watch, this)) {}
WatchAttention::~WatchAttention() { watch = before_; }

int64_t choose_attention(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& mask,
                         double /*dropout*/, bool /*causal*/, std::optional<double> /*scale*/, bool gqa) {
  const bool own = at::globalContext().userEnabledOverrideableSDP() && fits(q, k, v, mask, gqa);
  if (watch) watch->calls.push_back({q.dim() > 2 ? q.size(-3) : 1, q.size(-1), own});
  return static_cast<int64_t>(own ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

namespace {

void add_settings(Arguments& a, double dropout, bool causal, double scale) {
  a.constant(dropout);
  a.constant(causal);
  a.constant(scale);
}

double scale_or_default(std::optional<double> scale, const Tensor& q) {
  return scale ? *scale : 1 / std::sqrt(static_cast<double>(q.size(-1)));
}

Tensor dense(trace::Value v, const Tensor& like) {
  return dense_tensor(std::move(v), like.scalar_type(), like.device());
}

using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Forward attention(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, double dropout,
                  bool causal, bool /*return_debug_mask*/, std::optional<double> scale) {
  TORCH_CHECK(fits(q, k, v, bias, /*gqa=*/true),
              "scaled_dot_product_attention: shapes, element types or devices of query ", q.sizes(), ", key ",
              k.sizes(), ", value ", v.sizes(), " do not go together");
  TORCH_CHECK(dropout >= 0 && dropout <= 1, "dropout probability has to be between 0 and 1, but got ",
              dropout);
  exec::Lock lock(exec::mutex());
  const int device = q.device().index();
  Arguments a(q.device());
  for (const Tensor* t : {&q, &k, &v}) a.tensor(*t);
  a.tensor(bias);
  add_settings(a, dropout, causal, scale_or_default(scale, q));
  Shape out = shape_of(q), sums = shape_of(q);
  out.dims.back() = v.size(-1);
  sums.dims.pop_back();
  sums.dtype = lower::opmath_of(out.dtype);
  std::vector<Shape> shapes{out, sums};
  if (dropout > 0) {
    a.draw(lower::product(sums.dims) * k.size(-2));
    shapes.insert(shapes.end(), 2, Shape{DType::s64, {}});
  } else {
    a.absent();
    a.absent();
  }
  a.constant(float32_precision());
  static const lower::Row* row = lower::find("_scaled_dot_product_fused_attention_overrideable");
  const auto values = std::move(a).record(row, std::move(shapes));
  const Tensor result = dense(values[0], q);
  const Tensor lse = dense_tensor(values[1], at::toOpMathType(q.scalar_type()), q.device());
  Tensor seed, offset;
  if (dropout > 0) {
    seed = dense_tensor(values[2], at::kLong, q.device());
    offset = dense_tensor(values[3], at::kLong, q.device());
  }
  after_op(device);
  return {result, lse, Tensor(), Tensor(), q.size(-2), k.size(-2), seed, offset, Tensor()};
}

using Backward = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Backward attention_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                            const Tensor& bias, std::array<bool, 4> wanted, const Tensor& out,
                            const Tensor& lse, const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/,
                            c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout, bool causal,
                            const Tensor& seed, const Tensor& offset, std::optional<double> scale) {
  if (!grad.defined()) return {};
  exec::Lock lock(exec::mutex());
  const int device = q.device().index();
  Arguments a(q.device());
  for (const Tensor* t : {&grad, &q, &k, &v, &out, &lse, &bias}) a.tensor(*t);
  add_settings(a, dropout, causal, scale_or_default(scale, q));
  a.tensor(seed);
  a.tensor(offset);
  a.constant(float32_precision());
  std::vector<Shape> shapes{shape_of(q), shape_of(k), shape_of(v)};
  if (bias.defined()) shapes.push_back(shape_of(bias));
  static const lower::Row* row = lower::find("_scaled_dot_product_fused_attention_overrideable_backward");
  const auto values = std::move(a).record(row, std::move(shapes));
  Backward result;
  if (wanted[0]) std::get<0>(result) = dense(values[0], q);
  if (wanted[1]) std::get<1>(result) = dense(values[1], k);
  if (wanted[2]) std::get<2>(result) = dense(values[2], v);
  if (wanted[3] && bias.defined()) std::get<3>(result) = dense(values[3], bias);
  after_op(device);
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(choose_attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(attention_backward));
}

}  // namespace tpubridge::device

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tpubridge::device::choose_attention)
}  // namespace at::native
