#include "tpubridge/distributed/job.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Flags.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <thread>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/cache/at_exit.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/distributed/check_in.h"
#include "tpubridge/distributed/detached.h"
#include "tpubridge/distributed/exchange.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"

C10_DECLARE_int(caffe2_log_level);

namespace tpubridge::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kMargin{5000};  // beyond join_timeout: by then the store has said that it is over
constexpr milliseconds kLeaving{60'000}, kSilent{4000};

std::unique_ptr<Job>& the_job() {
  static auto* job = new std::unique_ptr<Job>;  // threads of Gloo may outlive everything
  return *job;
}
std::mutex& of_job() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

at::Tensor new_token(c10::DeviceIndex device) {
  const c10::InferenceMode no(false);
  return at::zeros({1}, at::TensorOptions(at::kInt).device(at::kPrivateUse1, device));
}

// A store whose process is stopped answers nothing, and its library waits for that without end.
template <class T>
void check_answers(const std::future<T>& made, const Place& place, milliseconds limit) {
  if (made.wait_for(limit + kMargin) == std::future_status::ready) return;
  throw TPUDistributedError(
      "the store of the job, at " + place.host + ":" + std::to_string(place.port) +
          ", has not answered while its processes gathered",
      {{"rank", std::to_string(place.rank)}, {"launcher", place.launcher}},
      "Look at what became of rank 0, or of the launcher where that serves the store: it may be stopped.",
      Code::deadline_exceeded);
}

}  // namespace

Job::Job(const Place& place, const Options& options) : place_(place), options_(options) {
  const auto limit = options.join_timeout;
  auto opened = detached([place, limit] { return open_store(place, limit); });
  check_answers(opened, place, limit);
  store_ = c10::make_intrusive<c10d::PrefixStore>("tpubridge/" + place.job, opened.get());
  auto gathered = detached([place, limit, store = store_, seated = seated_] {
    check_in(store, place, limit, *seated);
    return store->clone();
  });
  check_answers(gathered, place, limit);
  try {
    watch_ = std::make_shared<Watch>(gathered.get(), place, options.silence);
  } catch (const TPUDistributedError& e) {
    leave(e.message());
    throw;
  } catch (const std::exception& e) {
    throw TPUDistributedError("the store of the job was lost while its processes gathered: rank 0 has ended",
                              {{"rank", std::to_string(place.rank)}, {"error", words_of(e)}},
                              "Look at what rank 0 wrote.", Code::unavailable);
  }
}

// The store ends with the process that serves it: the others are to have read there what they must know.
void Job::serve_until(milliseconds most, const std::function<bool(const std::string& rank)>& knows) {
  if (place_.rank != 0 || !place_.serves) return;
  for (const auto begin = steady_clock::now(); steady_clock::now() - begin < most;) {
    bool all = true;
    for (int64_t r = 1; r < place_.world && all; ++r) all = knows(std::to_string(r));
    if (all) return;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

// Who has died is never told.
bool Job::is_silent(const std::string& rank, Beat& last) {
  const auto now = steady_clock::now();
  const std::string key = "beat/" + rank, text = store_->check({key}) ? to_text(store_->get(key)) : "";
  if (!last.at || last.text != text) last = {text, now};
  return now - *last.at > kSilent;
}

// Not without a word: the others read why, and the one that serves the store gives them the time for it.
void Job::leave(const std::string& why) {
  try {
    (void)store_->compareSet("refused", {}, to_bytes(why));
    if (!*seated_) return;  // another process has this rank, and is to read it, too
    store_->set("left/" + std::to_string(place_.rank), to_bytes("1"));
    serve_until(milliseconds(3000), [&](const std::string& r) {
      return store_->check({"left/" + r}) || !store_->check({"card/" + r});
    });
  } catch (const std::exception&) {  // then there is nobody to be told
  }
}

Group& Job::group(const std::string& name) {
  const std::lock_guard lock(groups_);
  const auto at = by_name_.find(name);
  if (at == by_name_.end())
    throw TPUDistributedError("there is no group '" + name + "' in this process", {},
                              "Call distributed::init() before the program runs.");
  return *at->second;
}

// What c10d throws when somebody dies meanwhile becomes an error of ours, with what the watch knows.
template <class F>
auto Job::connecting(F make) {
  try {
    return make();
  } catch (const TPUDistributedError&) {
    throw;
  } catch (const std::exception& e) {
    throw TPUDistributedError(
        watch_->failure().value_or("the processes cannot connect to each other: " + words_of(e)),
        {{"rank", std::to_string(place_.rank)}}, "Start the job again.", Code::unavailable);
  }
}

Job::Chain& Job::chain(c10::DeviceIndex device) {
  if (const auto at = chains_.find(device); at != chains_.end()) return at->second;
  // Not the device's number: each process of a host may use another one.
  const std::string name = "world@" + std::to_string(chains_.size());
  auto group =
      connecting([&] { return std::make_unique<Group>(name, place_, store_, watch_, options_.timeout); });
  {
    const std::lock_guard lock(groups_);
    by_name_[name] = std::move(group);
  }
  return chains_[device] = {name, new_token(device), exec::openings()};
}

at::Tensor Job::exchange(const at::Tensor& x, const std::string& kind, const std::string& reduction,
                         int64_t other, int64_t tag) {
  std::unique_lock lock(order_);
  if (over_) throw TPUDistributedError("distributed::shutdown() was called", {{"collective", kind}});
  if (const auto why = watch_->failure())
    throw TPUDistributedError(*why, {{"collective", kind}, {"rank", std::to_string(place_.rank)}},
                              "Start the job again, from the last checkpoint.", Code::unavailable);
  Chain& c = chain(x.device().index());
  if (c.openings != exec::openings()) {  // a token of before is lost with all else
    c.token = new_token(x.device().index());
    group(c.group).token_is_new();
    c.openings = exec::openings();
  }
  // A gradient may keep the token; that it changes is no concern of that one.
  auto out = exchange_op().call({x, c.token.variable_data(), c.group, kind, reduction, other, tag});
  const at::NoGradGuard no_grad;
  c.token.copy_(out[1]);
  const at::Tensor token = c.token;
  lock.unlock();
  // Nobody reads what sending gives: it is done now, or at the end of the compiled step.
  if (kind == "send" && !device::recording()) (void)token.cpu();
  return out[0];
}

BackendPtr Job::host_backend() {
  return connecting([&] {
    const StorePtr own = c10::make_intrusive<c10d::PrefixStore>("host", store_->clone());
    return make_gloo(own, place_, own_address(place_), options_.timeout);
  });
}

c10::DeviceIndex Job::first_device() {
  const std::lock_guard lock(order_);
  for (const auto& [device, c] : chains_)
    if (c.group == "world@0") return device;
  return 0;
}

StorePtr Job::own_store() {
  return connecting([&] { return store_->clone(); });
}

uint64_t Job::asked() {
  const std::lock_guard lock(groups_);
  uint64_t out = 0;
  for (const auto& [name, group] : by_name_) out += group->asked();
  return out;
}

// Others may wait for what was traced here and nobody has read. On another thread: at exit the thread-local
// objects of this one are gone. From now on no chain changes.
void Job::finish() {
  const auto until = steady_clock::now() + kLeaving;
  for (auto& [device, c] : chains_) {
    if (c.openings != exec::openings()) continue;
    group(c.group).leave_by(until);
    auto done = detached([&c] {
      const exec::Lock lock(exec::mutex());
      if (const auto& token = device::storage_of(c.token).slot.value())
        exec::materialise_only({token}, "distributed::shutdown()");
    });
    // What ends the process may have been called by a program, whose lock it then has.
    if (done.wait_for(kLeaving + kMargin) == std::future_status::ready) done.get();
    group(c.group).leave_by(steady_clock::time_point::max());
  }
}

void Job::shutdown() {
  if (::getpid() != process_) return;  // a forked child is no rank
  {
    const std::lock_guard lock(order_);
    if (std::exchange(over_, true)) return;
  }
  try {
    if (!watch_->failure()) finish();
    if (!watch_->failure())
      for (auto& [name, group] : by_name_) group->flush();
  } catch (const std::exception& e) {
    log::warn("distributed.shutdown", {{"rank", std::to_string(place_.rank)}, {"problem", words_of(e)}});
  }
  try {
    watch_->stop();
    if (watch_->failure())
      serve_until(
          milliseconds(15'000), [&, last = std::map<std::string, Beat>()](const std::string& r) mutable {
            return store_->check({"done/" + r}) || store_->check({"knows/" + r}) || is_silent(r, last[r]);
          });
    else
      serve_until(milliseconds(10'000), [&](const std::string& r) { return store_->check({"done/" + r}); });
  } catch (const std::exception& e) {
    log::warn("distributed.shutdown", {{"rank", std::to_string(place_.rank)}, {"problem", words_of(e)}});
  }
}

Job& job() {
  const std::lock_guard lock(of_job());
  if (!the_job())
    throw ArgumentError("this process is part of no job", {}, "Call tpubridge::distributed::init() first.");
  return *the_job();
}

const Place& init(const Options& options) {
  const std::lock_guard lock(of_job());
  // c10d logs every connection that breaks, with a backtrace. What it means is in the errors of ours.
  FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, 3);
  if (the_job())
    throw ArgumentError("distributed::init() was called before", {}, "Once in a process is enough.");
  the_job() = std::make_unique<Job>(options.place ? *options.place : place_of_this_process(), options);
  cache::first_at_exit(shutdown);
  return the_job()->place();
}

bool is_initialized() {
  const std::lock_guard lock(of_job());
  return the_job() != nullptr;
}
int64_t rank() { return is_initialized() ? job().place().rank : 0; }
int64_t world_size() { return is_initialized() ? job().place().world : 1; }
void shutdown() {
  if (is_initialized()) job().shutdown();
}

}  // namespace tpubridge::distributed
