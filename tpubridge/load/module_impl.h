// What a loaded module is made of. Not for users.
#pragma once

#include "tpubridge/load/inputs.h"
#include "tpubridge/load/load.h"
#include "tpubridge/load/prepared.h"
#include "tpubridge/pt2/archive.h"

namespace tpubridge {

struct LoadedModule::Impl {
  explicit Impl(const Path& path);

  std::shared_ptr<exported::Archive> archive;  // mapped weights hold on to it
  exported::PreparedGraph graph;
  exported::Arguments arguments;
  std::vector<std::string> outputs;
  std::vector<at::Tensor>
      state;  // by the graph's inputs: parameters, buffers, constants; undefined for others
  exported::Mode mode = exported::Mode::as_exported;
  std::optional<at::Device> device;  // what to() was told last

  [[nodiscard]] const exported::Program& program() const { return archive->program; }
  [[nodiscard]] at::Device device_of(const std::vector<c10::IValue>& leaves) const;
  // Parameters, buffers and constants, each where it is: who has one of them has the moved one.
  void move_all(const torch::nn::Module& module,
                const std::function<at::Tensor(const at::Tensor&)>& move) const;
};

}  // namespace tpubridge
