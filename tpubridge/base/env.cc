#include "tpubridge/base/env.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"

namespace tpubridge::env {
namespace {

constexpr std::string_view kPrefix = "TPUBRIDGE_";

// name, type, fallback, allowed, description, stability; sorted by name.
constexpr std::array kTable = {
    Variable{"TPUBRIDGE_AOT_CHILD", Type::text, "", "",
             "path of the program tpubridge-aot, which compiles for a TPU that is not here",
             Stability::stable},
    Variable{"TPUBRIDGE_CACHE", Type::flag, "1", "", "keep compiled programs on disk", Stability::stable},
    Variable{"TPUBRIDGE_CACHE_DIR", Type::text, "", "",
             "folder of compiled programs; without it $XDG_CACHE_HOME/tpubridge or ~/.cache/tpubridge",
             Stability::stable},
    Variable{"TPUBRIDGE_CACHE_SIZE", Type::integer, "4096", "0..1000000000",
             "most MiB that compiled programs take on disk; what was used longest ago goes first",
             Stability::stable},
    Variable{"TPUBRIDGE_CHECK_INDICES", Type::flag, "0", "",
             "an index out of range is an error at the call, at the price of waiting for every index",
             Stability::stable},
    Variable{"TPUBRIDGE_COMPILE_TIMEOUT", Type::integer, "0", "0..10000000",
             "seconds after which a compile is given up with XLACompilationTimeoutError; 0: none",
             Stability::stable},
    Variable{"TPUBRIDGE_CONFIG", Type::text, "", "", "JSON file that Config::from_environment() reads",
             Stability::stable},
    Variable{"TPUBRIDGE_COORDINATOR", Type::text, "", "",
             "host:port at which rank 0 of a job of several processes can be reached", Stability::stable},
    Variable{"TPUBRIDGE_CPU_DEVICES", Type::integer, "", "1..1024",
             "number of virtual devices of the CPU plugin (CPU_NUM_DEVICES is honoured too)",
             Stability::stable},
    Variable{"TPUBRIDGE_DEPS", Type::text, "", "", "folder of the unpacked dependencies, when building",
             Stability::stable},
    Variable{"TPUBRIDGE_DEVICE", Type::text, "", "",
             "device that get_device_with_fallback() and get_tpu_safe_device() give: tpu, tpu:1, cpu",
             Stability::stable},
    Variable{"TPUBRIDGE_EAGER", Type::flag, "0", "",
             "run every op of the device at once instead of tracing, to find the one that fails",
             Stability::stable},
    Variable{"TPUBRIDGE_ERROR_LOG", Type::flag, "1", "",
             "keep the errors that TPUErrorHandler sees on disk, for `tpubridge status`", Stability::stable},
    Variable{"TPUBRIDGE_EXECUTE_TIMEOUT", Type::integer, "0", "0..10000000",
             "seconds after which a wait for the device is given up with TPUDeviceError; 0: none",
             Stability::stable},
    Variable{"TPUBRIDGE_FALLBACK", Type::choice, "warn", "allow|warn|error",
             "what happens when an op has no lowering and would run on the CPU", Stability::stable},
    Variable{"TPUBRIDGE_GRAPH_LIMIT", Type::integer, "20000", "1..10000000",
             "traced ops after which the device computes by itself", Stability::stable},
    Variable{
        "TPUBRIDGE_HOST_KERNELS", Type::flag, "1", "",
        "programs of XLA's CPU plugin call libtorch's own kernels where these are faster; 0: XLA's alone",
        Stability::stable},
    Variable{"TPUBRIDGE_JOB", Type::text, "", "",
             "name of a job of several processes, another one for each attempt; `tpubridge launch` sets it",
             Stability::stable},
    Variable{"TPUBRIDGE_LIBTPU", Type::text, "", "", "path of the libtpu.so that compiles offline",
             Stability::stable},
    Variable{"TPUBRIDGE_LOAD_AHEAD", Type::flag, "1", "",
             "as soon as the device is opened, load the programs that this command used when it last ran",
             Stability::stable},
    Variable{"TPUBRIDGE_LOCAL_RANK", Type::integer, "", "0..999999",
             "number of this process among those of its job on this host", Stability::stable},
    Variable{"TPUBRIDGE_LOCAL_WORLD_SIZE", Type::integer, "", "1..1000000",
             "how many processes of the job this host has", Stability::stable},
    Variable{"TPUBRIDGE_LOG", Type::choice, "warn", "trace|debug|info|warn|error|off",
             "least severe log record that is written", Stability::stable},
    Variable{"TPUBRIDGE_MEMORY_FRACTION", Type::text, "", "",
             "part of the HBM that programs may use, 0.1 to 1; for programs that use Config",
             Stability::stable},
    Variable{"TPUBRIDGE_MEMORY_LIMIT", Type::integer, "0", "0..1000000000000000",
             "bytes that the tensors of each device may hold; 0: as many as the device has",
             Stability::stable},
    Variable{"TPUBRIDGE_MODE", Type::choice, "none", "none|inference|training|development",
             "mode of the configuration; for programs that use Config", Stability::stable},
    Variable{"TPUBRIDGE_PLUGIN", Type::text, "", "", "path or name of the PJRT plugin to use",
             Stability::stable},
    Variable{"TPUBRIDGE_PREALLOCATE", Type::flag, "1", "",
             "XLA's CUDA plugin takes most of the GPU's memory when it is opened; 0: as it is needed, for "
             "programs that share a GPU",
             Stability::stable},
    Variable{"TPUBRIDGE_PRECISION", Type::choice, "bfloat16", "bfloat16|float16|float32|float64",
             "what models and data are converted to; for programs that use Config", Stability::stable},
    Variable{"TPUBRIDGE_RANK", Type::integer, "", "0..999999",
             "number of this process in a job of several (docs/processes.md)", Stability::stable},
    Variable{"TPUBRIDGE_STATE_DIR", Type::text, "", "",
             "folder of errors.jsonl; without it $XDG_STATE_HOME/tpubridge or ~/.local/state/tpubridge",
             Stability::stable},
    Variable{"TPUBRIDGE_STRICT", Type::flag, "0", "",
             "a failed validation throws; for programs that use Config", Stability::stable},
    Variable{"TPUBRIDGE_TEST_PLUGIN", Type::text, "", "",
             "path of one more PJRT plugin for the conformance suite", Stability::internal},
    Variable{"TPUBRIDGE_TORCH_DIR", Type::text, "", "",
             "folder of the torch to build against; of a package's command, to run with", Stability::stable},
    Variable{"TPUBRIDGE_TPU_TOPOLOGY", Type::choice, "auto", "auto|single|pod|superpod",
             "size of the slice; for programs that use Config", Stability::stable},
    Variable{"TPUBRIDGE_TPU_VERSION", Type::choice, "auto", "auto|v4|v5e|v5p|v6e|v7",
             "generation of the TPU; for programs that use Config", Stability::stable},
    Variable{"TPUBRIDGE_WORLD_SIZE", Type::integer, "", "1..1000000", "how many processes the job has",
             Stability::stable},
    Variable{"TPUBRIDGE_WRITE_DOCS", Type::flag, "0", "", "the tests renew the tables in docs/",
             Stability::internal},
    Variable{"TPUBRIDGE_XLA_FLAGS", Type::text, "", "",
             "XLA options for each compile; for programs that use Config", Stability::stable},
    Variable{"TPUBRIDGE_XLA_LEVEL", Type::integer, "2", "0..3",
             "XLA's optimization level; for programs that use Config", Stability::stable},
};
static_assert(std::is_sorted(kTable.begin(), kTable.end(),
                             [](const Variable& a, const Variable& b) { return a.name < b.name; }));

const Variable* find(std::string_view name) {
  const auto it = std::ranges::find(kTable, name, &Variable::name);
  return it == kTable.end() ? nullptr : &*it;
}

const Variable& registered(std::string_view name, Type type) {
  const Variable* v = find(name);
  if (v == nullptr || v->type != type)
    throw ArgumentError(
        fmt::format("no environment variable {} of type {} is registered", name, to_string(type)),
        {{"name", std::string(name)}}, "Add its row to the table in base/env.cc.");
  return *v;
}

// The value or the fallback; empty where there is neither.
std::string value_of(const Variable& v) { return raw(v.name).value_or(std::string(v.fallback)); }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return out;
}

[[noreturn]] void refuse(const Variable& v, std::string_view value, const std::string& allowed) {
  throw TPUConfigurationError(
      fmt::format("{}={} is not allowed", v.name, quote(value)),
      {{"variable", std::string(v.name)}, {"value", std::string(value)}, {"allowed", allowed}},
      fmt::format("Set {} to one of the allowed values, or unset it.", v.name), Code::invalid_argument);
}

std::optional<int64_t> to_integer(std::string_view text) {
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

void check_value(const Variable& v, std::string_view value) {
  if (v.type == Type::flag) (void)parse_flag(v, value);
  if (v.type == Type::integer) (void)parse_integer(v, value);
  if (v.type == Type::choice) (void)parse_choice(v, value);
}

Problem unknown(std::string_view name) {
  // The common prefix says nothing about which name was meant.
  std::vector<std::string_view> known;
  known.reserve(kTable.size());
  for (const Variable& v : kTable) known.push_back(v.name.substr(kPrefix.size()));
  const std::string best = std::string(kPrefix).append(nearest(name.substr(kPrefix.size()), known));
  return {std::string(name), best,
          fmt::format("{} is not known and has no effect; the nearest known name is {}", name, best)};
}

}  // namespace

std::string_view to_string(Type type) {
  static constexpr std::array<std::string_view, 4> names = {"text", "flag", "integer", "choice"};
  return names[static_cast<size_t>(type)];
}

std::string_view to_string(Stability stability) {
  static constexpr std::array<std::string_view, 3> names = {"stable", "experimental", "internal"};
  return names[static_cast<size_t>(stability)];
}

std::span<const Variable> all() { return kTable; }

std::optional<std::string> raw(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

bool parse_flag(const Variable& v, std::string_view value) {
  const std::string low = lower(value);
  for (const auto yes : {"1", "true", "on", "yes"})
    if (low == yes) return true;
  for (const auto no : {"0", "false", "off", "no"})
    if (low == no) return false;
  refuse(v, value, "1|true|on|yes or 0|false|off|no");
}

int64_t parse_integer(const Variable& v, std::string_view value) {
  const auto dots = v.allowed.find("..");
  const auto number = to_integer(value);
  if (!number) refuse(v, value, std::string(v.allowed.empty() ? "a whole number" : v.allowed));
  if (dots != v.allowed.npos) {
    const auto low = to_integer(v.allowed.substr(0, dots)), high = to_integer(v.allowed.substr(dots + 2));
    if ((low && *number < *low) || (high && *number > *high)) refuse(v, value, std::string(v.allowed));
  }
  return *number;
}

std::string parse_choice(const Variable& v, std::string_view value) {
  std::string low = lower(value);
  for (std::string_view rest = v.allowed; !low.empty() && !rest.empty();) {
    const auto bar = rest.find('|');
    if (rest.substr(0, bar) == low) return low;
    rest = bar == rest.npos ? std::string_view() : rest.substr(bar + 1);
  }
  refuse(v, value, std::string(v.allowed));
}

std::string text(std::string_view name) { return value_of(registered(name, Type::text)); }

bool flag(std::string_view name) {
  const Variable& v = registered(name, Type::flag);
  const std::string value = value_of(v);
  return !value.empty() && parse_flag(v, value);
}

std::optional<int64_t> integer(std::string_view name) {
  const Variable& v = registered(name, Type::integer);
  const std::string value = value_of(v);
  if (value.empty()) return std::nullopt;
  return parse_integer(v, value);
}

std::string choice(std::string_view name) {
  const Variable& v = registered(name, Type::choice);
  return parse_choice(v, value_of(v));
}

std::vector<Problem> check_environment() {
  std::vector<Problem> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view whole = *entry;
    const std::string_view name = whole.substr(0, whole.find('='));
    if (!name.starts_with(kPrefix)) continue;
    const Variable* v = find(name);
    if (v == nullptr) {
      out.push_back(unknown(name));
    } else if (const auto value = raw(name)) {
      try {
        check_value(*v, *value);
      } catch (const TPUConfigurationError& e) {
        out.push_back({std::string(name), "", e.what()});
      }
    }
  }
  std::ranges::sort(out, {}, &Problem::name);
  return out;
}

}  // namespace tpubridge::env
