#include "tpubridge/distributed/watch.h"

#include <algorithm>

#include "tpubridge/base/log.h"
#include "tpubridge/base/text.h"
#include "tpubridge/distributed/no_pipe_signal.h"

namespace tpubridge::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kBeat{500}, kSlow{2000}, kBroken{3000}, kLongest{30'000};

std::string seconds_of(steady_clock::duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(d).count()) + " s";
}

bool is_message(const std::string& what) { return what.starts_with("send ") || what.starts_with("recv "); }

}  // namespace

Watch::Watch(const StorePtr& store, const Place& place, milliseconds silence)
    : store_(store), place_(place), silence_(silence) {
  store_->setTimeout(std::max(silence, milliseconds(5000)));
  if (place_.world > 1) thread_ = std::thread([this] { run(); });
}

Watch::~Watch() { stop(); }

void Watch::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (ends_) return;
    ends_ = true;
  }
  wake_.notify_all();
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  const bool over = wake_.wait_for(lock, kBroken, [&] { return over_; });
  lock.unlock();
  if (over)
    thread_.join();
  else
    thread_.detach();  // it waits for a store that is cut off; the job is never destroyed
}

void Watch::begin(const std::string& group, uint64_t number, const std::string& what) {
  const std::lock_guard lock(mutex_);
  doing_[group] = {number, what, steady_clock::now()};
}

void Watch::end(const std::string& group) {
  const std::lock_guard lock(mutex_);
  doing_.erase(group);
}

std::optional<std::string> Watch::failure() const {
  const std::lock_guard lock(mutex_);
  // Where the network is gone the thread waits for the store without end.
  if (failure_ || ends_ || place_.world == 1) return failure_;
  const auto now = steady_clock::now();
  // Where this process itself was stopped, the thread is given the time to find out that nothing is amiss.
  if (now - reached_ > silence_ && !suspected_) suspected_ = now;
  if (now - reached_ > silence_ + kBroken && now - *suspected_ > kBroken)
    failure_ = "the store of the job, at " + place_.host + ":" + std::to_string(place_.port) +
               ", has not answered for " + seconds_of(now - reached_);
  return failure_;
}

void Watch::fail(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = why;
  }
  wake_.notify_all();
  log::error("distributed.failed", {{"rank", std::to_string(place_.rank)}, {"why", why}});
}

std::string Watch::broken(const std::string& group, const std::string& words) {
  std::unique_lock lock(mutex_);
  if (!failure_ && !ends_ && thread_.joinable()) {
    asked_ = true;  // the thread looks at everybody
    wake_.notify_all();
    // It knows after kBroken; on a busy machine, or where the store's own library writes of its trouble
    // first, later.
    wake_.wait_for(lock, kLongest, [&] { return failure_ || looked_ || over_; });
  }
  if (failure_) return *failure_;
  const auto doing = doing_.find(group);
  const std::string what = doing == doing_.end() ? "" : " in " + doing->second.what;
  lock.unlock();
  fail("rank " + std::to_string(place_.rank) + " lost its connection" + what + ": " + words);
  return failure().value_or("");
}

std::optional<std::string> Watch::read(const std::string& key) {
  if (!store_->check({key})) return std::nullopt;
  return to_text(store_->get(key));
}

void Watch::beat() {
  const std::string n = std::to_string(++beats_);
  store_->set("beat/" + std::to_string(place_.rank), to_bytes(n));
  if (auto why = read("failed")) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(*why);
  }
}

void Watch::look_at(int64_t rank) {
  const auto beat = read("beat/" + std::to_string(rank)).value_or("");
  const auto now = steady_clock::now();
  auto [at, fresh] = heard_.try_emplace(rank, Heard{beat, now});
  if (!fresh && at->second.beat != beat) at->second = {beat, now};
}

// Collectives that take long: does somebody do another one in their place? Messages have no place among them:
// each is but of two ranks.
void Watch::compare() {
  std::map<std::string, Doing> slow;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [group, doing] : doing_)
      if (!is_message(doing.what) && steady_clock::now() - doing.since > kSlow) {
        slow[group] = doing;
        doing.published = true;
      }
  }
  for (const auto& [group, mine] : slow) {
    const std::string key = "doing/" + group + "/", number = std::to_string(mine.number);
    if (!mine.published) store_->set(key + std::to_string(place_.rank), to_bytes(number + " " + mine.what));
    for (int64_t r = 0; r < place_.world; ++r) {
      const auto other = r == place_.rank ? std::nullopt : read(key + std::to_string(r));
      if (!other) continue;
      const auto space = other->find(' ');
      if (other->substr(0, space) == number && other->substr(space + 1) != mine.what)
        return fail("the ranks do not do the same: collective " + number + " is " + other->substr(space + 1) +
                    " on rank " + std::to_string(r) + ", and " + mine.what + " on rank " +
                    std::to_string(place_.rank));
    }
  }
}

std::string Watch::silent_ranks() {
  std::string out;
  for (const auto& [rank, heard] : heard_) {
    if (steady_clock::now() - heard.at < kBroken - kBeat) continue;
    const bool done = read("done/" + std::to_string(rank)).has_value();
    out += (out.empty() ? "" : ", ") + std::string("rank ") + std::to_string(rank) +
           (done ? " has ended" : " is gone");
  }
  return out;
}

void Watch::reached() {
  const std::lock_guard lock(mutex_);
  reached_ = steady_clock::now();
  suspected_.reset();
}

void Watch::run() {
  const NoPipeSignal none;
  const int64_t next = (place_.rank + 1) % place_.world;
  std::optional<steady_clock::time_point> asked;
  bool told = false;
  for (;;) {
    try {
      beat();
      reached();
      look_at(next);
      const auto& heard = heard_.at(next);
      if (steady_clock::now() - heard.at > silence_ && !read("done/" + std::to_string(next)))
        fail("rank " + std::to_string(next) + " has not been heard of for " +
             seconds_of(steady_clock::now() - heard.at));
      compare();
      if (asked)
        for (int64_t r = 0; r < place_.world; ++r)
          if (r != place_.rank) look_at(r);
      if (asked && steady_clock::now() - *asked >= kBroken) {
        if (const auto who = silent_ranks(); !who.empty()) fail(who);
        const std::lock_guard lock(mutex_);
        looked_ = true;
        wake_.notify_all();
      }
      if (const auto why = failure(); why && !told) {
        told = true;
        store_->compareSet("failed", {}, to_bytes(*why));
        store_->set("knows/" + std::to_string(place_.rank), to_bytes("1"));
      }
    } catch (const std::exception& e) {
      std::unique_lock lock(mutex_);
      if (ends_) {
        over_ = true;
        return wake_.notify_all();
      }
      const bool long_ago = steady_clock::now() - reached_ > std::min(silence_, kBroken);
      lock.unlock();
      if (asked || long_ago)
        fail("the store of the job, at " + place_.host + ":" + std::to_string(place_.port) +
             ", cannot be reached any more" + (place_.serves ? ": rank 0 is gone" : ""));
      told = failure().has_value();  // nobody can be told
    }
    std::unique_lock lock(mutex_);
    if (asked_ && !asked) asked = steady_clock::now();
    if (failure_) wake_.notify_all();
    if (ends_) break;
    const auto before = steady_clock::now();
    wake_.wait_for(lock, kBeat, [&] { return ends_ || (failure_ && !told) || (asked_ && !asked); });
    if (ends_) break;
    // This process was stopped, or the whole machine was: so others may not have been heard of. That the
    // store is slow does not count, or a rank that is gone might never be found.
    if (const auto late = steady_clock::now() - before - kBeat; late > kSlow) {
      for (auto& [rank, heard] : heard_) heard.at += late;
      reached_ += late;
      if (asked) *asked += late;
    }
  }
  try {
    store_->set("done/" + std::to_string(place_.rank), to_bytes("1"));
  } catch (const std::exception&) {  // the store may have ended before
  }
  const std::lock_guard lock(mutex_);
  over_ = true;
  wake_.notify_all();
}

}  // namespace tpubridge::distributed
