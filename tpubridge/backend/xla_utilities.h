// Looking at what XLA does with a function: how long it compiles and runs, the program itself, the options
// that suit a generation.
//
//   auto p = XLAUtilities::profile_xla_compilation(model, x);         // really compiles, runs it ten times
//   std::puts(XLAUtilities::debug_xla_graph(model, x).c_str());       // the StableHLO that would run
//
// A function is anything that can be called with the arguments, or a module that has forward(). What is
// looked at is the program that computes its results; where the function reads values on the host on its way,
// that is the last part of it. The environment is read, never changed.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tpubridge/capi/compile_options.h"
#include "tpubridge/config/config.h"
#include "tpubridge/step/tree.h"

namespace tpubridge {

struct XLAEnvInfo {
  // As they stand in the environment.
  std::optional<std::string> xla_flags, xla_python_client_mem_fraction, tpu_type, tpu_name;
  bool xla_available = false;     // a plugin can be used
  bool simulated = false;         // it is XLA's CPU plugin
  std::string platform, version;  // of the plugin; empty without one
  int xla_device_count = 0, world_size = 1;

  [[nodiscard]] std::string to_json() const;  // keys as the environment's; torch_xla_version, xrt_world_size
};

struct XLAProfile {
  double compilation_time = 0;  // seconds, of a compile that no cache answered
  double avg_execution_time =
      0;  // seconds, of ten runs, each waited for; the first run before them is not counted
  std::vector<int64_t> output_shape;  // of the first result
  std::string device;
  int64_t temporary_bytes = 0;  // device memory while it runs, beside arguments and results
  std::string error;            // why there are no figures: no plugin is here

  [[nodiscard]] std::string to_json() const;
};

class XLAUtilities {
 public:
  static constexpr int kRuns = 10;

  [[nodiscard]] static XLAEnvInfo get_xla_env_info();

  // Throws what compiling and running throw, and ArgumentError where the function gives no result that is
  // still to be computed on the device. Nothing is kept: not the program, not the results.
  template <class F, class... Args>
  [[nodiscard]] static XLAProfile profile_xla_compilation(F&& f, Args&&... args) {
    return profile([&] { return results(f, args...); });
  }
  // "PyTorch/XLA debug utilities not available" where no plugin is here.
  template <class F, class... Args>
  [[nodiscard]] static std::string debug_xla_graph(F&& f, Args&&... args) {
    return debug([&] { return results(f, args...); });
  }

  // Options of a compile for this generation, as the platform's compiler knows them (empty: that of the
  // plugin here). Pass them to a compile, or to exec::set_compile_options() for all; docs/integration.md has
  // the list.
  [[nodiscard]] static pjrt::CompileOptions optimize_xla_flags(TPUVersion version, std::string platform = {});

 private:
  using Results = std::function<std::vector<at::Tensor>()>;
  [[nodiscard]] static XLAProfile profile(const Results& results);
  [[nodiscard]] static std::string debug(const Results& results);

  template <class F, class... Args>
  static std::vector<at::Tensor> results(F& f, Args&... args) {
    auto value = [&] {
      if constexpr (requires { f->forward(args...); })  // first: calling a Sequential gives nothing
        return f->forward(args...);
      else
        return f(args...);
    }();
    std::vector<at::Tensor> out;
    auto take = [&](const at::Tensor& t) { out.push_back(t); };
    auto ignore = [](uint64_t) {};
    tree::visit(value, take, ignore);
    return out;
  }
};

}  // namespace tpubridge
