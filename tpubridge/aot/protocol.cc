#include "tpubridge/aot/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tpubridge/aot/overflow.h"
#include "tpubridge/base/json.h"

namespace tpubridge::aot {
namespace {

constexpr std::string_view kSource = "the answer of tpubridge-aot";
constexpr const char* kSmaller =
    "Use a smaller batch or lower precision, or split the program over more devices";

[[noreturn]] void refuse(std::string_view key) {
  throw ConfigurationError(fmt::format("{}: {} is no amount", kSource, key));
}

int64_t amount(const JsonReader& from, std::string_view key) {
  const int64_t n = from.integer(key);
  if (n < 0 || n > int64_t{1} << 60) refuse(key);  // sums of a few stay in range
  return n;
}

int count(const JsonReader& from, std::string_view key) {
  const int64_t n = amount(from, key);
  if (n > 1 << 30) refuse(key);
  return static_cast<int>(n);
}

// The compiler's own counts; a negative one is its way to say that it does not know.
double known_number(const JsonReader& from, std::string_view key) {
  const double n = from.number(key, 0);
  return std::isfinite(n) && n > 0 ? n : 0;
}

void read_topology(const JsonReader& topology, FitResult& out) {
  out.device_kind = topology.text("device_kind", "");
  out.chips = count(topology, "chips");
  out.devices = count(topology, "devices");
  if (topology.has("hbm_bytes")) out.hbm_bytes = amount(topology, "hbm_bytes");
}

// An op that the compiler cannot estimate counts as -1 s. A sum below zero is therefore their number and the
// time of all others, which is known as long as it stays under a second.
void read_estimate(double sum, FitResult& out) {
  if (!std::isfinite(sum) || sum == 0 || sum < -1e6) return;
  const double unknown = sum < 0 ? std::ceil(-sum) : 0;
  out.unestimated = static_cast<int>(unknown);
  if (sum + unknown > 0) out.optimal_seconds = sum + unknown;
}

void read_numbers(const JsonReader& response, FitResult& out) {
  out.compile_seconds = known_number(response, "compile_seconds");
  const JsonReader memory = response.object("memory");
  out.arguments = amount(memory, "arguments");
  out.outputs = amount(memory, "outputs");
  out.temporaries = amount(memory, "temporaries");
  out.aliased = amount(memory, "aliased");
  out.code = amount(memory, "code");
  out.peak = amount(memory, "peak");
  const JsonReader cost = response.object("cost");
  out.flops = known_number(cost, "flops");
  out.bytes_accessed = known_number(cost, "bytes accessed");
  read_estimate(cost.number("optimal_seconds", 0), out);
  if (!response.has("collectives")) return;
  for (const JsonReader& c : response.objects("collectives"))
    out.collectives.push_back({c.text("kind"), amount(c, "count"), amount(c, "bytes")});
}

void judge_compiled(FitResult& out) {
  const int64_t sum = out.arguments + out.outputs - out.aliased + out.temporaries;
  out.needed = std::max(out.peak, sum) + out.code;
  out.verdict = out.needed > out.hbm_bytes ? Verdict::does_not_fit : Verdict::fits;
  if (out.verdict == Verdict::fits) return;
  out.status = Code::resource_exhausted;
  out.hint = kSmaller;
  out.message = fmt::format("the program compiles, but needs {} bytes of HBM where {} are there", out.needed,
                            out.hbm_bytes);
}

void judge_error(const JsonReader& error, std::string_view stage, FitResult& out) {
  out.message = error.text("message");
  out.hint = error.text("hint", "");
  out.xla_code = error.text("xla_code", "");
  const int64_t status = error.integer("code", 0);
  out.status = status >= 0 && status <= static_cast<int64_t>(Code::unauthenticated)
                   ? static_cast<Code>(status)
                   : Code::unknown;
  if (stage == "request" || stage == "load")
    throw PluginError(fmt::format("the offline TPU compiler cannot start: {}", out.message),
                      {{"stage", std::string(stage)}},
                      out.hint.empty() ? "`make aot` sets it up again" : out.hint, out.status);
  out.verdict = Verdict::compile_error;
  if (stage == "topology") {
    out.message = fmt::format("libtpu refuses the slice {}: {}", out.tpu, out.message);
    out.hint = "Choose another topology";
    return;
  }
  const auto overflow = parse_overflow(out.message);
  if (!overflow && out.xla_code != "E1000") return;
  out.verdict = Verdict::does_not_fit;
  out.status = Code::resource_exhausted;
  out.hint = kSmaller;
  if (!overflow) return;
  out.needed = overflow->needed;
  // Rounded; it counts where it is another limit than the device's (an XLA option can set one).
  if (static_cast<double>(overflow->available) < 0.99 * static_cast<double>(out.hbm_bytes) ||
      out.hbm_bytes == 0)
    out.hbm_bytes = overflow->available;
}

}  // namespace

std::string write_request(const FitRequest& request, const Slice& slice, const ChildFiles& files) {
  nlohmann::json options = nlohmann::json::object();
  for (const auto& [name, value] : request.xla_options)
    std::visit([&slot = options[name]](const auto& v) { slot = v; }, value);
  const nlohmann::json out = {
      {"program", files.program.string()}, {"libtpu", files.libtpu.string()},
      {"topology", slice.topology()},      {"chip_config", slice.generation->chip_config},
      {"slices", request.slices},          {"replicas", request.replicas},
      {"partitions", request.partitions},  {"shardy", request.shardy},
      {"xla_options", std::move(options)}, {"executable", files.executable.string()}};
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

FitResult read_response(std::string_view text, FitResult known) {
  const JsonReader response = JsonReader::of_text(text, kSource);
  const std::string stage = response.text("stage");
  if (response.has("topology")) read_topology(response.object("topology"), known);
  if (response.has("error")) {
    judge_error(response.object("error"), stage, known);
    return known;
  }
  if (stage != "done") throw ConfigurationError(fmt::format("{} ends at the stage {}", kSource, stage));
  read_numbers(response, known);
  judge_compiled(known);
  return known;
}

}  // namespace tpubridge::aot
