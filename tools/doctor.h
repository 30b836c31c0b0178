// What `tpubridge doctor` finds out, part by part. A part never throws for what it looks at: that becomes a
// finding. No plugin is loaded into this process: a child does it, so that a plugin may crash or hang.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tpubridge::tools {

struct Finding {
  enum class Level { info, ok, note, problem };
  Level level = Level::info;
  std::string text;
  std::vector<std::string> facts = {};  // lines below it
  std::string action = {};              // what to do; empty where nothing is to be done
};
[[nodiscard]] std::string_view to_string(Finding::Level level);

struct Part {
  std::string name;  // "plugins"
  std::vector<Finding> findings;
  nlohmann::ordered_json data;  // what is known beyond the findings; null where nothing is
};

[[nodiscard]] Part look_at_machine();
[[nodiscard]] Part look_at_plugins(const std::string& wanted);
[[nodiscard]] Part look_at_environment();
[[nodiscard]] Part look_at_libraries(const Part& plugins);
[[nodiscard]] Part look_at_tpu(const std::string& lock_file);
[[nodiscard]] Part look_at_fit();
[[nodiscard]] Part look_at_cache();

// The child's job: opens the plugin, multiplies two matrices on each of its devices, and returns what it
// found.
[[nodiscard]] nlohmann::ordered_json self_test(const std::string& wanted);

}  // namespace tpubridge::tools
