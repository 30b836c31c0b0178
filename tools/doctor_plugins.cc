// The plugins part of `doctor`: what was looked for, what was taken, and whether it works.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <future>

#include "tools/doctor.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/subprocess.h"
#include "tpubridge/pjrt/plugin.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;
using Level = Finding::Level;

bool is_libtpu(const pjrt::Candidate& c) {
  return c.name == "tpu" || Path(c.path).filename().string().starts_with("libtpu.so");
}

// Whether loading it makes sense: libtpu without a TPU asks around for minutes.
bool worth_testing(const pjrt::Candidate& c, bool tpu, bool nvidia) {
  std::error_code ignored;
  if (c.path.empty() || !std::filesystem::is_regular_file(c.path, ignored)) return false;
  if (is_libtpu(c)) return tpu;
  return c.name != "cuda" || nvidia;
}

// The chosen one as the library would open it; by its name, where that is clear, for its defaults.
std::string how_to_open(const pjrt::Candidate& c, const std::vector<pjrt::Candidate>& list,
                        const std::string& wanted) {
  if (c.chosen) return wanted;
  const bool ours = c.name == "tpu" || c.name == "cuda" || c.name == "cpu";
  return ours && std::ranges::count(list, c.name, &pjrt::Candidate::name) == 1 ? c.name : c.path;
}

// What the child prints, or {"error": …} for how it ended.
ordered_json test_in_child(const std::string& wanted) {
  using namespace std::chrono_literals;
  Command command;
  command.argv = {std::filesystem::read_symlink("/proc/self/exe").string(), "doctor", "--self-test"};
  if (!wanted.empty()) command.argv.insert(command.argv.end(), {"--plugin", wanted});
  command.deadline = 60s;  // a TPU takes its time to start
  command.cancel = NoInterrupts::requested();
  const Outcome outcome = run_command(command);
  const auto start = outcome.out.rfind("\n{") == std::string::npos ? 0 : outcome.out.rfind("\n{") + 1;
  ordered_json said = ordered_json::parse(outcome.out.substr(start), nullptr, false);
  if (said.is_object()) return said;
  // Its last words are XLA's.
  std::string last = outcome.err.substr(0, outcome.err.find_last_not_of('\n') + 1);
  last = last.substr(last.rfind('\n') == last.npos ? 0 : last.rfind('\n') + 1);
  return {{"error",
           {{"error_type", "PluginError"},
            {"message", "the process that tried the plugin " + outcome.str()},
            {"details", {{"last_words", last}}},
            {"hint", "Use another build of the plugin."}}}};
}

std::string version_text(const ordered_json& plugin) {
  const auto ours = pjrt::header_version();
  std::string out =
      fmt::format("PJRT {} (ours {}.{})", plugin.value("api_version", "?"), ours.major, ours.minor);
  const auto attributes = plugin.value("attributes", ordered_json::object());
  if (const auto v = attributes.find("stablehlo_current_version"); v != attributes.end() && v->is_array())
    out += fmt::format(", StableHLO {}", fmt::join(v->get<std::vector<int64_t>>(), "."));
  return out;
}

// "4 devices: TPU v5 lite, 15.7 GiB of memory each"
std::string devices_text(const ordered_json& plugin) {
  const ordered_json& devices = plugin["devices"];
  if (devices.empty()) return "no devices";
  std::string out = fmt::format("{}: {}", human_count(std::ssize(devices), "device", "devices"),
                                devices[0]["kind"].get<std::string>());
  const ordered_json& memory = devices[0]["memory"];
  if (memory.is_object() && memory["limit"].is_number())
    out += fmt::format(", {} of memory each, {} in use", human_bytes(memory["limit"].get<int64_t>()),
                       human_bytes(memory["in_use"].get<int64_t>()));
  return out;
}

void judge(Finding& finding, const pjrt::Candidate& c, const ordered_json& tested) {
  const Level bad = c.chosen ? Level::problem : Level::note;
  if (tested.contains("error")) {
    const ordered_json& error = tested["error"];
    finding.level = bad;
    finding.facts.push_back("it does not work: " + error.value("message", ""));
    const ordered_json details = error.value("details", ordered_json::object());
    for (const auto& [key, value] : details.items())
      if (key != "path" && value.is_string() && !value.get<std::string>().empty())
        finding.facts.push_back(key + ": " + value.get<std::string>());
    finding.action = error.value("hint", "");
    return;
  }
  const ordered_json& test = tested["self_test"];
  finding.facts.push_back(version_text(tested));
  finding.facts.push_back(
      fmt::format("extensions: {}", fmt::join(tested["extensions"].get<std::vector<std::string>>(), ", ")));
  finding.facts.push_back(devices_text(tested));
  if (test["ok"].get<bool>()) {
    finding.level = Level::ok;
    finding.facts.push_back(fmt::format("self-test: a matrix product is right; compiled in {}, ran in {}",
                                        human_time(test["compile_s"]), human_time(test["run_s"])));
  } else {
    finding.level = bad;
    finding.facts.push_back(fmt::format("self-test: {} of 4096 elements of a matrix product are wrong",
                                        test["wrong_elements"].get<int>()));
    finding.action = "Do not use it: try another version of the plugin, or --plugin cpu.";
  }
}

// Files that were named by someone must be there; those that we look for need not.
void judge_untested(Finding& finding, const pjrt::Candidate& c, bool tpu) {
  const bool named = c.source == "caller" || c.source == "TPUBRIDGE_PLUGIN" ||
                     c.source == "PJRT_NAMES_AND_LIBRARY_PATHS" ||
                     (is_libtpu(c) && env::raw("TPU_LIBRARY_PATH"));
  std::error_code ignored;
  if (named && !std::filesystem::is_regular_file(c.path, ignored)) {
    finding.level = Level::problem;
    finding.action = fmt::format("Correct the path, or leave it out ({}).", c.source);
  } else if (is_libtpu(c) && c.chosen && !tpu) {
    finding.level = Level::problem;
    finding.facts.push_back("not loaded: this machine has no TPU");
    finding.action =
        "`tpubridge fit` compiles for a TPU that is not here; to run programs, use --plugin cpu.";
  } else if (is_libtpu(c) && tpu) {
    finding.level = Level::problem;
    finding.action = "This machine has a TPU: install libtpu (pip install libtpu), or set TPU_LIBRARY_PATH.";
  } else if (c.name == "cuda" && pjrt::nvidia_hardware()) {
    finding.level = Level::note;
    finding.action =
        "This machine has an NVIDIA GPU: install XLA's plugin for it (pip install jax-cuda13-pjrt).";
  }
}

// Two plugins for one platform: which of them is used should be no surprise.
void add_doubles(Part& part, const std::vector<pjrt::Candidate>& list) {
  for (size_t i = 0; i < list.size(); ++i)
    for (size_t j = i + 1; j < list.size(); ++j) {
      std::error_code ignored;
      if (list[i].name != list[j].name || list[i].path.empty() || list[j].path.empty() ||
          std::filesystem::equivalent(list[i].path, list[j].path, ignored))
        continue;
      part.findings.push_back({Level::note,
                               fmt::format("two plugins are named {}", list[i].name),
                               {list[i].path, list[j].path},
                               "Choose by path: --plugin, or TPUBRIDGE_PLUGIN."});
    }
}

}  // namespace

Part look_at_plugins(const std::string& wanted) {
  Part part{"plugins", {}, ordered_json::array()};
  const auto list = pjrt::discover(wanted);
  const bool tpu = pjrt::tpu_hardware(), nvidia = pjrt::nvidia_hardware();
  std::vector<std::future<ordered_json>> tests(list.size());
  {
    const NoInterrupts hold;  // until the children are gone
    for (size_t i = 0; i < list.size(); ++i)
      if (worth_testing(list[i], tpu, nvidia))
        tests[i] = std::async(std::launch::async, test_in_child, how_to_open(list[i], list, wanted));
    for (auto& test : tests)
      if (test.valid()) test.wait();
  }
  bool any = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const pjrt::Candidate& c = list[i];
    any = any || c.chosen;
    Finding finding{Level::info, fmt::format("{}: {}{}{}", c.name, c.chosen ? "chosen, " : "", c.reason,
                                             c.path.empty() ? "" : " (" + c.path + ")")};
    ordered_json data = {{"name", c.name},     {"path", c.path},     {"source", c.source},
                         {"chosen", c.chosen}, {"reason", c.reason}, {"tested", tests[i].valid()}};
    if (tests[i].valid()) {
      const ordered_json tested = tests[i].get();
      judge(finding, c, tested);
      data.update(tested);
    } else {
      judge_untested(finding, c, tpu);
    }
    part.findings.push_back(std::move(finding));
    part.data.push_back(std::move(data));
  }
  if (!any)
    part.findings.push_back(
        {Level::problem,
         wanted.empty() ? "no plugin can be used" : fmt::format("no plugin '{}' can be used", wanted),
         {},
         "Install one, or give its path with --plugin; `make` sets up the CPU plugin."});
  add_doubles(part, list);
  return part;
}

}  // namespace tpubridge::tools
