// Data parallel training over the devices of this process: one replica of the model on each, each batch split
// by rows among them, gradients averaged by one all_reduce, parameters equal to the bit at every step.
//
//   DataParallel parallel(model.ptr(), devices);
//   parallel.make_optimizers([](auto parameters) { return std::make_shared<torch::optim::AdamW>(parameters,
//   1e-3); }); for (auto& batch : batches)                                       // std::pair of tensors, for
//   example
//     loss = parallel.train_step(batch, [](Net& net, auto& part) { return net.loss(part.first, part.second);
//     });
//
// The loss is the mean over the rows it is given; then a step is the same as one device would make of the
// whole batch, whatever the number of rows. What is random on a replica (dropout) is drawn by each for its
// own rows. Running statistics are the first replica's, as in torch's DistributedDataParallel.
//
// train_step() is made of compiled steps (step/compile.h): from its third call on with batches of the same
// shapes, each replica costs a guard and two executes, and the function for the loss is not run any more.
// What it uses beside the model and the part must not change, but for tensors on the device;
// set_compiled(false) is for one where that is so. Traced at each call, too: a function that cannot be
// compared with the one of the call before (a std::function, or a lambda that holds a tensor), an optimizer
// of a class that compile() does not know, batches with fewer rows than replicas.
#pragma once

#include <cstring>
#include <optional>
#include <string_view>
#include <typeinfo>

#include "tpubridge/backend/replicas_compiled.h"

namespace tpubridge {

template <class M>
class DataParallel {
 public:
  // The model becomes the first replica: the same object, moved to the first device. On one device it is the
  // only one. `another` is needed where the model has no clone() (is no torch::nn::Cloneable).
  DataParallel(std::shared_ptr<M> model, std::vector<c10::Device> devices,
               std::function<std::shared_ptr<M>()> another = {})
      : model_(model), replicas_(model, std::move(devices), erased(std::move(another))) {}

  [[nodiscard]] const std::shared_ptr<M>& model() const { return model_; }
  [[nodiscard]] M* operator->() const { return model_.get(); }
  [[nodiscard]] size_t size() const { return replicas_.modules().size(); }
  [[nodiscard]] M& replica(size_t i) const { return dynamic_cast<M&>(*replicas_.modules().at(i)); }
  [[nodiscard]] const std::vector<c10::Device>& devices() const { return replicas_.devices(); }

  // An optimizer for each replica: make(parameters) gives a shared_ptr to one. All must be alike.
  template <class Make>
  void make_optimizers(Make make) {
    steps_.reset();
    refused_ = false;
    for (size_t i = 0; i < size(); ++i) replicas_.add_optimizer(make(replica(i).parameters()));
  }
  [[nodiscard]] const auto& optimizers() const { return replicas_.optimizers(); }

  void zero_grad() { replicas_.zero_grad(); }
  void step() { replicas_.step(); }
  // After the model was changed from outside, by a checkpoint for example.
  void broadcast() { replicas_.broadcast(); }

  // Adds to the gradients of all replicas the mean over the whole batch, and gives the mean loss, on the
  // first device. `batch` is a tensor, or tensors in vectors, maps, tuples, structs (step/tree.h); the first
  // size of its first tensor is the number of rows, and what has another first size goes whole to each.
  template <class Data, class Loss>
  at::Tensor backward(const Data& batch, Loss&& loss) {
    const int64_t rows = rows_of(batch);
    const auto shares = replicas_.share(rows);
    replicas_.broadcast_buffers();
    std::vector<at::Tensor> losses;
    for (size_t i = 0; i < size(); ++i) {
      if (shares[i].count == 0) continue;
      Data part = part_of(batch, rows, shares[i], devices()[i]);
      const at::Tensor value = loss(replica(i), part).mul(shares[i].weight);
      value.backward();
      losses.push_back(value.detach());
    }
    replicas_.average_gradients();
    return mean_of(losses, size());
  }

  // Gradients from zero, backward, and a step of every optimizer.
  template <class Data, class Loss>
  at::Tensor train_step(const Data& batch, Loss&& loss) {
    zero_grad();
    const auto key = key_of(loss);
    if (key && rows_of(batch) >= static_cast<int64_t>(size()) && compiled())
      return compiled_step(batch, loss, *key);
    at::Tensor out = backward(batch, loss);
    step();
    return out;
  }
  void set_compiled(bool on) { wanted_ = on; }
  // How many calls of compiled steps were traced, all replicas together; 0 where train_step() compiles none.
  [[nodiscard]] int64_t traced() const { return steps_ ? steps_->traced() : 0; }

 private:
  // What tells one function for the loss from another: its type, and what it holds.
  template <class Loss>
  static std::optional<uint64_t> key_of(const Loss& loss) {
    const uint64_t type = typeid(Loss).hash_code();
    if constexpr (std::is_empty_v<Loss>) {
      return type;
    } else if constexpr (std::is_trivially_copyable_v<Loss>) {
      char bytes[sizeof(Loss)];
      std::memcpy(bytes, &loss, sizeof bytes);
      return type ^ (std::hash<std::string_view>()({bytes, sizeof bytes}) * 0x9e3779b97f4a7c15ull);
    } else {
      return std::nullopt;
    }
  }
  // Whether there are compiled steps; makes them.
  bool compiled() {
    if (!wanted_ || devices()[0].is_cpu() || replicas_.optimizers().size() != size()) return false;
    if (!steps_ && !refused_) steps_ = compiled_replicas(replicas_);
    refused_ = !steps_;
    return !refused_;
  }
  template <class Data, class Loss>
  at::Tensor compiled_step(const Data& batch, Loss& loss, uint64_t key) {
    const int64_t rows = rows_of(batch);
    const auto shares = replicas_.share(rows);
    replicas_.broadcast_buffers();
    std::vector<FlatGradients> all;
    for (size_t i = 0; i < size(); ++i) {
      Data part = part_of(batch, rows, shares[i], devices()[i]);
      auto of_this = [&](Data& given) { return loss(replica(i), given); };
      all.push_back(steps_->gradients(i, of_this, part, shares[i].weight, key, step::closure_of(loss)));
    }
    return steps_->apply(all);
  }

  static std::function<Replicas::Module()> erased(std::function<std::shared_ptr<M>()> another) {
    if (!another) return {};
    return [another = std::move(another)]() -> Replicas::Module { return another(); };
  }
  template <class Data>
  static int64_t rows_of(const Data& batch) {
    int64_t rows = -1;
    auto look = [&](const at::Tensor& t) {
      if (rows < 0 && t.defined() && t.dim() > 0) rows = t.size(0);
    };
    auto ignore = [](uint64_t) {};
    tree::visit(batch, look, ignore);
    return rows;
  }
  template <class Data>
  static Data part_of(const Data& batch, int64_t rows, const BatchShare& share, const c10::Device& device) {
    Data out = batch;
    auto take = [&](at::Tensor& t) { t = rows_on(t, rows, share, device); };
    auto ignore = [](uint64_t) {};
    tree::visit(out, take, ignore);
    return out;
  }

  std::shared_ptr<M> model_;
  Replicas replicas_;
  std::unique_ptr<CompiledReplicas> steps_;
  bool wanted_ = true, refused_ = false;
};

}  // namespace tpubridge
