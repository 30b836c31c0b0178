#include "tpubridge/base/error_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "tpubridge/base/absolute.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/fd.h"
#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

using nlohmann::ordered_json;

Path older(const Path& path) { return path.string() + ".1"; }

std::string line_of(const PastError& e) {
  const ordered_json json = {{"time", e.time},
                             {"process", e.process},
                             {"program", e.program},
                             {"operation", e.operation},
                             {"class", e.error_class},
                             {"type", e.error_type},
                             {"error", e.error.substr(0, ErrorJournal::kMaxText)},
                             {"recovered", e.recovered}};
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::optional<PastError> read_line(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto text = [&](const char* key) {
    const auto it = json.find(key);
    return it != json.end() && it->is_string() ? std::optional(it->get<std::string>()) : std::nullopt;
  };
  const auto time = json.find("time"), process = json.find("process"), recovered = json.find("recovered");
  const auto error = text("error"), type = text("type");
  if (time == json.end() || !time->is_number() || !error || !type) return std::nullopt;
  PastError out;
  out.time = time->get<double>();
  if (process != json.end() && process->is_number_integer()) out.process = process->get<int64_t>();
  out.program = text("program").value_or("");
  out.operation = text("operation").value_or("");
  out.error_class = text("class").value_or("");
  out.error_type = *type;
  out.error = *error;
  out.recovered = recovered != json.end() && recovered->is_boolean() && recovered->get<bool>();
  return out;
}

void read_all(const Path& path, std::vector<PastError>& out) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  const std::string text = read_file(path);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (auto e = read_line(std::string_view(text).substr(at, end - at))) out.push_back(std::move(*e));
    at = end + 1;
  }
}

// The file, locked; another process may put a new one in its place while this one waits for the lock.
Fd open_locked(const Path& path) {
  using namespace std::chrono_literals;
  for (const auto until = std::chrono::steady_clock::now() + 2s; std::chrono::steady_clock::now() < until;) {
    Fd fd(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
    if (!fd) throw file_error("open", path, errno);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) throw file_error("lock", path, errno);
      std::this_thread::sleep_for(1ms);
      continue;
    }
    struct stat held {
    }, there{};
    if (::fstat(fd.get(), &held) == 0 && ::stat(path.c_str(), &there) == 0 && held.st_ino == there.st_ino &&
        held.st_dev == there.st_dev)
      return fd;
  }
  throw file_error("lock", path, EWOULDBLOCK);
}

// A line that a process died in is ended first.
bool ends_in_a_line(const Fd& fd, const Path& path, size_t size) {
  std::byte last{};
  return size == 0 || (read_at(fd, path, {&last, 1}, size - 1) == 1 && last == std::byte{'\n'});
}

}  // namespace

Path ErrorJournal::standard_path() {
  if (const std::string own = env::text("TPUBRIDGE_STATE_DIR"); !own.empty())
    return absolute_path(own) / "errors.jsonl";
  if (const auto xdg = env::raw("XDG_STATE_HOME"); xdg && Path(*xdg).is_absolute())
    return Path(*xdg) / "tpubridge" / "errors.jsonl";
  return home_folder() / ".local" / "state" / "tpubridge" / "errors.jsonl";
}

void ErrorJournal::append(const PastError& error) const {
  make_folder(path_.parent_path());
  const std::string line = line_of(error);
  while (true) {
    const Fd fd = open_locked(path_);
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) throw file_error("look at", path_, errno);
    const auto size = static_cast<size_t>(info.st_size);
    if (size == 0 || size + line.size() <= max_bytes_)
      return write_all(fd, path_, ends_in_a_line(fd, path_, size) ? line : "\n" + line);
    if (::rename(path_.c_str(), older(path_).c_str()) != 0) throw file_error("rename", path_, errno);
  }
}

std::vector<PastError> ErrorJournal::last(size_t count) const {
  std::vector<PastError> out;
  read_all(older(path_), out);
  read_all(path_, out);
  if (out.size() > count) out.erase(out.begin(), out.end() - static_cast<int64_t>(count));
  return out;
}

void keep_error(PastError error) {
  try {
    if (!env::flag("TPUBRIDGE_ERROR_LOG")) return;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    error.time = std::chrono::duration<double>(now).count();
    error.process = ::getpid();
    error.program = program_invocation_short_name;
    ErrorJournal(ErrorJournal::standard_path()).append(error);
  } catch (const std::exception& e) {
    log::warn("error.not_kept", {{"problem", e.what()}});
  }
}

}  // namespace tpubridge
