// Gradient checkpointing: what the function computes on the way is not kept for backward, but computed again
// there. Costs a second forward pass, saves the memory of everything between the function's inputs and its
// results.
//
//   auto h = tpubridge::checkpoint([&](torch::Tensor x) { return block->forward(x); })(h);
//
// Takes and gives tensors, also inside vectors, maps, tuples, optionals and structs (step/tree.h). Works
// traced, inside tpubridge::compile(), and nested. Random numbers (of the default generators) and autocast
// are the same the second time. Parameters that the function uses get their gradients; a tensor with a
// history must be an argument. Writes to tensors from outside (running statistics) happen twice.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tpubridge/step/tree.h"

namespace tpubridge {
namespace step {

using OnTensors = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
[[nodiscard]] std::vector<at::Tensor> checkpointed(OnTensors fn, const std::vector<at::Tensor>& inputs);

}  // namespace step

template <class F>
class Checkpointed {
 public:
  explicit Checkpointed(F fn) : fn_(std::make_shared<F>(std::move(fn))) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Held = std::tuple<std::decay_t<Args>...>;
    using R = std::decay_t<std::invoke_result_t<F&, std::decay_t<Args>&...>>;
    static_assert(!std::is_void_v<R>, "a checkpointed function must give its results");
    auto ignore = [](uint64_t) {};
    // Arguments and results without their tensors: those belong to autograd.
    auto held = std::make_shared<Held>(std::forward<Args>(args)...);
    auto shape = std::make_shared<std::optional<R>>();
    std::vector<at::Tensor> inputs;
    auto take = [&](at::Tensor& t) { inputs.push_back(std::exchange(t, at::Tensor())); };
    tree::visit(*held, take, ignore);
    auto run = [fn = fn_, held, shape, ignore](const std::vector<at::Tensor>& in) {
      Held given = *held;
      auto next = in.begin();
      auto put = [&](at::Tensor& t) { t = *next++; };
      tree::visit(given, put, ignore);
      R result = std::apply(*fn, given);
      std::vector<at::Tensor> out;
      auto collect = [&](at::Tensor& t) { out.push_back(std::exchange(t, at::Tensor())); };
      tree::visit(result, collect, ignore);
      if (!*shape) shape->emplace(std::move(result));
      return out;
    };
    const auto results = step::checkpointed(std::move(run), inputs);
    R out = **shape;
    auto next = results.begin();
    auto put = [&](at::Tensor& t) { t = *next++; };
    tree::visit(out, put, ignore);
    return out;
  }

 private:
  std::shared_ptr<F> fn_;
};

template <class F>
[[nodiscard]] Checkpointed<F> checkpoint(F fn) {
  return Checkpointed<F>(std::move(fn));
}

}  // namespace tpubridge
