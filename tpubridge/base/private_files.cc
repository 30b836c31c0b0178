#include "tpubridge/base/private_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <stdexcept>

#include "tpubridge/base/absolute.h"

namespace tpubridge {
namespace {

[[noreturn]] void distrust(const Path& path, const std::string& why, std::string hint) {
  throw UntrustedFileError(fmt::format("{} is not trusted: {}", path.string(), why),
                           {{"path", path.string()}}, std::move(hint), Code::permission_denied);
}

void make_one(const Path& path) {
  if (::mkdir(path.c_str(), 0700) != 0) {
    if (errno == EEXIST) return;
    throw file_error("create the folder", path, errno);
  }
  if (::chmod(path.c_str(), 0700) != 0) throw file_error("create the folder", path, errno);
}

}  // namespace

void check_private(const Path& path, const struct stat& info) {
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    distrust(path, fmt::format("it belongs to the user {}", info.st_uid),
             "It must belong to you or to root: delete it, or name another folder.");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    distrust(path, fmt::format("others may write to it (mode {:o})", info.st_mode & 07777),
             fmt::format("Look at what is there, then take the right away: chmod go-w {}", path.string()));
}

void check_private_folder(const Path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0)
    check_private(path, info);
  else if (errno != ENOENT)
    throw file_error("read the folder", path, errno);
}

OpenFile open_private(const Path& path) {
  OpenFile file = open_to_read(path);
  check_private(path, file.info);
  return file;
}

std::string read_private_file(const Path& path) try {
  const OpenFile file = open_private(path);
  std::string out(static_cast<size_t>(file.info.st_size), '\0');
  out.resize(read_at(file.fd, path, std::as_writable_bytes(std::span(out)), 0));
  return out;
} catch (const std::bad_alloc&) {
  throw file_error("read", path, ENOMEM);
} catch (const std::length_error&) {
  throw file_error("read", path, ENOMEM);
}

void make_private_folder(const Path& path) {
  Path made;
  for (const Path& part : absolute_path(path)) {
    made /= part;
    if (part.has_filename() && part != "." && made.has_relative_path()) make_one(made);
  }
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) throw file_error("create the folder", path, ENOTDIR);
  check_private_folder(path);
}

}  // namespace tpubridge
