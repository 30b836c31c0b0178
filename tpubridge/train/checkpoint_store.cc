#include "tpubridge/train/checkpoint_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "tpubridge/base/absolute.h"
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
  if (error != std::errc() || at != end || step < 0 || step > kMaxStep) return std::nullopt;
  return step;
}

// The folders whose name is a checkpoint's, or looks like one.
std::vector<Path> named(const Path& folder) {
  std::vector<Path> out;
  std::error_code error, none;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error))
    if (it->path().filename().string().starts_with(kPrefix) && it->is_directory(none))
      out.push_back(it->path());
  if (!error || error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory)
    return out;
  const FileError e = file_error("read the folder", folder, error.value());
  throw checkpoint_error("load", folder, e.message(), e.details(), e.hint(), e.code());
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
    for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
      std::error_code kept;
      if (it->path().filename().string().starts_with(".tmp-")) fs::remove_all(it->path(), kept);
    }
  }
  Fd fd;
};

CheckpointStore::CheckpointStore(Path folder, StoreOptions options)
    : folder_(absolute_path(folder)), options_(options) {}

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
  if (step < 0 || step > kMaxStep)
    throw checkpoint_error("save", folder_, "the step is " + std::to_string(step), {}, "",
                           Code::invalid_argument);
  claim();
  if (!options_.asynchronous) return write(step, data);
  pending_ = std::async(std::launch::async, [this, step, kept = std::move(data)] { write(step, kept); });
}

void CheckpointStore::claim() {
  if (!claim_) try {
      claim_ = std::make_unique<Claim>(folder_);
    } catch (const FileError& e) {
      throw checkpoint_error("save", folder_, e.message(), e.details(), e.hint(), e.code());
    }
}

bool CheckpointStore::busy() const {
  return pending_.valid() && pending_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
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
  for (const Path& path : named(folder_))
    if (const auto step = step_of(path.filename().string())) out.push_back({*step, path});
  std::ranges::sort(out, {}, &StoredCheckpoint::step);
  return out;
}

std::optional<StoredCheckpoint> CheckpointStore::latest() const {
  const auto all = list();
  if (all.empty()) return std::nullopt;
  return all.back();
}

std::optional<Path> CheckpointStore::set_aside() {
  wait();
  claim();
  const std::vector<Path> all = named(folder_);
  if (all.empty()) return std::nullopt;
  int n = 1;
  Path aside = folder_ / "before-1";
  std::error_code error;
  while (fs::exists(aside, error) && !error) aside = folder_ / ("before-" + std::to_string(++n));
  if (!error) fs::create_directory(aside, error);
  for (const Path& path : all)
    if (!error) fs::rename(path, aside / path.filename(), error);
  try {
    if (error) throw file_error("move the checkpoints to", aside, error.value());
    sync_folder(aside);
    sync_folder(folder_);
  } catch (const FileError& e) {
    throw checkpoint_error("save", folder_, e.message(), e.details(), e.hint(), e.code());
  }
  log::info("checkpoint.set_aside", {{"path", aside.string()}});
  return aside;
}

std::optional<LoadedCheckpoint> CheckpointStore::newest_good() const {
  auto all = list();
  std::ranges::reverse(all);
  for (const StoredCheckpoint& c : all) {
    try {
      return LoadedCheckpoint{c, read_checkpoint(c.path)};
    } catch (const TPUCheckpointError& e) {
      if (!is_damage(e)) throw;
      log::warn("checkpoint.skipped", {{"path", c.path.string()}, {"reason", e.what()}});
    }
  }
  return std::nullopt;
}

}  // namespace tpubridge
