// What `tpubridge run` tells of a run, as text and as JSON (keys: docs/command.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tpubridge/base/host_tensor.h"
#include "tpubridge/pjrt/executable.h"

namespace tpubridge::tools {

struct RunReport {
  std::string file, plugin, platform, device_kind;
  std::vector<int> devices;  // ids
  int replicas = 1, partitions = 1;
  std::vector<Shape> parameters;
  pjrt::ProgramMemory memory;
  double compile_s = 0, first_run_s = 0;
  bool from_disk = false;              // then compile_s is the time of loading
  std::vector<double> repeat_s;        // may be empty
  std::vector<HostTensor> outputs;     // out0, out1, …; on several devices out0.0, out0.1, …, out1.0, …
  std::string saved_to, picture_file;  // empty where nothing was saved
  std::vector<std::string> picture;    // lines of letters; empty where none was asked for
};

struct Spread {
  double median = 0, min = 0, max = 0;
};
[[nodiscard]] Spread spread(std::vector<double> values);

// The parts that a model's report has, too.
[[nodiscard]] std::string outputs_text(const std::vector<HostTensor>& outputs);
[[nodiscard]] nlohmann::ordered_json outputs_json(const std::vector<HostTensor>& outputs);
[[nodiscard]] std::string repeat_text(const std::vector<double>& seconds);
[[nodiscard]] nlohmann::ordered_json repeat_json(const std::vector<double>& seconds);

[[nodiscard]] std::string to_text(const RunReport& report);
[[nodiscard]] nlohmann::ordered_json to_json(const RunReport& report);

}  // namespace tpubridge::tools
