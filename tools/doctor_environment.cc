// The environment part of `doctor`: variables that are set and have an effect, and which.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <map>

#include "tools/doctor.h"
#include "tpubridge/base/env.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;
using Level = Finding::Level;

enum class When { always, tpu, nvidia };  // on which machines it has an effect

struct Foreign {
  std::string_view name, effect;
  When when = When::always;
};

// Names of others that change what tpubridge or a plugin does.
constexpr std::array kForeign = {
    Foreign{"ALLOW_MULTIPLE_LIBTPU_LOAD", "lets several processes load libtpu at once"},
    Foreign{"CPU_NUM_DEVICES", "number of virtual devices of the CPU plugin"},
    Foreign{"CUDA_VISIBLE_DEVICES", "limits which GPUs the CUDA plugin sees", When::nvidia},
    Foreign{"LD_LIBRARY_PATH", "libraries of plugins are looked for here first"},
    Foreign{"LD_PRELOAD", "libraries that are loaded into every program, and may replace its functions"},
    Foreign{"PJRT_DEVICE", "takes only this name of PJRT_NAMES_AND_LIBRARY_PATHS"},
    Foreign{"PJRT_NAMES_AND_LIBRARY_PATHS", "plugins that come before those we find ourselves"},
    Foreign{"PJRT_NPROC", "number of threads of the CPU plugin"},
    Foreign{"TF_CPP_MIN_LOG_LEVEL", "how much the plugins log to stderr (0 all, 3 least)"},
    Foreign{"TPU_LIBRARY_PATH", "the libtpu to use"},
    Foreign{"XLA_FLAGS", "flags of XLA for every program; an unknown one makes plugins refuse to load"},
};

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view whole = *entry;
    const auto equals = whole.find('=');
    if (equals != whole.npos && equals + 1 < whole.size())
      out.emplace(whole.substr(0, equals), whole.substr(equals + 1));
  }
  return out;
}

// What a variable does here; empty where it does nothing.
std::string effect_of(const std::string& name) {
  for (const env::Variable& v : env::all())
    if (v.name == name) return std::string(v.description);
  for (const Foreign& f : kForeign) {
    if (f.name != name) continue;
    const bool here =
        f.when == When::always || (f.when == When::tpu ? pjrt::tpu_hardware() : pjrt::nvidia_hardware());
    return here ? std::string(f.effect) : std::string();
  }
  const bool libtpu = name.starts_with("TPU_") || name.starts_with("LIBTPU_");
  return libtpu && pjrt::tpu_hardware() ? "read by libtpu" : "";
}

}  // namespace

Part look_at_environment() {
  Part part{"environment", {}, ordered_json::array()};
  const auto problems = env::check_environment();
  for (const auto& [name, value] : environment()) {
    const auto wrong = std::ranges::find(problems, name, &env::Problem::name);
    const std::string effect = effect_of(name);
    if (wrong != problems.end()) {
      const bool unknown = !wrong->nearest.empty();
      part.findings.push_back({unknown ? Level::note : Level::problem,
                               fmt::format("{}={}", name, value),
                               {wrong->message},
                               unknown ? fmt::format("Set {} instead, or unset {}.", wrong->nearest, name)
                                       : fmt::format("Correct or unset {}.", name)});
    } else if (!effect.empty()) {
      part.findings.push_back({Level::info, fmt::format("{}={}", name, value), {effect}});
    } else {
      continue;
    }
    part.data.push_back({{"name", name},
                         {"value", value},
                         {"effect", wrong != problems.end() ? wrong->message : effect},
                         {"level", to_string(part.findings.back().level)}});
  }
  if (part.findings.empty()) part.findings.push_back({Level::ok, "no variable is set that changes anything"});
  return part;
}

}  // namespace tpubridge::tools
