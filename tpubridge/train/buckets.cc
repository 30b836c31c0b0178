#include "tpubridge/train/buckets.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <bit>

#include "tpubridge/base/errors.h"
#include "tpubridge/train/mapped_data.h"

namespace tpubridge {
namespace {

int64_t up_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

at::Tensor padded(const at::Tensor& t, int64_t dim, int64_t target, double value) {
  const int64_t more = target - t.size(dim);
  if (more == 0) return t;
  std::vector<int64_t> pad(static_cast<size_t>(2 * (t.dim() - dim)), 0);  // from the last dimension on
  pad.back() = more;
  return at::constant_pad_nd(t, pad, value);
}

[[noreturn]] void too_long(int64_t length, int64_t bucket) {
  throw ArgumentError("a sequence of length " + std::to_string(length) +
                          " does not fit the largest bucket, " + std::to_string(bucket),
                      {{"length", std::to_string(length)}, {"bucket", std::to_string(bucket)}},
                      "Cut or split it yourself, or add a larger bucket: nothing is cut silently.");
}

void check_size(const char* what, int64_t n) {
  if (n < 1)
    throw ArgumentError(std::string(what) + " of " + std::to_string(n), {}, "It must be at least 1.");
}

}  // namespace

at::Tensor PaddedBatch::restore(const at::Tensor& result) const {
  if (result.dim() < 2 || result.size(1) != mask.size(1)) return result;
  return result.narrow(1, 0, length);
}

TPUDynamicShapeHandler::TPUDynamicShapeHandler(std::vector<int64_t> buckets, double pad_value)
    : buckets_(std::move(buckets)), pad_value_(pad_value) {
  if (buckets_.empty()) throw ArgumentError("there are no buckets", {}, "Give at least one length.");
  std::sort(buckets_.begin(), buckets_.end());
  buckets_.erase(std::unique(buckets_.begin(), buckets_.end()), buckets_.end());
  check_size("a bucket", buckets_.front());
}

int64_t TPUDynamicShapeHandler::bucket_for(int64_t length) const {
  const auto it = std::lower_bound(buckets_.begin(), buckets_.end(), length);
  if (it == buckets_.end()) too_long(length, buckets_.back());
  return *it;
}

std::map<int64_t, std::vector<size_t>> TPUDynamicShapeHandler::bucket_sequences(
    const std::vector<at::Tensor>& sequences) const {
  std::map<int64_t, std::vector<size_t>> out;
  for (size_t i = 0; i < sequences.size(); ++i) out[bucket_for(sequences[i].size(0))].push_back(i);
  return out;
}

PaddedBatch TPUDynamicShapeHandler::pad_sequences(const std::vector<at::Tensor>& sequences) const {
  if (sequences.empty()) throw ArgumentError("there are no sequences");
  PaddedBatch out;
  std::vector<int64_t> lengths;
  for (const auto& s : sequences) lengths.push_back(s.size(0));
  out.length = *std::max_element(lengths.begin(), lengths.end());
  const int64_t bucket = bucket_for(out.length);
  std::vector<at::Tensor> rows;
  for (const auto& s : sequences) rows.push_back(padded(s, 0, bucket, pad_value_));
  out.tensors = {at::stack(rows)};
  out.mask = attention_mask(lengths, bucket).to(sequences[0].device());
  return out;
}

at::Tensor TPUDynamicShapeHandler::pad_to(const at::Tensor& tensor, std::optional<int64_t> target,
                                          int64_t dim) const {
  if (dim < 0) dim += tensor.dim();
  if (dim < 0 || dim >= tensor.dim()) throw ArgumentError("the tensor has no such dimension to pad");
  const int64_t length = tensor.size(dim);
  if (target && *target < length) too_long(length, *target);
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
  return padded(tensor, dim, target.value_or(power), pad_value_);
}

at::Tensor TPUDynamicShapeHandler::attention_mask(const std::vector<int64_t>& lengths, int64_t length) {
  for (const int64_t n : lengths)
    if (n > length) too_long(n, length);
  const auto ends = at::tensor(lengths, at::kLong).unsqueeze(1);
  return at::arange(length, at::kLong).unsqueeze(0).lt(ends);
}

at::Tensor TPUDynamicShapeHandler::pad_for_matrix_unit(const at::Tensor& tensor) const {
  at::Tensor out = tensor;
  for (int64_t dim = std::max<int64_t>(tensor.dim() - 2, 0); dim < tensor.dim(); ++dim)
    out = padded(out, dim, up_to(out.size(dim), 128), pad_value_);
  return out;
}

DynamicShapeManager::DynamicShapeManager(DynamicShapeOptions options) : options_(std::move(options)) {
  check_size("max_length", options_.max_length);
  check_size("bucket_size", options_.bucket_size);
}

int64_t DynamicShapeManager::padded_length(int64_t length) const {
  if (length > options_.max_length) too_long(length, options_.max_length);
  return std::min(up_to(std::max<int64_t>(length, 1), options_.bucket_size), options_.max_length);
}

PaddedBatch DynamicShapeManager::optimize_inference_batch(const Batch& batch) const {
  if (batch.empty() || batch[0].dim() < 2)
    throw ArgumentError("the first tensor of a batch must be [rows, length, …]");
  PaddedBatch out;
  out.length = batch[0].size(1);
  const int64_t target = padded_length(out.length);
  for (size_t i = 0; i < batch.size(); ++i) {
    const double value = i < options_.pad_values.size() ? options_.pad_values[i] : 0;
    const bool has_length = batch[i].dim() >= 2 && batch[i].size(1) == out.length;
    out.tensors.push_back(has_length ? padded(batch[i], 1, target, value) : batch[i]);
  }
  const std::vector<int64_t> lengths(static_cast<size_t>(batch[0].size(0)), out.length);
  out.mask = TPUDynamicShapeHandler::attention_mask(lengths, target).to(batch[0].device());
  return out;
}

Batch DynamicShapeManager::optimize_batch(const Batch& batch) const {
  PaddedBatch out = optimize_inference_batch(batch);
  out.tensors.push_back(std::move(out.mask));
  return std::move(out.tensors);
}

std::unique_ptr<DataSource> DynamicShapeManager::optimize_dataloader(DataSource& source) const {
  return std::make_unique<MappedData>(
      source, [shapes = *this](const Batch& batch) { return shapes.optimize_batch(batch); });
}

}  // namespace tpubridge
