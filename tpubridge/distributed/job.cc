#include "tpubridge/distributed/job.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Flags.h>
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/distributed/exchange.h"
#include "tpubridge/exec/runtime.h"

C10_DECLARE_int(caffe2_log_level);

namespace tpubridge::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

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

std::string some(const std::vector<int64_t>& ranks) {
  std::string out;
  for (size_t i = 0; i < ranks.size() && i < 8; ++i) out += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > 8 ? out + ", …" : out;
}

}  // namespace

Job::Job(const Place& place, const Options& options) : place_(place), options_(options) {
  const StorePtr root = open_store(place, options.join_timeout);
  store_ = c10::make_intrusive<c10d::PrefixStore>("tpubridge/" + place.job, root);
  try {
    check_in();
    watch_ = std::make_shared<Watch>(store_, place, options.silence);
  } catch (const TPUDistributedError& e) {
    leave(e.message());
    throw;
  } catch (const std::exception& e) {
    throw TPUDistributedError("the store of the job was lost while its processes gathered: rank 0 has ended",
                              {{"rank", std::to_string(place.rank)}, {"error", words_of(e)}},
                              "Look at what rank 0 wrote.", Code::unavailable);
  }
}

// All must come, each once, and mean the same job.
void Job::check_in() {
  const std::string me = std::to_string(place_.rank);
  const std::string card = std::to_string(place_.world) + " processes, torch " + TORCH_VERSION;
  if (store_->add("seat/" + me, 1) != 1)
    throw TPUDistributedError("two processes say that they are rank " + me, {{"launcher", place_.launcher}},
                              "Give every process a rank of its own, and every job a port of its own "
                              "(TPUBRIDGE_COORDINATOR=host:port).",
                              Code::invalid_argument);
  seated_ = true;
  store_->set("card/" + me, to_bytes(card));
  std::vector<int64_t> missing;
  for (int64_t r = 0; r < place_.world; ++r)
    if (r != place_.rank) missing.push_back(r);
  const auto begin = steady_clock::now();
  for (bool said = false; !missing.empty();) {
    std::erase_if(missing, [&](int64_t r) {
      const std::string key = "card/" + std::to_string(r);
      if (!store_->check({key})) return false;
      if (const std::string other = to_text(store_->get(key)); other != card)
        throw TPUDistributedError(
            "rank " + me + " and rank " + std::to_string(r) + " are not of one job",
            {{"rank " + me, card}, {"rank " + std::to_string(r), other}},
            "Start all of them with the same number of processes and the same libraries.",
            Code::invalid_argument);
      return true;
    });
    if (missing.empty()) return;
    if (store_->check({"refused"}))
      throw TPUDistributedError(to_text(store_->get("refused")), {{"rank", me}},
                                "Another rank said so, and has ended.", Code::unavailable);
    const auto waited = steady_clock::now() - begin;
    if (waited > options_.join_timeout)
      throw TPUDistributedError(
          "not all processes have come: " + some(missing) + " of " + std::to_string(place_.world) +
              " are missing",
          {{"rank", me}, {"launcher", place_.launcher}},
          "Look at what these ranks wrote. Options::join_timeout is how long is waited for them.",
          Code::deadline_exceeded);
    if (waited > milliseconds(10'000) && !said) {
      said = true;
      log::warn("distributed.waiting", {{"rank", me}, {"for", some(missing)}});
    }
    std::this_thread::sleep_for(milliseconds(waited < milliseconds(1000) ? 5 : 100));
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

// Not without a word: the others read why, and the one that serves the store gives them the time for it.
void Job::leave(const std::string& why) {
  try {
    (void)store_->compareSet("refused", {}, to_bytes(why));
    if (!seated_) return;  // another process has this rank, and is to read it, too
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
  const std::string name = "world@" + std::to_string(device);
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
  const std::lock_guard lock(order_);
  if (over_) throw TPUDistributedError("distributed::shutdown() was called", {{"collective", kind}});
  if (const auto why = watch_->failure())
    throw TPUDistributedError(*why, {{"collective", kind}, {"rank", std::to_string(place_.rank)}},
                              "Start the job again, from the last checkpoint.", Code::unavailable);
  Chain& c = chain(x.device().index());
  if (c.openings != exec::openings()) {  // a token of before is lost with all else
    c.token = new_token(x.device().index());
    c.openings = exec::openings();
  }
  // A gradient may keep the token; that it changes is no concern of that one.
  auto out = exchange_op().call({x, c.token.variable_data(), c.group, kind, reduction, other, tag});
  const at::NoGradGuard no_grad;
  c.token.copy_(out[1]);
  return out[0];
}

BackendPtr Job::host_backend() {
  return connecting([&] {
    const StorePtr own = c10::make_intrusive<c10d::PrefixStore>("host", store_->clone());
    return make_gloo(own, place_, own_address(place_), options_.timeout);
  });
}

uint64_t Job::asked() {
  const std::lock_guard lock(groups_);
  uint64_t out = 0;
  for (const auto& [name, group] : by_name_) out += group->asked();
  return out;
}

void Job::shutdown() {
  {
    const std::lock_guard lock(order_);
    if (std::exchange(over_, true)) return;
  }
  try {
    if (!watch_->failure())
      for (auto& [name, group] : by_name_) group->flush();
    watch_->stop();
    const bool failed = watch_->failure().has_value();
    serve_until(milliseconds(failed ? 3000 : 10'000), [&](const std::string& r) {
      return store_->check({"done/" + r}) || (failed && store_->check({"knows/" + r}));
    });
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
  std::atexit([] { shutdown(); });
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
