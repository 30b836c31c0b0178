#include "tpubridge/train/checkpoint_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "tpubridge/base/fd.h"
#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || at != end) return std::nullopt;
  return step;
}

// A rename first: a folder that is removed half-way is never taken for a checkpoint.
void remove_checkpoint(const Path& path) {
  std::error_code error;
  const Path aside = path.parent_path() / (".tmp-old-" + path.filename().string());
  fs::remove_all(aside, error);
  fs::rename(path, aside, error);
  if (!error) fs::remove_all(aside, error);
  if (error) log::warn("checkpoint.left_behind", {{"path", path.string()}, {"cause", error.message()}});
}

}  // namespace

// The right to write in the folder. The system takes it back when the process ends, however it does.
struct CheckpointStore::Claim {
  explicit Claim(const Path& folder) {
    make_folder(folder);
    const Path path = folder / ".lock";
    fd = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!fd) throw file_error("write", path, errno);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK)
        throw checkpoint_error("save", folder, "another process writes its checkpoints there", {},
                               "Give each training a folder of its own.", Code::failed_precondition);
      throw file_error("lock", path, errno);
    }
    std::error_code error;  // what a killed process left half-written
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().filename().string().starts_with(".tmp-")) fs::remove_all(entry.path(), error);
  }
  Fd fd;
};

CheckpointStore::CheckpointStore(Path folder, StoreOptions options)
    : folder_(fs::absolute(folder)), options_(options) {}

CheckpointStore::~CheckpointStore() {
  try {
    wait();
  } catch (const std::exception& e) {
    log::error("checkpoint.failed", {{"folder", folder_.string()}, {"cause", e.what()}});
  }
}

Path CheckpointStore::path_of(int64_t step) const {
  std::string digits = std::to_string(step);
  if (digits.size() < 9) digits.insert(0, 9 - digits.size(), '0');
  return folder_ / (std::string(kPrefix) + digits);
}

void CheckpointStore::save(int64_t step, CheckpointData data) {
  wait();
  if (step < 0)
    throw checkpoint_error("save", folder_, "the step is " + std::to_string(step), {}, "",
                           Code::invalid_argument);
  if (!claim_) try {
      claim_ = std::make_unique<Claim>(folder_);
    } catch (const FileError& e) {
      throw checkpoint_error("save", folder_, e.message(), e.details(), e.hint(), e.code());
    }
  if (!options_.asynchronous) return write(step, data);
  pending_ = std::async(std::launch::async, [this, step, kept = std::move(data)] { write(step, kept); });
}

void CheckpointStore::wait() {
  if (pending_.valid()) pending_.get();
}

void CheckpointStore::write(int64_t step, const CheckpointData& data) {
  write_checkpoint(path_of(step), data);
  log::info("checkpoint.saved", {{"path", path_of(step).string()}});
  drop_old(step);
}

void CheckpointStore::drop_old(int64_t newest) const {
  if (options_.keep == 0) return;
  auto all = list();
  std::erase_if(all, [&](const auto& c) { return c.step > newest; });  // of a run that this one leaves behind
  const size_t extra = all.size() > options_.keep ? all.size() - options_.keep : 0;
  for (size_t i = 0; i < extra; ++i) remove_checkpoint(all[i].path);
}

std::vector<StoredCheckpoint> CheckpointStore::list() const {
  std::vector<StoredCheckpoint> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error))
    if (const auto step = step_of(entry.path().filename().string()); step && entry.is_directory(error))
      out.push_back({*step, entry.path()});
  std::ranges::sort(out, {}, &StoredCheckpoint::step);
  return out;
}

std::optional<StoredCheckpoint> CheckpointStore::latest() const {
  const auto all = list();
  if (all.empty()) return std::nullopt;
  return all.back();
}

std::optional<LoadedCheckpoint> CheckpointStore::newest_good() const {
  auto all = list();
  std::ranges::reverse(all);
  for (const StoredCheckpoint& c : all) {
    try {
      return LoadedCheckpoint{c, read_checkpoint(c.path)};
    } catch (const TPUCheckpointError& e) {
      log::warn("checkpoint.skipped", {{"path", c.path.string()}, {"reason", e.what()}});
    }
  }
  return std::nullopt;
}

}  // namespace tpubridge
