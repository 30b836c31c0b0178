// The one job that this process is part of.
#pragma once

#include <ATen/core/Tensor.h>

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tpubridge/distributed/distributed.h"
#include "tpubridge/distributed/group.h"

namespace tpubridge::distributed {

class Job {
 public:
  Job(const Place& place, const Options& options);

  [[nodiscard]] const Place& place() const { return place_; }
  [[nodiscard]] Group& group(const std::string& name);  // that is there; from any thread

  // The collective of a device: joins its group, where this is the first one, and chains it to the one
  // before. Results as those of the op.
  [[nodiscard]] at::Tensor exchange(const at::Tensor& x, const std::string& kind,
                                    const std::string& reduction, int64_t other, int64_t tag);
  // Gloo for tensors of the host, apart from the groups; all ranks make it at the same time.
  [[nodiscard]] BackendPtr host_backend();
  [[nodiscard]] StorePtr own_store();  // a connection of its own to it
  // For what belongs to no device: that of the first collective. Each process of a host may use another one.
  [[nodiscard]] c10::DeviceIndex first_device();
  [[nodiscard]] uint64_t asked();
  void shutdown();

 private:
  template <class F>
  auto connecting(F make);
  void leave(const std::string& why);
  void finish();
  struct Beat {
    std::string text;
    std::optional<std::chrono::steady_clock::time_point> at = {};
  };
  [[nodiscard]] bool is_silent(const std::string& rank, Beat& last);
  void serve_until(std::chrono::milliseconds most, const std::function<bool(const std::string& rank)>& knows);
  struct Chain {
    std::string group;
    at::Tensor token;
    uint64_t openings = 0;  // of the device, when the token got its value
  };
  Chain& chain(c10::DeviceIndex device);

  const Place place_;
  const Options options_;
  StorePtr store_;
  std::shared_ptr<Watch> watch_;
  std::mutex order_;   // of what is traced
  std::mutex groups_;  // of the list
  std::map<std::string, std::unique_ptr<Group>> by_name_;
  std::map<c10::DeviceIndex, Chain> chains_;
  // This process has its rank, and no other one.
  const std::shared_ptr<std::atomic<bool>> seated_ = std::make_shared<std::atomic<bool>>(false);
  const pid_t process_ = ::getpid();
  bool over_ = false;
};

// Throws ArgumentError before init().
[[nodiscard]] Job& job();

}  // namespace tpubridge::distributed
