#include "tpubridge/cache/programs.h"

#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "tpubridge/base/env.h"
#include "tpubridge/base/log.h"
#include "tpubridge/base/lru.h"
#include "tpubridge/cache/ahead.h"
#include "tpubridge/cache/at_exit.h"
#include "tpubridge/cache/key.h"
#include "tpubridge/cache/progress.h"

namespace tpubridge::cache {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kLateResults = 16;  // kept in memory for callers that gave up; the disk has them too

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool many_processes(const pjrt::Client& client) {
  return client.devices().size() != client.addressable_devices().size();
}

}  // namespace

std::string_view to_string(Source source) {
  static constexpr std::array<std::string_view, 3> names = {"memory", "disk", "compiler"};
  return names[static_cast<size_t>(source)];
}

// One program on its way. All but what is asked for is guarded by State::mutex.
struct ProgramCache::Job {
  ProgramId id;
  pjrt::Program program;
  pjrt::CompileOptions options;
  std::optional<pjrt::Signature> signature;
  milliseconds patience;
  bool done = false;
  bool claimed = false;  // somebody has had the result
  int waiting = 0;
  Found found = {};
  std::exception_ptr error = nullptr;
};

struct ProgramCache::State {
  State(const pjrt::Client& c, std::shared_ptr<DiskCache> d)
      : client(c), disk(std::move(d)), target(target_of(c)), alone(!many_processes(c)) {
    // The compilers of the processes of a CUDA program share their measurements: one that loads would leave
    // the others waiting.
    if (!alone && target.platform == "cuda") disk = nullptr;
  }
  const pjrt::Client client;
  std::shared_ptr<DiskCache> disk;
  std::unique_ptr<Ahead> ahead;
  const KeyParts target;
  const bool alone;  // no other process takes part in the programs
  std::mutex mutex;
  std::condition_variable changed;
  milliseconds deadline{0}, patience{std::chrono::minutes(10)};
  std::unordered_map<ProgramId, std::shared_ptr<Job>> running;
  std::unordered_map<ProgramId, std::weak_ptr<const pjrt::LoadedExecutable>> live;
  LruCache<ProgramId, Found> late{kLateResults};
};

namespace {

std::optional<Found> load(const pjrt::Client& client, DiskCache& disk, const ProgramId& id,
                          const std::optional<pjrt::Signature>& signature) {
  const auto start = Clock::now();
  const std::optional<Entry> entry = disk.load(id);
  if (!entry) return std::nullopt;
  try {
    auto program = std::make_shared<const pjrt::LoadedExecutable>(client.load(entry->executable, signature));
    const double seconds = seconds_since(start);
    count_hit(entry->info.compile_seconds - seconds);
    log::debug("cache.hit", {{"program", entry->info.program}, {"key", id.key.hex()}});
    return Found{std::move(program), Source::disk, seconds};
  } catch (const Error& e) {
    disk.drop(id.key, fmt::format("the plugin refuses it: {}", e.message()));
    return std::nullopt;
  }
}

void store(DiskCache& disk, const ProgramId& id, const KeyParts& target, const Found& found) {
  try {
    EntryInfo info{id.key,
                   id.check,
                   id.bytes,
                   found.program->info().name(),
                   target.platform,
                   target.platform_version,
                   target.device_kind,
                   found.seconds,
                   ::time(nullptr)};
    disk.store(info, found.program->info().serialize());
  } catch (const std::exception& e) {  // a plugin need not be able to; the program is compiled all the same
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) log::warn("cache.not_serialised", {{"problem", e.what()}});
  }
}

std::optional<Found> take(Ahead& ahead, const ProgramId& id,
                          const std::optional<pjrt::Signature>& signature) {
  auto loaded = ahead.take(id, signature);
  if (!loaded) return std::nullopt;
  count_hit(loaded->compile_seconds - loaded->seconds, true);
  return Found{std::make_shared<const pjrt::LoadedExecutable>(std::move(loaded->program)), Source::disk,
               loaded->seconds};
}

}  // namespace

Found ProgramCache::work(const State& state, const Job& job) {
  std::optional<FileLock> lock;
  if (state.ahead)
    if (auto found = take(*state.ahead, job.id, job.signature)) return *found;
  if (state.disk) {
    if (auto found = load(state.client, *state.disk, job.id, job.signature)) return *found;
    // Processes that compile one program together must all do it at the same time.
    if (state.alone) lock.emplace(state.disk->lock(job.id.key, job.patience));
    if (lock && lock->waited())
      if (auto found = load(state.client, *state.disk, job.id, job.signature)) return *found;
    if (lock && lock->timed_out())
      log::warn("cache.lock_held",
                {{"key", job.id.key.hex()}, {"effect", "the program is compiled here too"}});
    count_miss();
  }
  const auto start = Clock::now();
  Found found{std::make_shared<const pjrt::LoadedExecutable>(
                  state.client.compile(job.program, job.options, job.signature)),
              Source::compiler, 0};
  found.seconds = seconds_since(start);
  if (state.disk) store(*state.disk, job.id, state.target, found);
  return found;
}

// Does the work and tells everybody who waits; where nobody does any more, the result is kept for later.
void ProgramCache::finish(State& state, Job& job) {
  try {
    const Working inside;
    job.found = work(state, job);
    if (state.ahead) state.ahead->note(job.id.key, job.found.source == Source::compiler);
  } catch (...) {
    job.error = std::current_exception();
  }
  const std::lock_guard lock(state.mutex);
  job.done = true;
  state.running.erase(job.id);
  if (job.error) {
    if (job.waiting == 0) log::warn("compile.failed_late", {{"key", job.id.key.hex()}});
  } else {
    std::erase_if(state.live, [](const auto& entry) { return entry.second.expired(); });
    state.live[job.id] = job.found.program;
    if (job.waiting == 0) state.late.set(job.id, std::move(job.found));
  }
  state.changed.notify_all();
}

ProgramCache::ProgramCache(const pjrt::Client& client, std::shared_ptr<DiskCache> disk)
    : state_(std::make_shared<State>(client, std::move(disk))) {
  state_->deadline = std::chrono::seconds(*env::integer("TPUBRIDGE_COMPILE_TIMEOUT"));
}

void ProgramCache::load_ahead(const std::string& command) {
  if (!state_->disk || !env::flag("TPUBRIDGE_LOAD_AHEAD")) return;
  state_->ahead =
      std::make_unique<Ahead>(state_->client, state_->disk, command + state_->target.hash().hex());
  state_->ahead->start();
}

ProgramId ProgramCache::id(const pjrt::Program& program, const pjrt::CompileOptions& options) const {
  KeyParts parts = state_->target;
  parts.program = program.code;
  parts.format = program.format;
  parts.options = options.serialize();
  return parts.id();
}

Found ProgramCache::get(const pjrt::Program& program, const pjrt::CompileOptions& options,
                        std::optional<pjrt::Signature> signature, std::optional<milliseconds> own_deadline) {
  const ProgramId wanted = id(program, options);
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (const auto late = state.late.get(wanted)) {
    state.late.remove(wanted);
    return *late;
  }
  if (const auto live = state.live.find(wanted); live != state.live.end())
    if (auto known = live->second.lock()) return {std::move(known), Source::memory, 0};

  std::shared_ptr<Job>& place = state.running[wanted];
  const bool first = !place;
  if (first)
    place = std::make_shared<Job>(Job{wanted, program, options, std::move(signature), state.patience});
  const std::shared_ptr<Job> job = place;
  const milliseconds deadline = own_deadline.value_or(state.deadline);
  ++job->waiting;
  const ProgressLine progress("compiling");
  const auto end = Clock::now() + deadline;
  if (first) {
    lock.unlock();
    if (deadline.count() == 0 || !run_detached([kept = state_, job] { finish(*kept, *job); }))
      finish(state, *job);
    lock.lock();
  }
  const auto over = [&] { return job->done; };
  if (deadline.count() == 0)
    state.changed.wait(lock, over);
  else
    state.changed.wait_until(lock, end, over);
  --job->waiting;
  if (!job->done)
    throw XLACompilationTimeoutError(
        fmt::format("XLA compilation failed: timeout after {:g}s",
                    static_cast<double>(deadline.count()) / 1000),
        {{"timeout_seconds", fmt::format("{:g}", static_cast<double>(deadline.count()) / 1000)},
         {"key", wanted.key.hex()}},
        "The compile goes on, and its result will be cached: try again later, or raise "
        "TPUBRIDGE_COMPILE_TIMEOUT.",
        Code::deadline_exceeded);
  if (job->error) std::rethrow_exception(job->error);
  // The last one takes it away: the compile's thread may have the job for a while yet, but not the program.
  Found found = job->waiting == 0 ? std::move(job->found) : job->found;
  if (std::exchange(job->claimed, true)) return {std::move(found.program), Source::memory, 0};
  return found;
}

milliseconds ProgramCache::deadline() const {
  const std::lock_guard lock(state_->mutex);
  return state_->deadline;
}
milliseconds ProgramCache::set_deadline(milliseconds deadline) {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->deadline, deadline);
}
milliseconds ProgramCache::set_patience(milliseconds patience) {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->patience, patience);
}
std::shared_ptr<DiskCache> ProgramCache::disk() const { return state_->disk; }
bool ProgramCache::on_disk(const pjrt::Program& program, const pjrt::CompileOptions& options) const {
  return state_->disk && state_->disk->load(id(program, options));
}

}  // namespace tpubridge::cache
