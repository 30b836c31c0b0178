// What `tpubridge cache` tells, as text and as JSON (keys: docs/command.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tpubridge/cache/archive.h"

namespace tpubridge::tools {

using CacheFiles = std::vector<cache::DiskCache::File>;

// The folder as the library would use it, whether or not it is switched off.
[[nodiscard]] cache::DiskCache open_cache();

[[nodiscard]] nlohmann::ordered_json list_json(const cache::DiskCache& cache, const CacheFiles& files);
[[nodiscard]] std::string list_text(const cache::DiskCache& cache, const CacheFiles& files);

[[nodiscard]] nlohmann::ordered_json stats_json(const cache::DiskCache& cache, const CacheFiles& files);
[[nodiscard]] std::string stats_text(const cache::DiskCache& cache, const CacheFiles& files);

[[nodiscard]] nlohmann::ordered_json verify_json(const cache::DiskCache& cache, const CacheFiles& files,
                                                 bool removed);
[[nodiscard]] std::string verify_text(const CacheFiles& files, bool removed);

}  // namespace tpubridge::tools
