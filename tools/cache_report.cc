#include "tools/cache_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "tools/output.h"
#include "tools/table.h"
#include "tpubridge/base/env.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;

std::string when(int64_t seconds) {
  const std::time_t t = seconds;
  std::tm local{};
  localtime_r(&t, &local);
  return fmt::format("{:%Y-%m-%d %H:%M}", local);
}

std::string state(const cache::DiskCache::File& f) {
  return f.info ? "sound" : f.other_version ? "other version" : f.damaged ? "damaged" : "unreadable";
}

ordered_json file_json(const cache::DiskCache::File& f) {
  ordered_json out = {{"key", f.key.hex()}, {"state", state(f)}, {"bytes", f.bytes}, {"used", f.used}};
  if (!f.info) {
    out["problem"] = f.problem;
    return out;
  }
  out["program"] = f.info->program;
  out["platform"] = f.info->platform;
  out["platform_version"] = f.info->platform_version;
  out["device_kind"] = f.info->device_kind;
  out["executable_bytes"] = f.info->raw_bytes;
  out["compile_s"] = f.info->compile_seconds;
  out["created"] = f.info->created;
  return out;
}

struct Totals {
  int64_t entries = 0, bytes = 0, executable_bytes = 0, other_version = 0, damaged = 0, unreadable = 0;
  double compile_s = 0;
  std::map<std::string, int64_t> platforms;
};

Totals total(const CacheFiles& files) {
  Totals t;
  for (const auto& f : files) {
    ++t.entries;
    t.bytes += f.bytes;
    t.other_version += f.other_version;
    t.damaged += f.damaged;
    t.unreadable += f.unreadable();
    if (!f.info) continue;
    t.executable_bytes += f.info->raw_bytes;
    t.compile_s += f.info->compile_seconds;
    ++t.platforms[f.info->platform];
  }
  return t;
}

}  // namespace

cache::DiskCache open_cache() {
  return {cache_folder() / "programs", *env::integer("TPUBRIDGE_CACHE_SIZE") << 20};
}

ordered_json list_json(const cache::DiskCache& cache, const CacheFiles& files) {
  ordered_json entries = ordered_json::array();
  for (const auto& f : files) entries.push_back(file_json(f));
  return {{"folder", cache.folder().string()}, {"entries", entries}};
}

std::string list_text(const cache::DiskCache& cache, const CacheFiles& files) {
  if (files.empty()) return fmt::format("{} holds no programs\n", cache.folder().string());
  Table table({"key", "program", "device", "size", "compile", "created", "used"});
  for (const auto& f : files) {
    if (f.info)
      table.add({f.key.hex().substr(0, 12), f.info->program, f.info->device_kind, human_bytes(f.bytes),
                 human_time(f.info->compile_seconds), when(f.info->created), when(f.used)});
    else
      table.add({f.key.hex().substr(0, 12),
                 {state(f), Colour::yellow},
                 "–",
                 human_bytes(f.bytes),
                 "–",
                 "–",
                 when(f.used)});
  }
  return table.str();
}

ordered_json stats_json(const cache::DiskCache& cache, const CacheFiles& files) {
  const Totals t = total(files);
  ordered_json platforms = ordered_json::object();
  for (const auto& [name, n] : t.platforms) platforms[name] = n;
  return {{"folder", cache.folder().string()},
          {"enabled", env::flag("TPUBRIDGE_CACHE")},
          {"entries", t.entries},
          {"bytes", t.bytes},
          {"limit_bytes", cache.max_bytes()},
          {"executable_bytes", t.executable_bytes},
          {"compile_s", t.compile_s},
          {"platforms", platforms},
          {"other_version", t.other_version},
          {"damaged", t.damaged}};
}

std::string stats_text(const cache::DiskCache& cache, const CacheFiles& files) {
  const Totals t = total(files);
  std::string out =
      fmt::format("{}{}\n{}, {} of {} (executables {})\nthey took {} to compile\n", cache.folder().string(),
                  env::flag("TPUBRIDGE_CACHE") ? "" : " (switched off by TPUBRIDGE_CACHE)",
                  human_count(t.entries, "program", "programs"), human_bytes(t.bytes),
                  human_bytes(cache.max_bytes()), human_bytes(t.executable_bytes), human_time(t.compile_s));
  for (const auto& [name, n] : t.platforms) out += fmt::format("  {}: {}\n", name, n);
  if (t.other_version > 0) out += fmt::format("{} of other versions of tpubridge\n", t.other_version);
  if (t.damaged > 0) out += fmt::format("{} damaged: tpubridge cache verify --remove\n", t.damaged);
  return out;
}

ordered_json verify_json(const cache::DiskCache& cache, const CacheFiles& files, bool removed) {
  const Totals t = total(files);
  ordered_json damaged = ordered_json::array(), unread = ordered_json::array();
  for (const auto& f : files)
    if (f.damaged || f.unreadable())
      (f.damaged ? damaged : unread).push_back({{"file", f.path.string()}, {"problem", f.problem}});
  return {{"folder", cache.folder().string()},
          {"checked", t.entries},
          {"sound", t.entries - t.damaged - t.unreadable - t.other_version},
          {"other_version", t.other_version},
          {"damaged", damaged},
          {"unreadable", unread},
          {"removed", removed ? t.damaged : 0}};
}

std::string verify_text(const CacheFiles& files, bool removed) {
  const Totals t = total(files);
  std::string out;
  for (const auto& f : files)
    if (f.damaged || f.unreadable())
      out += fmt::format("{} {}\n",
                         paint(f.unreadable() ? "unreadable:"
                               : removed      ? "removed:"
                                              : "damaged:",
                               Colour::yellow),
                         f.problem);
  out += fmt::format("{} checked, {} damaged", human_count(t.entries, "program", "programs"), t.damaged);
  if (t.unreadable > 0) out += fmt::format(", {} unreadable", t.unreadable);
  if (t.other_version > 0) out += fmt::format(", {} of other versions not looked into", t.other_version);
  return out + "\n";
}

}  // namespace tpubridge::tools
