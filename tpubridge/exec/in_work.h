// Graphs whose programs are being found. The mutex is not held while XLA compiles, and no other thread may
// compute a node of such a graph meanwhile: whoever wants one waits. All under exec::mutex().
#pragma once

#include <vector>

#include "tpubridge/trace/graph.h"

namespace tpubridge::exec {

// While it lives the nodes of the graph stay pending.
class InWork {
 public:
  explicit InWork(const trace::Graph& graph);
  ~InWork();
  InWork(const InWork&) = delete;
  InWork& operator=(const InWork&) = delete;

 private:
  const trace::Graph& graph_;
};

// Whether somebody works on what these values (pending ones) need. Then it waits until some work has ended,
// with the mutex let go: the caller must look at everything anew.
[[nodiscard]] bool wait_for_others(const std::vector<trace::Value>& values);

}  // namespace tpubridge::exec
