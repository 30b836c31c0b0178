// Runs what was exported, without the device: as a package in this process.
#pragma once

#include "tests/base/scoped_env.h"
#include "tests/device/check.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/export/save.h"
#include "tpubridge/package/runner.h"
#include "tpubridge/train/state.h"

namespace tpubridge {

using Tensors = std::vector<at::Tensor>;

inline std::vector<HostTensor> host_inputs(const std::vector<ExportInput>& inputs) {
  std::vector<HostTensor> out;
  for (const auto& i : inputs) out.push_back(host_tensor(i.name, i.example.detach().cpu().contiguous()));
  return out;
}

// The results of the program on these inputs; executables must do, nothing is compiled.
inline std::map<std::string, at::Tensor> run_packed(const PackageWriter& writer,
                                                    const std::vector<ExportInput>& inputs) {
  const TempFolder folder;
  const Path path = folder.path() / "model.tbp";
  writer.save(path);
  const auto package = std::make_shared<const package::Package>(path);
  const std::shared_ptr<pjrt::Client> client(&exec::client(), [](auto*) {});
  package::Runner runner(package, client, {.may_compile = false});
  std::map<std::string, at::Tensor> out;
  for (const HostTensor& t : runner.run(host_inputs(inputs))) out[t.name] = torch_tensor(t).clone();
  return out;
}

inline std::map<std::string, at::Tensor> run_exported(ExportedProgram program,
                                                      const std::vector<ExportInput>& inputs) {
  PackageWriter writer("test");
  writer.add(std::move(program));
  return run_packed(writer, inputs);
}

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.type_name() + ": " + e.what();
  }
  return "nothing was thrown";
}

}  // namespace tpubridge
