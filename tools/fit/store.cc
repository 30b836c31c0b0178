#include "tools/fit/store.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tpubridge/base/env.h"
#include "tpubridge/base/log.h"
#include "tpubridge/base/private_files.h"

namespace tpubridge::tools {
namespace {

constexpr std::string_view kStored = "a stored answer of fit";
constexpr size_t kMostStored = 1 << 20;

int64_t stored_amount(const JsonReader& r, std::string_view key) {
  const int64_t n = r.integer(key);
  if (n < 0 || n > int64_t{1} << 60) throw ConfigurationError(fmt::format("{} is no amount", key));
  return n;
}
double stored_number(const JsonReader& r, std::string_view key) {
  const double n = r.number(key);
  if (!std::isfinite(n) || n < 0) throw ConfigurationError(fmt::format("{} is no number", key));
  return n;
}

nlohmann::ordered_json result_json(const aot::FitResult& r) {
  nlohmann::ordered_json collectives = nlohmann::ordered_json::array();
  for (const auto& c : r.collectives)
    collectives.push_back({{"kind", c.kind}, {"count", c.count}, {"bytes", c.bytes}});
  nlohmann::ordered_json out = {{"fits", r.verdict == aot::Verdict::fits},
                                {"tpu", r.tpu},
                                {"device_kind", r.device_kind},
                                {"chips", r.chips},
                                {"devices", r.devices},
                                {"hbm_bytes", r.hbm_bytes},
                                {"needed", r.needed},
                                {"arguments", r.arguments},
                                {"outputs", r.outputs},
                                {"temporaries", r.temporaries},
                                {"aliased", r.aliased},
                                {"code", r.code},
                                {"peak", r.peak},
                                {"flops", r.flops},
                                {"bytes_accessed", r.bytes_accessed},
                                {"unestimated", r.unestimated},
                                {"peak_flops", r.peak_flops},
                                {"compile_seconds", r.compile_seconds},
                                {"message", r.message},
                                {"hint", r.hint},
                                {"xla_code", r.xla_code},
                                {"collectives", collectives}};
  if (r.optimal_seconds) out["optimal_seconds"] = *r.optimal_seconds;
  return out;
}

aot::FitResult read_result(const JsonReader& from) {
  aot::FitResult r;
  r.verdict = from.flag("fits") ? aot::Verdict::fits : aot::Verdict::does_not_fit;
  if (r.verdict != aot::Verdict::fits) r.status = Code::resource_exhausted;
  r.tpu = from.text("tpu");
  r.device_kind = from.text("device_kind");
  r.chips = static_cast<int>(std::min<int64_t>(stored_amount(from, "chips"), 1 << 30));
  r.devices = static_cast<int>(std::min<int64_t>(stored_amount(from, "devices"), 1 << 30));
  r.hbm_bytes = stored_amount(from, "hbm_bytes");
  r.needed = stored_amount(from, "needed");
  r.arguments = stored_amount(from, "arguments");
  r.outputs = stored_amount(from, "outputs");
  r.temporaries = stored_amount(from, "temporaries");
  r.aliased = stored_amount(from, "aliased");
  r.code = stored_amount(from, "code");
  r.peak = stored_amount(from, "peak");
  r.flops = stored_number(from, "flops");
  r.bytes_accessed = stored_number(from, "bytes_accessed");
  r.unestimated = static_cast<int>(std::min<int64_t>(stored_amount(from, "unestimated"), 1 << 30));
  r.peak_flops = stored_number(from, "peak_flops");
  r.compile_seconds = stored_number(from, "compile_seconds");
  r.message = from.text("message");
  r.hint = from.text("hint");
  r.xla_code = from.text("xla_code");
  if (from.has("optimal_seconds")) r.optimal_seconds = stored_number(from, "optimal_seconds");
  for (const JsonReader& c : from.objects("collectives"))
    r.collectives.push_back({c.text("kind"), stored_amount(c, "count"), stored_amount(c, "bytes")});
  return r;
}

Path file_of(const Path& folder, const Hash128& key) { return folder / (key.hex() + ".json"); }

}  // namespace

FitStore::FitStore(bool off) {
  if (off || !env::flag("TPUBRIDGE_CACHE")) return;
  try {
    folder_ = cache_folder() / "fit";
  } catch (const FileError& e) {
    log::warn("fit.cache_off", {{"problem", e.what()}});
  }
}

// "<checksum of the rest>\n{…}"
std::optional<nlohmann::json> FitStore::load(const Hash128& key, std::string_view kind) const {
  if (folder_.empty()) return std::nullopt;
  const Path path = file_of(folder_, key);
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return std::nullopt;
  try {
    check_private_folder(folder_);
    const std::string text = read_private_file(path);
    const size_t line = text.find('\n');
    if (line == text.npos || text.size() > kMostStored) return std::nullopt;
    const std::string_view rest = std::string_view(text).substr(line + 1);
    if (text.substr(0, line) != fmt::format("{} {}", kind, hash128(rest).hex())) {
      log::warn("fit.cache_damaged", {{"path", path.string()}});
      return std::nullopt;
    }
    return parse_json(rest, kStored);
  } catch (const Error& e) {
    log::warn("fit.cache_unreadable", {{"problem", e.what()}});
    return std::nullopt;
  }
}

void FitStore::store(const Hash128& key, std::string_view kind, const nlohmann::ordered_json& value) {
  if (folder_.empty()) return;
  try {
    make_private_folder(folder_);
    const std::string rest = value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    const std::string head = fmt::format("{} {}\n", kind, hash128(rest).hex());
    const std::string_view parts[] = {head, rest};
    write_private_file(file_of(folder_, key), parts);
  } catch (const Error& e) {
    if (!std::exchange(warned_, true)) log::warn("fit.cache_unusable", {{"problem", e.what()}});
  }
}

std::optional<PlannedModel> FitStore::trace(const Hash128& key) const {
  const auto value = load(key, "trace");
  if (!value) return std::nullopt;
  try {
    auto model = read_planned_model(JsonReader(*value, kStored));
    return model.programs.size() == 1 ? std::optional(std::move(model)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}
void FitStore::keep(const Hash128& key, const PlannedModel& model) { store(key, "trace", to_json(model)); }

std::optional<aot::FitResult> FitStore::result(const Hash128& key) const {
  const auto value = load(key, "result");
  if (!value) return std::nullopt;
  try {
    return read_result(JsonReader(*value, kStored));
  } catch (const Error&) {
    return std::nullopt;
  }
}
void FitStore::keep(const Hash128& key, const aot::FitResult& r) {
  if (r.verdict == aot::Verdict::fits || r.verdict == aot::Verdict::does_not_fit)
    store(key, "result", result_json(r));
}

}  // namespace tpubridge::tools
