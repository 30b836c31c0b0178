// A typed function over an engine that knows tensors alone: arguments are taken apart, results put together.
//
// An engine has call(tensors, others, run, form): it runs `run`, which gives the tensors of the result and
// leaves its form without them, or gives the tensors itself, with the form that an earlier call left.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tpubridge/step/closure.h"
#include "tpubridge/step/tree.h"

namespace tpubridge::step {

template <class Engine, class F, class... Args>
auto typed_call(Engine& engine, F& fn, Args&... args) {
  using R = std::decay_t<std::invoke_result_t<F&, Args&...>>;
  std::vector<at::Tensor> tensors;
  std::vector<uint64_t> others;
  [[maybe_unused]] auto take = [&](const at::Tensor& t) { tensors.push_back(t); };
  [[maybe_unused]] auto note = [&](uint64_t word) { others.push_back(word); };
  (tree::visit(args, take, note), ...);
  std::shared_ptr<void> form;
  const ClosureScope seen(closure_of(fn));
  auto ignore = [](uint64_t) {};
  if constexpr (std::is_void_v<R>) {
    engine.call(
        tensors, others, [&] { return fn(args...), std::vector<at::Tensor>(); }, form);
  } else {
    std::optional<R> fresh;
    auto run = [&] {
      fresh.emplace(fn(args...));
      std::vector<at::Tensor> out;
      auto detach = [&](at::Tensor& t) { out.push_back(t = t.defined() ? t.detach() : t); };
      tree::visit(*fresh, detach, ignore);
      auto empty = std::make_shared<R>(*fresh);
      auto drop = [](at::Tensor& t) { t = at::Tensor(); };
      tree::visit(*empty, drop, ignore);
      form = std::move(empty);
      return out;
    };
    const auto results =
        engine.call(tensors, others, std::ref(run), form);  // a function of one pointer: nothing is allocated
    if (fresh) return std::move(*fresh);
    R out = *static_cast<R*>(form.get());
    auto next = results.begin();
    auto put = [&](at::Tensor& t) { t = *next++; };
    tree::visit(out, put, ignore);
    return out;
  }
}

// A call of rows of the arguments' tensors, taken apart.
template <class F, class... Args>
class Rows {
 public:
  using R = std::decay_t<std::invoke_result_t<F&, Args&...>>;
  Rows(F& fn, Args&... args) : fn_(fn), one_(args...) {
    [[maybe_unused]] auto take = [&](const at::Tensor& t) { stacks.push_back(t); };
    [[maybe_unused]] auto note = [&](uint64_t word) { others.push_back(word); };
    (tree::visit(args, take, note), ...);
  }
  // One call.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& row) {
    std::vector<at::Tensor> out;
    put(row);
    if constexpr (std::is_void_v<R>) {
      std::apply(fn_, one_);
    } else {
      auto result = std::make_shared<R>(std::apply(fn_, one_));
      auto drop = [&](at::Tensor& t) { out.push_back(t.defined() ? t.detach() : t), t = at::Tensor(); };
      auto ignore = [](uint64_t) {};
      tree::visit(*result, drop, ignore);
      form = std::move(result);
    }
    put({});  // nothing of ours holds it
    return out;
  }
  R result([[maybe_unused]] const std::vector<at::Tensor>& tensors) const requires(!std::is_void_v<R>) {
    R out = *static_cast<R*>(form.get());
    auto next = tensors.begin();
    auto put = [&](at::Tensor& t) { t = *next++; };
    auto ignore = [](uint64_t) {};
    tree::visit(out, put, ignore);
    return out;
  }

  std::vector<at::Tensor> stacks;
  std::vector<uint64_t> others;
  std::shared_ptr<void> form;

 private:
  void put(const std::vector<at::Tensor>& row) {
    auto next = row.begin();
    [[maybe_unused]] auto set = [&](at::Tensor& t) { t = next == row.end() ? at::Tensor() : *next++; };
    [[maybe_unused]] auto ignore = [](uint64_t) {};
    std::apply([&](auto&... arg) { (tree::visit(arg, set, ignore), ...); }, one_);
  }
  F& fn_;
  std::tuple<std::remove_const_t<Args>...> one_;  // with a row in the place of each tensor
};

// Calls with all rows: engine.many(tensors, others, run, form, before).
template <class Engine, class F, class Before, class... Args>
auto typed_many(Engine& engine, F& fn, const Before& before, Args&... args) {
  Rows<F, Args...> rows(fn, args...);
  const ClosureScope seen(closure_of(fn));
  const auto results = engine.many(rows.stacks, rows.others, std::ref(rows), rows.form, before);
  if constexpr (!std::is_void_v<typename Rows<F, Args...>::R>) return rows.result(results);
}

// The same by engine.loop(…), which may give nothing.
template <class Engine, class F, class Before, class... Args>
auto typed_loop(Engine& engine, F& fn, const Before& before, Args&... args) {
  Rows<F, Args...> rows(fn, args...);
  const ClosureScope seen(closure_of(fn));
  const auto results = engine.loop(rows.stacks, rows.others, std::ref(rows), rows.form, before);
  using R = typename Rows<F, Args...>::R;
  return results ? std::optional<R>(rows.result(*results)) : std::nullopt;
}

// What engine.prepare(tensors, run) gives for such a call.
template <class Engine, class F, class... Args>
auto typed_prepare(Engine& engine, F& fn, Args&... args) {
  std::vector<at::Tensor> tensors;
  [[maybe_unused]] auto take = [&](const at::Tensor& t) { tensors.push_back(t); };
  [[maybe_unused]] auto ignore = [](uint64_t) {};
  (tree::visit(args, take, ignore), ...);
  const ClosureScope seen(closure_of(fn));
  return engine.prepare(tensors, [&] {
    std::vector<at::Tensor> out;
    if constexpr (std::is_void_v<std::invoke_result_t<F&, Args&...>>) {
      fn(args...);
    } else {
      auto result = fn(args...);
      auto detach = [&](at::Tensor& t) { out.push_back(t.defined() ? t.detach() : t); };
      tree::visit(result, detach, ignore);
    }
    return out;
  });
}

}  // namespace tpubridge::step
