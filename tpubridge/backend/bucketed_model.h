// A compiled model for sequences of many lengths: inputs [rows, length, …] are padded up to a multiple of
// bucket_size, so that few programs are compiled, and the padding is cut off the results [rows, length, …].
//
//   auto model = optimizations.enable_dynamic_shapes(gpt, {.max_length = 1024, .bucket_size = 64});
//   auto y = model(ids);           // forward must not let real places see later ones: padding is behind them
//   auto z = model.masked(ids);    // forward(ids, mask): mask is bool [rows, length], false in the padding
//   auto c = model.pooled(ids);    // the same, for a result that has no length: nothing is cut off
//
// Nothing is cut: an input longer than max_length is an ArgumentError with both lengths.
#pragma once

#include "tpubridge/backend/compiled_model.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/train/buckets.h"

namespace tpubridge {

template <class Model>  // a holder, or a shared_ptr to a module
class BucketedModel {
 public:
  BucketedModel(CompiledModel<Model> model, DynamicShapeOptions lengths)
      : model_(std::move(model)), shapes_(std::move(lengths)) {}

  at::Tensor operator()(const at::Tensor& input) {
    const PaddedBatch batch = shapes_.optimize_inference_batch({input});
    return cut(batch, model_(batch.tensors[0]));
  }
  at::Tensor masked(const at::Tensor& input) {
    const PaddedBatch batch = shapes_.optimize_inference_batch({input});
    return cut(batch, model_(batch.tensors[0], batch.mask));
  }
  at::Tensor pooled(const at::Tensor& input) {
    const PaddedBatch batch = shapes_.optimize_inference_batch({input});
    return model_(batch.tensors[0], batch.mask);
  }

  [[nodiscard]] CompiledModel<Model>& compiled() { return model_; }
  [[nodiscard]] const DynamicShapeManager& shapes() const { return shapes_; }

 private:
  static at::Tensor cut(const PaddedBatch& batch, const at::Tensor& result) {
    if (result.dim() < 2 || result.size(1) != batch.mask.size(1))
      throw ArgumentError("the result of a model over buckets has not the length of its input",
                          {{"length", std::to_string(batch.mask.size(1))}}, "pooled() takes such models.");
    return batch.restore(result);
  }
  CompiledModel<Model> model_;
  DynamicShapeManager shapes_;
};

}  // namespace tpubridge
