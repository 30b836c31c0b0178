#include "tpubridge/cache/ahead.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tpubridge/base/log.h"
#include "tpubridge/base/private_files.h"
#include "tpubridge/cache/at_exit.h"
#include "tpubridge/cache/bytes.h"

namespace tpubridge::cache {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMost = 8;  // programs of a start

std::vector<Hash128> read_start(const Path& path) {
  std::string text;
  try {
    text = read_private_file(path);
  } catch (const FileError&) {  // the first run of this command, or none of ours
    return {};
  }
  std::vector<Hash128> out;
  for (size_t at = 0; at < text.size() && out.size() < kMost;) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (const auto key = parse_key(text.substr(at, end - at))) out.push_back(*key);
    at = end + 1;
  }
  return out;
}

}  // namespace

std::string this_command() {
  std::string out;
  try {
    out = std::filesystem::read_symlink("/proc/self/exe").string() + '\0' + read_file("/proc/self/cmdline");
  } catch (const std::exception&) {  // no /proc: all commands are one
  }
  return out;
}

struct Ahead::State {
  State(const pjrt::Client& c, std::shared_ptr<DiskCache> d, const std::string& command)
      : client(c), disk(std::move(d)), file(disk->folder() / (hash128(command).hex() + ".start")) {}
  const pjrt::Client client;
  const std::shared_ptr<DiskCache> disk;
  const Path file;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Hash128> last, now;  // what this command took the last time, and takes now
  std::unordered_map<Hash128, Loaded> ready;
  std::optional<Hash128> loading;
  std::unordered_set<Hash128> asked;
  bool stopped = false;
};

Ahead::Ahead(const pjrt::Client& client, std::shared_ptr<DiskCache> disk, const std::string& command)
    : state_(std::make_shared<State>(client, std::move(disk), command)) {}
Ahead::~Ahead() {
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  state_->ready.clear();
}

void Ahead::load_all(State& s) {
  for (const Hash128& key : s.last) {
    {
      const std::lock_guard lock(s.mutex);
      if (s.stopped) return;
      if (s.asked.contains(key)) continue;  // it was faster
      s.loading = key;
    }
    std::optional<Loaded> made;
    const auto begin = Clock::now();
    try {
      if (const auto entry = s.disk->load(key))
        made = Loaded{entry->info.id(), s.client.load(entry->executable, pjrt::Signature{}),
                      entry->info.compile_seconds, 0};
    } catch (const std::exception& e) {  // who asks for it will see the same, and drop it
      log::debug("cache.not_loaded_ahead", {{"key", key.hex()}, {"problem", e.what()}});
    }
    const std::lock_guard lock(s.mutex);
    if (made && !s.stopped) {
      made->seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      s.ready.emplace(key, std::move(*made));
    }
    s.loading.reset();
    s.changed.notify_all();
  }
}

void Ahead::start() {
  state_->last = read_start(state_->file);
  if (state_->last.empty()) return;
  std::error_code ignored;  // the time of the last use, for gc
  std::filesystem::last_write_time(state_->file, std::filesystem::file_time_type::clock::now(), ignored);
  (void)run_detached([kept = state_] { load_all(*kept); });
}

std::optional<Ahead::Loaded> Ahead::take(const ProgramId& id, std::optional<pjrt::Signature> signature) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.asked.insert(id.key);
  s.changed.wait(lock, [&] { return s.loading != id.key; });
  auto found = s.ready.extract(id.key);
  if (found.empty() || found.mapped().id != id) return std::nullopt;
  lock.unlock();
  found.mapped().program.set_signature(std::move(signature));
  return std::move(found.mapped());
}

void Ahead::note(const Hash128& key, bool compiled) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (compiled) {
    s.stopped = true;
    s.ready.clear();
  }
  if (s.now.size() == kMost || std::ranges::count(s.now, key)) return;
  s.now.push_back(key);
  // A shorter run than the last one leaves the longer list.
  if (s.now.size() <= s.last.size() && std::equal(s.now.begin(), s.now.end(), s.last.begin())) return;
  std::string text;
  for (const Hash128& k : s.now) text += k.hex() + '\n';
  try {
    check_private_folder(s.disk->folder());
    const std::string_view parts[] = {text};
    write_private_file(s.file, parts);
  } catch (const FileError& e) {  // the next start loads nothing ahead
    log::debug("cache.start_not_written", {{"problem", e.what()}});
  }
}

}  // namespace tpubridge::cache
