// Sequences of many lengths as tensors of few: each length is another program to compile, so lengths are
// padded up to a bucket's. Nothing is ever cut: a sequence longer than the largest bucket is an
// ArgumentError that names both.
//
//   DynamicShapeManager shapes({.max_length = 1024, .bucket_size = 64, .pad_values = {0, -100}});
//   auto data = shapes.optimize_dataloader(source);
//   trainer.train(*data);                     // the loss gets {x, y, mask}: lengths are multiples of 64
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tpubridge/train/data.h"

namespace tpubridge {

// Rows of equal lengths, and which places are real.
struct PaddedBatch {
  Batch tensors;
  at::Tensor mask;     // bool [rows, padded length]: false where there is padding
  int64_t length = 0;  // before; of the longest row
  // A result of the padded batch (rows, length, …) without the padding.
  [[nodiscard]] at::Tensor restore(const at::Tensor& result) const;
};

// Sequences one by one: buckets of given lengths.
class TPUDynamicShapeHandler {
 public:
  // Throws ArgumentError where there is none, or one is below 1. Sorted; each counts once.
  explicit TPUDynamicShapeHandler(std::vector<int64_t> buckets = {128, 256, 512, 1024, 2048, 4096},
                                  double pad_value = 0);

  [[nodiscard]] const std::vector<int64_t>& buckets() const { return buckets_; }
  [[nodiscard]] int64_t bucket_for(int64_t length) const;  // the smallest that holds it
  // Which sequences (their places in the list) go into which bucket; those that get none are left out.
  [[nodiscard]] std::map<int64_t, std::vector<size_t>> bucket_sequences(
      const std::vector<at::Tensor>& sequences) const;
  // Sequences [length, …] of one type and one rank, as one tensor [sequences, bucket, …].
  [[nodiscard]] PaddedBatch pad_sequences(const std::vector<at::Tensor>& sequences) const;

  // Up to `target` along a dimension; without one, to the next power of two.
  [[nodiscard]] at::Tensor pad_to(const at::Tensor& tensor, std::optional<int64_t> target = {},
                                  int64_t dim = -1) const;
  // bool [lengths, length]: true in the first lengths[i] places of row i.
  [[nodiscard]] static at::Tensor attention_mask(const std::vector<int64_t>& lengths, int64_t length);
  // The last two dimensions up to multiples of 128, the side of the matrix unit.
  [[nodiscard]] at::Tensor pad_for_matrix_unit(const at::Tensor& tensor) const;

 private:
  std::vector<int64_t> buckets_;
  double pad_value_;
};

struct DynamicShapeOptions {
  int64_t max_length = 2048;
  int64_t bucket_size = 64;             // lengths become multiples of it, max_length at most
  std::vector<double> pad_values = {};  // of the i-th tensor of a batch; 0 where there is none
};

// Batches: every tensor that has the first one's length in its second dimension is padded there; the others
// stay.
class DynamicShapeManager {
 public:
  explicit DynamicShapeManager(DynamicShapeOptions options = {});  // ArgumentError for sizes below 1
  DynamicShapeManager(int64_t max_length, int64_t bucket_size)
      : DynamicShapeManager(DynamicShapeOptions{max_length, bucket_size}) {}

  [[nodiscard]] int64_t padded_length(int64_t length) const;
  // For training: the tensors, and the mask behind them.
  [[nodiscard]] Batch optimize_batch(const Batch& batch) const;
  // For inference: with what is needed to cut the padding off the result.
  [[nodiscard]] PaddedBatch optimize_inference_batch(const Batch& batch) const;
  // A source of such batches over one that must outlive it; it stands where that one stands.
  [[nodiscard]] std::unique_ptr<DataSource> optimize_dataloader(DataSource& source) const;

 private:
  DynamicShapeOptions options_;
};

}  // namespace tpubridge
