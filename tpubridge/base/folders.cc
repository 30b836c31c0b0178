// Folders and mappings of files.h: where caches and temporary files go, and files seen as memory.
#include <pwd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "tpubridge/base/absolute.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/fd.h"
#include "tpubridge/base/files.h"
#include "tpubridge/base/log.h"

namespace tpubridge {

void make_folder(const Path& path) {
  std::error_code error;
  std::vector<Path> grown;  // folders with a new one in them
  for (Path p = path; !p.empty() && p != p.parent_path() && !std::filesystem::exists(p, error);
       p = p.parent_path())
    grown.push_back(p.parent_path());
  std::filesystem::create_directories(path, error);
  if (error) throw file_error("create the folder", path, error.value());
  for (const Path& folder : grown) sync_folder(folder);
  // Where something else stands there, some libraries report no error.
  if (!std::filesystem::is_directory(path, error)) throw file_error("create the folder", path, ENOTDIR);
}

Path home_folder() {
  if (const auto home = env::raw("HOME")) return *home;
  passwd entry{}, *found = nullptr;
  std::vector<char> text(1 << 14);
  if (::getpwuid_r(::getuid(), &entry, text.data(), text.size(), &found) == 0 && found != nullptr &&
      found->pw_dir != nullptr && *found->pw_dir != '\0')
    return found->pw_dir;
  throw FileError("no home folder is known: HOME is not set and the user database has none", {},
                  "Set HOME, or TPUBRIDGE_CACHE_DIR for the cache alone.", Code::not_found);
}

Path absolute_path(const Path& path) {
  std::error_code error;
  Path out = std::filesystem::absolute(path, error);
  if (error) throw file_error("find the current folder for", path, error.value());
  return out;
}

Path cache_folder() {
  if (const std::string own = env::text("TPUBRIDGE_CACHE_DIR"); !own.empty()) return absolute_path(own);
  // The XDG standard says that a relative path is to be ignored.
  if (const auto xdg = env::raw("XDG_CACHE_HOME"); xdg && Path(*xdg).is_absolute())
    return Path(*xdg) / "tpubridge";
  return home_folder() / ".cache" / "tpubridge";
}

Path temporary_folder() { return env::raw("TMPDIR").value_or("/tmp"); }

TempFolder::TempFolder(std::string_view prefix) {
  std::string name = (temporary_folder() / (std::string(prefix) + "-XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) throw file_error("create a temporary folder", name, errno);
  path_ = name;
}

TempFolder::~TempFolder() {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) log::warn("files.left_behind", {{"path", path_.string()}, {"cause", error.message()}});
}

TempFolder& TempFolder::operator=(TempFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::MappedFile(const Path& path) : path_(path) {
  const OpenFile file = open_to_read(path);
  size_ = static_cast<size_t>(file.info.st_size);
  if (size_ == 0) return;  // nothing can be mapped, and nothing need be
  void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd.get(), 0);
  if (at == MAP_FAILED) throw file_error("map", path, errno);
  data_ = static_cast<const std::byte*>(at);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace tpubridge
