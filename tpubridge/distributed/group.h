// Processes that exchange values inside of compiled programs. A program calls exchange() on a thread of the
// plugin; the collectives of a group are chained by a token, so they come in the order of the trace.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>

#include "tpubridge/distributed/agreement.h"
#include "tpubridge/distributed/gloo.h"
#include "tpubridge/distributed/watch.h"
#include "tpubridge/pjrt/ffi.h"

namespace tpubridge::distributed {

class Group {
 public:
  // All ranks make it at the same time.
  Group(std::string name, const Place& place, const StorePtr& store, std::shared_ptr<Watch> watch,
        std::chrono::milliseconds timeout);

  // The text is why it failed; empty where it did not. Afterwards the group is of no use any more.
  [[nodiscard]] std::string exchange(const ffi::Call& call);

  // The next token begins at zero again, as the first one did.
  void token_is_new();
  // This process ends: collectives that wait longer than until then are given up, as by `timeout`.
  void leave_by(std::chrono::steady_clock::time_point until) { until_ = until; }
  // Waits until what was sent has arrived.
  void flush();

  [[nodiscard]] Watch& watch() const { return *watch_; }
  [[nodiscard]] int64_t rank() const { return place_.rank; }
  [[nodiscard]] int64_t world() const { return place_.world; }
  [[nodiscard]] uint64_t asked() const;  // how often the processes had to ask each other

 private:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  struct Request;
  void collective(const Request& r);
  void point_to_point(const Request& r);
  void ask(const Request& r);
  void wait(const WorkPtr& work);
  void wait(std::future<void>& done);
  void give_up_if_over(std::chrono::steady_clock::time_point begin);
  void look_after_sends();

  const std::string name_;
  const Place place_;
  const std::shared_ptr<Watch> watch_;
  const StorePtr store_;
  const std::chrono::milliseconds timeout_;
  const BackendPtr data_, questions_;  // apart: a question is never taken for a value
  mutable std::mutex mutex_;
  Agreement agreement_;
  uint64_t asked_ = 0;
  int32_t turn_ = 0;  // what the token of a collective is that did not run before
  std::atomic<std::chrono::steady_clock::time_point> until_ = std::chrono::steady_clock::time_point::max();
  std::deque<std::future<void>> sends_;
};

// Throws TPUDistributedError where such elements cannot be reduced so.
void check_reduction(DType dtype, const std::string& reduction);

}  // namespace tpubridge::distributed
