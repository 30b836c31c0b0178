// Entries in one file, to carry a warm cache to another machine of the same kind.
#pragma once

#include <vector>

#include "tpubridge/cache/disk.h"

namespace tpubridge::cache {

struct Exported {
  int64_t entries = 0, bytes = 0;  // bytes: of the file
};
// All sound entries, or those with the given keys (ArgumentError where one is not there). Throws
// TPUCacheError where the folder cannot be read or the file not be written.
Exported export_to(const DiskCache& cache, const Path& file, const std::vector<Hash128>& keys = {});

struct Imported {
  int64_t entries = 0;  // in the file
  int64_t added = 0;    // the others were there already
};
// Nothing is written before the whole file was checked. Throws TPUCacheError where it is damaged or
// cannot be read, or the folder cannot be written.
Imported import_from(const DiskCache& cache, const Path& file);

}  // namespace tpubridge::cache
