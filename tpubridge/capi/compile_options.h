// What a program is compiled with. Written as XLA's CompileOptionsProto.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tpubridge::pjrt {

// A program in MLIR text or bytecode (StableHLO), or an HloModuleProto with format "hlo".
struct Program {
  std::string code;
  std::string format = "mlir";
};

struct CompileOptions {
  int num_replicas = 1, num_partitions = 1;
  bool use_spmd_partitioning = false;  // split by shardings; needed where num_partitions > 1
  bool use_shardy = false;             // shardings are Shardy's (sdy.sharding) rather than mhlo.sharding
  bool propagate_sharding_to_outputs = false, propagate_sharding_to_parameters = false;
  std::vector<int> devices = {};               // global ids, replica-major; empty: the client's default
  std::optional<int> optimization_level = {};  // XLA's 0 to 3
  bool portable = false;  // compiled for any device of the kind: the device is chosen per call
  std::map<std::string, std::variant<std::string, bool, int64_t, double>> overrides =
      {};  // XLA debug options by name

  // Throws ArgumentError where the numbers do not fit together (the plugin would abort).
  [[nodiscard]] std::string serialize() const;
};

}  // namespace tpubridge::pjrt
