// Loading and storing; disk_files.cc has the rest.
#include "tpubridge/cache/disk.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <mutex>

#include "tpubridge/base/env.h"
#include "tpubridge/base/log.h"
#include "tpubridge/base/private_files.h"

namespace tpubridge::cache {
namespace {

struct Counters {
  std::mutex mutex;
  DiskCounts counts;
};
Counters& counters() {
  static auto* const it = new Counters;  // a late compile may count after static objects are gone
  return *it;
}

template <class F>
void count(F&& change) {
  const std::lock_guard lock(counters().mutex);
  change(counters().counts);
}

}  // namespace

DiskCounts disk_counts() {
  const std::lock_guard lock(counters().mutex);
  return counters().counts;
}
void count_hit(double seconds_saved, bool ahead) {
  count([&](DiskCounts& c) { ++c.hits, c.ahead += ahead ? 1 : 0, c.seconds_saved += seconds_saved; });
}
void count_miss() {
  count([](DiskCounts& c) { ++c.misses; });
}

DiskCache::DiskCache(Path folder, int64_t max_bytes) : folder_(std::move(folder)), max_bytes_(max_bytes) {}

std::shared_ptr<DiskCache> DiskCache::from_environment() {
  if (!env::flag("TPUBRIDGE_CACHE")) return nullptr;
  const int64_t mib = *env::integer("TPUBRIDGE_CACHE_SIZE");
  try {
    return std::make_shared<DiskCache>(cache_folder() / "programs", mib << 20);
  } catch (const FileError& e) {
    log::warn("cache.off", {{"problem", e.what()}});
    return nullptr;
  }
}

Path DiskCache::path_of(const Hash128& key) const { return folder_ / (key.hex() + ".program"); }

void DiskCache::warn_unusable(const Error& error) {
  if (!warned_.exchange(true)) log::warn("cache.unusable", {{"problem", error.what()}});
}

std::optional<Entry> DiskCache::load(const Hash128& key) {
  const Path path = path_of(key);
  std::string bytes;
  try {
    check_private_folder(folder_);
    bytes = read_private_file(path);
  } catch (const FileError& e) {
    const bool entry = e.detail("path") == path.string();
    if (entry && dynamic_cast<const UntrustedFileError*>(&e) != nullptr)
      drop(key, e.message());
    else if (e.code() != Code::not_found)
      warn_unusable(e);
    return std::nullopt;
  }
  try {
    Entry entry = decode(bytes, path);
    if (entry.info.key != key)
      throw FileError(path.string() + " holds another program", {}, "", Code::data_loss);
    // The time of the last use. Where it cannot be set (read-only), the order of eviction is all that
    // suffers.
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    return entry;
  } catch (const FileError& e) {
    if (e.code() == Code::resource_exhausted)
      warn_unusable(e);
    else
      drop(key, e.message());
    return std::nullopt;
  }
}

std::optional<Entry> DiskCache::load(const ProgramId& id) {
  std::optional<Entry> entry = load(id.key);
  if (!entry || entry->info.id() == id) return entry;
  log::warn("cache.equal_keys", {{"path", path_of(id.key).string()}, {"program", entry->info.program}});
  return std::nullopt;
}

void DiskCache::drop(const Hash128& key, const std::string& reason) {
  count([](DiskCounts& c) { ++c.drops; });
  log::warn("cache.dropped", {{"path", path_of(key).string()}, {"reason", reason}});
  try {
    remove(key);
  } catch (const FileError& e) {
    warn_unusable(e);
  }
}

bool DiskCache::store(const EntryInfo& info, std::string_view executable) {
  try {
    const Encoded encoded = encode(info, executable);
    const auto bytes = static_cast<int64_t>(encoded.head.size() + encoded.payload.size());
    if (bytes > max_bytes_) {
      log::info("cache.too_large", {{"program", info.program}, {"bytes", std::to_string(bytes)}});
      return false;
    }
    make_private_folder(folder_);  // it may have been deleted since
    const std::string_view parts[] = {encoded.head, encoded.payload};
    write_private_file(path_of(info.key), parts);
    count([](DiskCounts& c) { ++c.stores; });
  } catch (const FileError& e) {
    warn_unusable(e);
    return false;
  }
  try {
    gc(max_bytes_);
  } catch (const FileError& e) {
    warn_unusable(e);
  }
  return true;
}

FileLock DiskCache::lock(const Hash128& key, std::chrono::milliseconds patience) const {
  try {
    make_private_folder(folder_);
  } catch (const FileError&) {  // store will tell
    return {Path(), patience};
  }
  return {folder_ / (key.hex() + ".lock"), patience};
}

}  // namespace tpubridge::cache
