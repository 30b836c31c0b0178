// `tpubridge cache`: what is in the folder of compiled programs, and what to do with it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "tools/cache_report.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/output.h"

namespace tpubridge::tools {
namespace {

using cache::DiskCache;
using nlohmann::ordered_json;

struct CacheOptions {
  std::string file;
  std::vector<std::string> keys;
  std::optional<int64_t> size;  // MiB
  bool remove = false;
};

int show(const ordered_json& json, const std::string& text, bool as_json, int code = kOk) {
  if (as_json)
    print_json(json);
  else
    print(text);
  return code;
}

int list(const CacheOptions&, bool json) {
  const auto cache = open_cache();
  const auto files = cache.list();
  return show(list_json(cache, files), list_text(cache, files), json);
}

int stats(const CacheOptions&, bool json) {
  const auto cache = open_cache();
  const auto files = cache.list();
  return show(stats_json(cache, files), stats_text(cache, files), json);
}

int verify(const CacheOptions& options, bool json) {
  const auto cache = open_cache();
  const auto files = cache.verify();
  int64_t bad = 0;
  for (const auto& f : files) {
    bad += (f.damaged && !options.remove) || f.unreadable() ? 1 : 0;
    if (f.damaged && options.remove) {
      std::error_code failed;
      std::filesystem::remove(f.path, failed);
      if (failed) throw file_error("delete", f.path, failed.value());
    }
  }
  return show(verify_json(cache, files, options.remove), verify_text(files, options.remove), json,
              bad > 0 ? kFailed : kOk);
}

int report_removed(const DiskCache& cache, const cache::Removed& removed, bool json) {
  int64_t entries = 0, bytes = 0;
  for (const auto& f : cache.list()) ++entries, bytes += f.bytes;
  return show(
      {{"folder", cache.folder().string()},
       {"removed", removed.entries},
       {"removed_bytes", removed.bytes},
       {"entries", entries},
       {"bytes", bytes}},
      fmt::format("removed {} ({}), {} ({}) left\n", human_count(removed.entries, "program", "programs"),
                  human_bytes(removed.bytes), entries, human_bytes(bytes)),
      json);
}

int collect(const CacheOptions& options, bool json) {
  const auto cache = open_cache();
  return report_removed(cache, cache.gc(options.size ? *options.size << 20 : cache.max_bytes()), json);
}

int clear(const CacheOptions&, bool json) {
  const auto cache = open_cache();
  return report_removed(cache, cache.clear(), json);
}

// The keys that begin as the user wrote them.
std::vector<Hash128> find_keys(const DiskCache& cache, const std::vector<std::string>& beginnings) {
  if (beginnings.empty()) return {};
  const auto files = cache.list();
  std::vector<Hash128> out;
  for (const auto& text : beginnings) {
    std::vector<Hash128> found;
    for (const auto& f : files)
      if (f.key.hex().starts_with(text)) found.push_back(f.key);
    if (found.size() != 1)
      throw ArgumentError(
          fmt::format("{} in the cache whose key begins with '{}'",
                      found.empty() ? "there is no program" : "there are several programs", text),
          {{"key", text}}, "`tpubridge cache ls` lists them.");
    out.push_back(found[0]);
  }
  return out;
}

int save(const CacheOptions& options, bool json) {
  set_phase("exporting");
  const NoInterrupts hold(options.file);
  const auto cache = open_cache();
  const auto out = cache::export_to(cache, options.file, find_keys(cache, options.keys));
  return show({{"file", options.file}, {"entries", out.entries}, {"bytes", out.bytes}},
              fmt::format("{} written to {} ({})\n", human_count(out.entries, "program", "programs"),
                          options.file, human_bytes(out.bytes)),
              json);
}

int bring(const CacheOptions& options, bool json) {
  set_phase("importing");
  const NoInterrupts hold;
  const auto cache = open_cache();
  const auto in = cache::import_from(cache, options.file);
  cache.gc(cache.max_bytes());
  return show({{"file", options.file}, {"entries", in.entries}, {"added", in.added}},
              fmt::format("{} added, {} already there\n", human_count(in.added, "program", "programs"),
                          in.entries - in.added),
              json);
}

using Body = int (*)(const CacheOptions&, bool);

CLI::App* add(CLI::App& cache, Invocation& call, const std::shared_ptr<CacheOptions>& options,
              const char* name, const char* help, const char* examples, Body body) {
  CLI::App* app = cache.add_subcommand(name, help);
  add_json(*app, call);
  app->footer(std::string("Examples:\n") + examples);
  app->callback([options, body, &call] {
    call.body = [options, body, &call] {
      set_phase("looking at the cache");
      return body(*options, call.json);
    };
  });
  return app;
}

}  // namespace

void add_cache(CLI::App& root, Invocation& call) {
  auto o = std::make_shared<CacheOptions>();
  CLI::App* app = root.add_subcommand("cache", "Compiled programs on disk: list, check, clean, carry");
  app->require_subcommand(1);
  app->footer(
      "Examples:\n"
      "  tpubridge cache ls\n"
      "  tpubridge cache gc --size 1024\n"
      "  tpubridge cache export warm.tpbcache");
  add(*app, call, o, "ls", "List the programs, the most recently used first", "  tpubridge cache ls --json",
      list);
  add(*app, call, o, "stats", "How many there are, how much space they take and what they save",
      "  tpubridge cache stats", stats);
  add(*app, call, o, "verify", "Read every program and check it; exit code 1 where one is damaged",
      "  tpubridge cache verify\n  tpubridge cache verify --remove", verify)
      ->add_flag("--remove", o->remove, "Delete what is damaged");
  add(*app, call, o, "gc",
      "Delete what was used longest ago, down to the limit, and what killed processes left",
      "  tpubridge cache gc\n  tpubridge cache gc --size 512", collect)
      ->add_option("--size", o->size, "Limit in MiB (default: TPUBRIDGE_CACHE_SIZE)")
      ->type_name("MIB")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000}));
  add(*app, call, o, "clear", "Delete all programs", "  tpubridge cache clear", clear);
  CLI::App* out =
      add(*app, call, o, "export", "Write programs into one file, for another machine of the same kind",
          "  tpubridge cache export warm.tpbcache", save);
  out->add_option("FILE", o->file, "File to write")->required();
  out->add_option("KEY", o->keys, "Keys as `ls` shows them, or their beginnings (default: all)");
  add(*app, call, o, "import", "Take in the programs of such a file",
      "  tpubridge cache import warm.tpbcache", bring)
      ->add_option("FILE", o->file, "File to read")
      ->required();
}

}  // namespace tpubridge::tools
