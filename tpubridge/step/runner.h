// Where the program of a step runs, if not on the one device of its values: mesh/ has a runner that splits it
// over all devices. But for begin(), all under exec's mutex.
#pragma once

#include <ATen/core/Tensor.h>

#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::step {

class Runner {
 public:
  struct Input {
    std::shared_ptr<trace::DeviceData> data;  // on the first device
    std::optional<size_t> argument = {};      // instead: an argument that is split
  };
  struct Kept {
    size_t root;
    trace::Value value;  // on the first device
  };
  virtual ~Runner() = default;

  [[nodiscard]] virtual int devices() const = 0;
  // Before each call: throws where one with these arguments cannot run, and splits what is to be split.
  virtual void begin(const std::vector<at::Tensor>& arguments) = 0;
  [[nodiscard]] virtual bool splits(size_t argument) const = 0;  // of the call that was begun
  // The program of this graph; `split` per leaf.
  [[nodiscard]] virtual exec::Ready program(const trace::Graph& graph, const std::vector<bool>& split) = 0;
  // Runs it, and gives the results of the first device. `packs`: numbers, each on every device.
  [[nodiscard]] virtual std::vector<pjrt::Buffer> run(
      const exec::Compiled& compiled, const std::vector<Input>& leaves,
      const std::vector<std::vector<const pjrt::Buffer*>>& packs,
      const std::vector<int64_t>& not_donated) = 0;
  // Results of the latest run that the next one will read.
  virtual void keep(const std::vector<Kept>& kept) = 0;
};

}  // namespace tpubridge::step
