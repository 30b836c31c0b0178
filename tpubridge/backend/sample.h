// A model's forward with sample inputs, with their types forgotten: what validation and optimisation run.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "tpubridge/step/tree.h"

namespace tpubridge {

struct Sample {
  std::vector<at::Tensor> inputs = {};  // the tensors of the inputs, in order
  // Forward with other tensors in their places; the tensors of the result.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> forward = {};
  explicit operator bool() const { return static_cast<bool>(forward); }
};

namespace detail {

template <class T>
inline constexpr bool is_arguments = false;
template <class... T>
inline constexpr bool is_arguments<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_arguments<std::pair<A, B>> = true;

// A holder's module, or the shared pointer itself.
template <class Model>
auto shared(const Model& model) {
  if constexpr (requires { model.ptr(); })
    return model.ptr();
  else
    return model;
}

}  // namespace detail

// A tuple or a pair is the arguments of forward; anything else is its one argument.
template <class Model, class Inputs>
[[nodiscard]] Sample sample_of(const Model& model, Inputs inputs) {
  Sample out;
  auto ignore = [](uint64_t) {};
  auto take = [&](at::Tensor& t) { out.inputs.push_back(t); };
  tree::visit(inputs, take, ignore);
  out.forward = [model = detail::shared(model), inputs, ignore](const std::vector<at::Tensor>& tensors) {
    Inputs given = inputs;
    auto next = tensors.begin();
    auto put = [&](at::Tensor& t) { t = *next++; };
    tree::visit(given, put, ignore);
    auto result = [&] {
      if constexpr (detail::is_arguments<Inputs>)
        return std::apply([&](auto&... argument) { return model->forward(argument...); }, given);
      else
        return model->forward(given);
    }();
    std::vector<at::Tensor> results;
    auto collect = [&](at::Tensor& t) { results.push_back(t); };
    tree::visit(result, collect, ignore);
    return results;
  };
  return out;
}

}  // namespace tpubridge
