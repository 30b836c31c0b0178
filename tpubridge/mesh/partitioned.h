// tpubridge::partition: a function whose calls run as one program on all devices of the process, split by
// XLA's partitioner along the batch.
//
//   auto forward = tpubridge::partition([&](torch::Tensor x) { return model->forward(x); });
//   auto y = forward(x);                       // model, x and y are on tpu:0, as without
//
// The batch is the first dimension of the first tensor that has dimensions; every argument that begins with
// it is split, the others and all captured tensors (parameters) stand on every device. They are copied there
// once, and again when they change. Results and what the function writes come back to the first device. What
// is split how changes no value: the numbers are those of one device, up to the order of sums. A batch that
// the devices do not divide throws TPUDistributedError.
//
// It is a compiled step (step/compile.h) in all else: two calls are traced, later ones cost a guard and one
// execute over all devices, which takes over the memory of what the function overwrites, on each device. The
// same holds for what may change from call to call, and optimizers are named in the options. A value wanted
// on the host in the middle of a call is an UnsupportedError, and a call that fails leaves everything as it
// was.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {

struct PartitionReport {
  int devices = 1;
  int64_t calls = 0, replayed = 0, traced = 0;
  std::string why_traced;              // as in StepReport
  int64_t copies = 0;                  // of tensors to the other devices, beside the parts of arguments
  std::vector<Shape> parameters = {};  // what one device takes in the latest program, as it was compiled
};

namespace mesh {

class Partitioner;

class Partitioned {
 public:
  explicit Partitioned(StepOptions options = {.name = "partitioned call"});
  ~Partitioned();
  Partitioned(const Partitioned&) = delete;
  Partitioned& operator=(const Partitioned&) = delete;

  // An argument as call() splits it: on the first device, dense.
  [[nodiscard]] static at::Tensor place(const at::Tensor& argument);
  // As step::Engine's; arguments are placed, and `run` uses them.
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& arguments, const std::vector<uint64_t>& others,
                               const std::function<std::vector<at::Tensor>()>& run,
                               std::shared_ptr<void>& form);
  // Compiles what such a call runs; everything else is as it was before.
  [[nodiscard]] std::shared_ptr<const void> prepare(const std::vector<at::Tensor>& arguments,
                                                    const std::function<std::vector<at::Tensor>()>& run);
  [[nodiscard]] PartitionReport report() const;

 private:
  std::shared_ptr<Partitioner> runner_;
  step::Engine engine_;
};

// Throws where the devices do not divide the batch of these arguments.
void check_batch(const std::vector<at::Tensor>& arguments);

}  // namespace mesh

template <class F>
class PartitionedFunction {
 public:
  PartitionedFunction(F fn, StepOptions options)
      : fn_(std::move(fn)), engine_(std::make_unique<mesh::Partitioned>(std::move(options))) {}

  template <class... Args>
  auto operator()(Args... args) {
    auto place = [](at::Tensor& t) { t = mesh::Partitioned::place(t); };
    auto ignore = [](uint64_t) {};
    (tree::visit(args, place, ignore), ...);
    return step::typed_call(*engine_, fn_, args...);
  }
  [[nodiscard]] PartitionReport report() const { return engine_->report(); }

 private:
  F fn_;
  std::unique_ptr<mesh::Partitioned> engine_;
};

template <class F>
[[nodiscard]] PartitionedFunction<F> partition(F fn, StepOptions options = {.name = "partitioned call"}) {
  return PartitionedFunction<F>(std::move(fn), std::move(options));
}

}  // namespace tpubridge
