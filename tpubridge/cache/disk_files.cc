// What is in the folder: listing, checking, deleting. Others do the same at the same time, so a file that is
// gone when its turn comes is no error.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <functional>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/private_files.h"
#include "tpubridge/cache/bytes.h"
#include "tpubridge/cache/disk.h"

namespace tpubridge::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEntry = ".program", kLock = ".lock", kTemporary = ".tmp", kStart = ".start",
                           kChecked = ".checked";
// A write that is not finished after this long belongs to a process that was killed.
constexpr int64_t kAbandonedSeconds = 3600;
constexpr int64_t kForgottenSeconds = 30 * 24 * 3600;  // a command that was not run for so long

// Each name in the folder with its stat.
void each(const Path& folder, const std::function<void(const Path&, const struct stat&)>& use) {
  check_private_folder(folder);
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error == std::errc::no_such_file_or_directory) return;
  if (error) throw file_error("read the folder", folder, error.value());
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) != 0) {
      if (errno != ENOENT) throw file_error("read", it->path(), errno);
    } else if (S_ISREG(info.st_mode)) {
      use(it->path(), info);
    }
  }
  if (error) throw file_error("read the folder", folder, error.value());
}

bool unlink_if_there(const Path& path) {
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw file_error("delete", path, errno);
}

int64_t nanoseconds(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

struct Found {
  Path path;
  int64_t bytes, used;  // nanoseconds
};

std::vector<Found> entries(const Path& folder) {
  std::vector<Found> out;
  each(folder, [&](const Path& path, const struct stat& info) {
    if (path.extension() == kEntry) out.push_back({path, info.st_size, nanoseconds(info)});
  });
  return out;
}

// Locks whose owner was killed (one that can be had at once is removed with it), files never finished, and
// what commands took that nobody runs any more.
void remove_litter(const Path& folder) {
  const int64_t now = ::time(nullptr);
  each(folder, [&](const Path& path, const struct stat& info) {
    const int64_t age = now - info.st_mtim.tv_sec;
    if (path.extension() == kTemporary && age >= kAbandonedSeconds) unlink_if_there(path);
    if ((path.extension() == kStart || path.extension() == kChecked) && age >= kForgottenSeconds)
      unlink_if_there(path);
    if (path.extension() == kLock) (void)FileLock(path, std::chrono::milliseconds(0));
  });
}

DiskCache::File look_at(const Found& found, bool whole) {
  DiskCache::File file{found.path, {}, found.bytes, found.used / 1'000'000'000, {}, "", false, false};
  try {
    const auto key = parse_key(found.path.stem().string());
    file.info = whole ? decode(read_private_file(found.path), found.path).info : read_info(found.path);
    if (!key || file.info->key != *key)
      throw FileError("its name is not that of the program it holds", {}, "", Code::data_loss);
    file.key = *key;
  } catch (const FileError& e) {
    file.info.reset();
    file.problem = e.message();
    file.other_version = e.code() == Code::failed_precondition;
    file.damaged = e.code() == Code::data_loss || dynamic_cast<const UntrustedFileError*>(&e) != nullptr;
    if (e.code() == Code::not_found) file.path.clear();  // deleted meanwhile
    if (const auto key = parse_key(found.path.stem().string())) file.key = *key;
  }
  return file;
}

std::vector<DiskCache::File> look_at_all(const Path& folder, bool whole) {
  std::vector<Found> found = entries(folder);
  std::ranges::sort(found, std::greater(), &Found::used);
  std::vector<DiskCache::File> out;
  for (const Found& f : found) {
    auto file = look_at(f, whole);
    if (!file.path.empty()) out.push_back(std::move(file));
  }
  return out;
}

}  // namespace

std::vector<DiskCache::File> DiskCache::list() const { return look_at_all(folder_, false); }
std::vector<DiskCache::File> DiskCache::verify() const { return look_at_all(folder_, true); }

void DiskCache::check_entries() const {
  std::vector<File> files;
  try {
    files = verify();
  } catch (const FileError& e) {
    throw cache_error("verify", e.message(), e.details(), e.hint(), e.code());
  }
  std::erase_if(files, [](const File& f) { return f.info || f.other_version; });
  if (files.empty()) return;
  throw cache_error("verify", files[0].problem,
                    {{"path", files[0].path.string()}, {"damaged", std::to_string(files.size())}},
                    "`tpubridge cache verify --remove` deletes what is damaged.");
}

void DiskCache::check_folder() const {
  try {
    make_private_folder(folder_);
    const Path probe = folder_ / ("probe-" + std::to_string(::getpid()) + std::string(kTemporary));
    write_file(probe, std::string_view("tpubridge"));
    unlink_if_there(probe);
    (void)entries(folder_);
  } catch (const FileError& e) {
    throw cache_error("open", e.message(), e.details(),
                      "Name another folder (runtime.cache_dir), or set enable_xla_cache to false.", e.code());
  }
}

bool DiskCache::remove(const Hash128& key) const { return unlink_if_there(path_of(key)); }

Removed DiskCache::gc(int64_t max_bytes) const {
  remove_litter(folder_);
  std::vector<Found> found = entries(folder_);
  int64_t total = 0;
  for (const Found& f : found) total += f.bytes;
  std::ranges::sort(found, {}, &Found::used);
  Removed removed;
  for (const Found& f : found) {
    if (total <= max_bytes) break;
    struct stat now {};
    if (::stat(f.path.c_str(), &now) == 0 && nanoseconds(now) != f.used) continue;  // used since
    if (unlink_if_there(f.path)) ++removed.entries, removed.bytes += f.bytes;
    total -= f.bytes;
  }
  return removed;
}

Removed DiskCache::clear() const {
  Removed removed;
  for (const Found& f : entries(folder_))
    if (unlink_if_there(f.path)) ++removed.entries, removed.bytes += f.bytes;
  each(folder_, [](const Path& path, const struct stat&) {
    if (path.extension() == kStart || path.extension() == kChecked) unlink_if_there(path);
  });
  remove_litter(folder_);
  return removed;
}

bool DiskCache::add(const Hash128& key, std::string_view bytes) const {
  const Path path = path_of(key);
  std::error_code error;
  if (fs::exists(path, error)) return false;
  make_private_folder(folder_);
  write_private_file(path, std::span(&bytes, 1));
  return true;
}

}  // namespace tpubridge::cache
