// What becomes of the values of a program that cannot run.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <span>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/in_work.h"
#include "tpubridge/exec/lengths.h"
#include "tpubridge/exec/live.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/redo.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/exec/sizes.h"
#include "tpubridge/exec/zeros.h"

namespace tpubridge::exec {
namespace {

using trace::Graph;
using trace::Value;
using Part = std::vector<Value>;

enum class Failure {
  for_now,     // the same may work later
  too_slow,    // also that, but trying took long
  of_program,  // it will fail again
  of_device,   // whatever is tried on this device will fail
};

Failure kind_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const XLACompilationTimeoutError&) {  // the compile goes on: whoever asks again may have it
    return Failure::too_slow;
  } catch (const CompileForbidden&) {
    return Failure::for_now;
  } catch (const TPUOutOfMemoryError& e) {  // when something was freed; but an input may be lost for good
    return e.code() == Code::data_loss ? Failure::of_program : Failure::for_now;
  } catch (const std::bad_alloc&) {
    return Failure::for_now;
  } catch (const TPUDeviceError&) {
    return Failure::of_device;
  } catch (...) {
    return Failure::of_program;
  }
}

// The error of an input that can never be read: its own, or that its client was given up.
std::exception_ptr error_of(const trace::Leaf& leaf) {
  if (leaf.node->error()) return leaf.node->error();
  try {
    if (leaf.node->data(leaf.index)) (void)data_of(*leaf.node, leaf.index);
    return nullptr;
  } catch (const TPUDeviceError&) {
    return std::current_exception();
  }
}

bool is_gone(const trace::Leaf& leaf) {
  return leaf.node->data(leaf.index) && data_of(*leaf.node, leaf.index).as_it_is().deleted();
}

// The program had taken over memory before it failed.
std::exception_ptr inputs_lost(int64_t count, const std::exception_ptr& error) {
  std::string problem;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    problem = e.what();
  }
  return std::make_exception_ptr(TPUDeviceError(
      fmt::format("a program failed after {} of its inputs had been given to it: they are lost, and what was "
                  "to be computed from them",
                  count),
      {{"problem", problem}}, "Restore these tensors, from a checkpoint or by making them anew.",
      Code::data_loss));
}

// The error also says how much it cost. One that was told before stays as it is: others may be reading it.
void tell(const std::exception_ptr& error, size_t failed, size_t of) {
  try {
    std::rethrow_exception(error);
  } catch (Error& e) {
    if (e.detail("values affected").empty())
      e.add({{"values affected", fmt::format("{} of {}", failed, of)}});
  } catch (...) {  // not one of ours: it has no place for it
  }
}

void add_pending(std::vector<Value>& to, const std::vector<Value>& values) {
  std::ranges::copy_if(values, std::back_inserter(to), [](const Value& v) { return v->is_pending(); });
}

// Saves what can be saved of a graph that failed as a whole.
class Rescue {
 public:
  Rescue(const Graph& graph, int device, std::string_view reason)
      : device_(device), reason_(reason), all_(graph.roots.size()), parts_(trace::parts(graph)) {}

  // Never throws what a program throws: values keep it.
  void run(const std::exception_ptr& error, const std::vector<Value>& wanted) {
    failed_together(parts_, error);
    if (kind_of(error) != Failure::for_now || parts_.size() == 1) return;
    for (const Part& part : parts_)  // by itself it takes less
      if (std::ranges::any_of(part, [&](auto& v) { return v->is_pending() && contains(wanted, v); }))
        attempt({&part, 1});
  }
  [[nodiscard]] size_t failed() const { return failed_; }
  // What to tell whoever asked for all of it.
  [[noreturn]] void rethrow(const std::exception_ptr& error) const {
    if (lost_) std::rethrow_exception(lost_);
    if (failed_ > 0) tell(error, failed_, all_);
    std::rethrow_exception(error);
  }

 private:
  static bool contains(const std::vector<Value>& list, const Value& v) {
    return std::ranges::any_of(list, [&](const Value& w) { return w.node() == v.node(); });
  }

  // Other threads may have computed some of it whenever the mutex was let go.
  static Graph collect_pending(std::span<const Part> parts) {
    std::vector<Value> roots;
    do {
      roots.clear();
      for (const Part& part : parts) add_pending(roots, part);
    } while (wait_for_others(roots));
    return trace::collect(std::move(roots), /*held_too=*/false);
  }

  void poison(const Part& part, const std::exception_ptr& error) {
    tell(error, part.size(), all_);
    for (const auto& v : part)
      if (v->is_pending()) v->poison(error);  // once for all results of a node
    failed_ += part.size();
  }

  // Without those whose inputs have an error or are gone: they can never be computed.
  std::vector<Part> possible(std::span<const Part> parts, const std::exception_ptr& error) {
    std::vector<Part> out;
    for (const Part& part : parts) {
      const Graph graph = collect_pending({&part, 1});
      if (graph.roots.empty()) continue;
      const auto bad =
          std::ranges::find_if(graph.leaves, [](auto& leaf) { return error_of(leaf) != nullptr; });
      if (bad != graph.leaves.end())
        poison(part, error_of(*bad));
      else if (const auto gone = std::ranges::count_if(graph.leaves, is_gone); gone > 0)
        poison(part, lost_ = inputs_lost(gone, error));
      else
        out.push_back(part);
    }
    return out;
  }

  void failed_together(std::span<const Part> parts, const std::exception_ptr& error) {
    const Failure kind = kind_of(error);
    const std::vector<Part> left = possible(parts, error);
    if (left.empty() || kind == Failure::for_now || kind == Failure::too_slow) return;
    if (left.size() < parts.size()) return attempt(left);  // the error may have been the others'
    if (kind == Failure::of_program && left.size() > 1) {
      attempt(parts.first(parts.size() / 2));
      attempt(parts.last(parts.size() - parts.size() / 2));
      return;
    }
    size_t values = 0;
    for (const Part& part : parts) values += part.size();
    tell(error, values, all_);
    for (const Part& part : parts) poison(part, error);
  }

  void attempt(std::span<const Part> parts) {
    try {
      if (const Graph graph = collect_pending(parts); !graph.roots.empty())
        (void)run_whole(graph, device_, reason_, Sizes::many);
    } catch (...) {
      failed_together(parts, std::current_exception());
    }
  }

  int device_;
  std::string_view reason_;
  size_t all_, failed_ = 0;
  std::vector<Part> parts_;
  std::exception_ptr lost_;
};

}  // namespace

namespace {

// Throws the error of a wanted value, or this one where it can still be computed.
void tell_wanted(const std::vector<Value>& wanted, const std::exception_ptr& error) {
  for (const auto& v : wanted) {
    if (v->is_pending()) std::rethrow_exception(error);
    if (v->error()) std::rethrow_exception(v->error());
  }
}

void compute_whole(const Graph& graph, int device_index, const std::vector<Value>& wanted,
                   std::string_view reason, Sizes sizes) {
  try {
    (void)run_whole(graph, device_index, reason, sizes);
  } catch (...) {
    const auto error = std::current_exception();
    Rescue rescue(graph, device_index, reason);
    rescue.run(error, wanted);
    tell_wanted(wanted, error);
    if (wanted.empty()) rescue.rethrow(error);
    if (rescue.failed() > 0)
      log::warn("values.failed", {{"values", std::to_string(rescue.failed())},
                                  {"effect", "whoever reads one gets its error"}});
  }
}

void compute_only(const std::vector<Value>& wanted, std::string_view reason, Sizes sizes);

// One after the other. Where one fails, what is left is computed as if there were no parts.
void compute_parts(std::vector<std::vector<Value>> parts, std::string_view why, int device_index,
                   const std::vector<Value>& wanted, std::string_view reason) {
  for (auto& part : parts) {
    try {
      compute_only(part, why, Sizes::changing);
      part.clear();
    } catch (...) {
      const auto error = std::current_exception();
      const bool poisoned = std::ranges::any_of(part, [](const Value& v) { return v->error() != nullptr; });
      std::vector<Value> left;
      for (auto& p : parts) add_pending(left, p), p.clear();
      if (!left.empty())
        compute_whole(trace::collect(std::move(left)), device_index, wanted, reason, Sizes::many);
      tell_wanted(wanted, error);
      if (wanted.empty() && poisoned) std::rethrow_exception(error);
      return;
    }
  }
}

void compute(int device_index, std::vector<Value> roots, const std::vector<Value>& wanted,
             std::string_view reason, Sizes sizes) {
  if (roots.empty()) return;
  Graph graph = trace::collect(std::move(roots));
  if (graph.nodes.size() >= std::min(kPartedOps, kRoundedOps) && !is_known(graph, device_index)) {
    std::string_view why = "a part whose sizes change, or the rest beside it";
    auto parts = parts_by_sizes(graph);
    if (parts.size() <= 1) parts = parts_by_rounds(graph), why = "a round of a loop whose length changes";
    if (parts.size() > 1) {
      graph = Graph();  // nothing but the values themselves may be held while they are computed
      return compute_parts(std::move(parts), why, device_index, wanted, reason);
    }
  }
  compute_whole(graph, device_index, wanted, reason, sizes);
}

void compute_only(const std::vector<Value>& wanted, std::string_view reason, Sizes sizes) {
  const Lock lock(mutex());
  std::vector<Value> roots;
  do {
    roots.clear();
    add_pending(roots, wanted);
  } while (wait_for_others(roots));
  if (roots.empty()) return;
  const int device_index = roots[0]->device();
  compute(device_index, std::move(roots), wanted, reason, sizes);
}

}  // namespace

void materialise(int device_index, const std::vector<Value>& wanted, std::string_view reason) {
  const Lock lock(mutex());
  forget_ended();
  std::vector<Value> roots;
  do {
    roots = pending_values(device_index);
    add_pending(roots, wanted);
    if (roots.empty()) return;
  } while (wait_for_others(roots) || put_first_zeros(device_index, roots));
  compute(device_index, std::move(roots), wanted, reason, Sizes::many);
}

void materialise_only(const std::vector<Value>& wanted, std::string_view reason) {
  compute_only(wanted, reason, Sizes::many);
}

}  // namespace tpubridge::exec
