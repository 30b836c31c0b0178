// Compiled programs in a folder that any number of processes share.
//
// An entry is one file, written whole or not at all, and never changed afterwards; any process may delete any
// entry at any time. A hit renews the file's time, and after each store the entries used longest ago go until
// the folder is within its limit.
//
// load, store, drop and gc never throw for what is wrong with the folder or its files: they do without, and
// say so once in the log. What is bad is dropped.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "tpubridge/cache/counts.h"
#include "tpubridge/cache/entry.h"
#include "tpubridge/cache/lock.h"

namespace tpubridge::cache {

struct Removed {
  int64_t entries = 0, bytes = 0;
};

class DiskCache {
 public:
  DiskCache(Path folder, int64_t max_bytes);
  // TPUBRIDGE_CACHE_DIR and its kin, TPUBRIDGE_CACHE_SIZE; null where TPUBRIDGE_CACHE is 0 or no folder is
  // known.
  [[nodiscard]] static std::shared_ptr<DiskCache> from_environment();

  [[nodiscard]] const Path& folder() const { return folder_; }
  [[nodiscard]] int64_t max_bytes() const { return max_bytes_; }

  // Empty where it is not there, or not sound. By its id: also where it is another program's with this key,
  // which stays until this one is stored in its place.
  [[nodiscard]] std::optional<Entry> load(const ProgramId& id);
  [[nodiscard]] std::optional<Entry> load(const Hash128& key);
  // Whether it is there now. Renews nothing where it alone passes the limit.
  bool store(const EntryInfo& info, std::string_view executable);
  void drop(const Hash128& key, const std::string& reason);  // a bad entry: with a warning, counted
  // Held by the one that compiles; the others wait, then load.
  [[nodiscard]] FileLock lock(const Hash128& key, std::chrono::milliseconds patience) const;

  // Programs that were compiled by a child process without harm, by whatever key the caller makes.
  [[nodiscard]] bool was_checked(const Hash128& key) const;
  void note_checked(const Hash128& key) const;

  // For the command. What cannot be read is thrown as FileError.
  struct File {
    Path path;
    Hash128 key;                    // by its name
    int64_t bytes = 0, used = 0;    // seconds since 1970
    std::optional<EntryInfo> info;  // empty where the head is not sound
    std::string problem;            // then: why
    bool other_version = false;     // then: it is another version's, and none of our business
    bool damaged = false;           // then: its content is wrong, whoever reads it
    // It may be sound, and cannot be read now.
    [[nodiscard]] bool unreadable() const { return !info && !other_version && !damaged; }
  };
  [[nodiscard]] std::vector<File> list() const;    // the most recently used first
  [[nodiscard]] std::vector<File> verify() const;  // the same, each entry read whole
  // Throws TPUCacheError where an entry is damaged, or the folder cannot be read.
  void check_entries() const;
  // Throws TPUCacheError where entries could not be written or read; makes the folder where it is not there.
  void check_folder() const;
  bool remove(const Hash128& key) const;  // whether it was there
  Removed gc(int64_t max_bytes) const;    // also what killed processes left: locks and unfinished writes
  Removed clear() const;

  [[nodiscard]] Path path_of(const Hash128& key) const;
  // Writes an entry that is already encoded, where it is not there yet; whether it was written. Throws
  // FileError.
  bool add(const Hash128& key, std::string_view bytes) const;

 private:
  void warn_unusable(const Error& error);
  Path folder_;
  int64_t max_bytes_;
  std::atomic<bool> warned_{false};
};

}  // namespace tpubridge::cache
