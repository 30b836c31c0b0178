// Whether the other processes of a job are still there, and do the same as this one.
//
// A thread tells the store twice a second that this process lives, and looks whether the next rank does. Who
// finds that something is wrong writes it into the store, where all others find it within a second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tpubridge/distributed/gloo.h"

namespace tpubridge::distributed {

class Watch {
 public:
  // `store`: a connection that nobody else uses. `silence`: for how long a process may not be heard of.
  Watch(const StorePtr& store, const Place& place, std::chrono::milliseconds silence);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // What is being done in a group: number and words of a collective, or of the question about one.
  void begin(const std::string& group, uint64_t number, const std::string& what);
  void end(const std::string& group);

  // Why the job cannot go on; nothing while it can.
  [[nodiscard]] std::optional<std::string> failure() const;
  // The first that is said stays, here and in the store.
  void fail(const std::string& why);
  // A connection broke: waits until it is known who is gone, some seconds at most, and fails.
  [[nodiscard]] std::string broken(const std::string& group, const std::string& words);

  // Says that this process ends as it should. Nothing is looked at any more.
  void stop();

 private:
  struct Doing {
    uint64_t number = 0;
    std::string what;
    std::chrono::steady_clock::time_point since;
    bool published = false;
  };
  void run();
  void reached();
  void beat();
  void look_at(int64_t rank);
  void compare();
  [[nodiscard]] std::string silent_ranks();
  [[nodiscard]] std::optional<std::string> read(const std::string& key);

  const StorePtr store_;  // the thread's own: one waits for the other
  const Place place_;
  const std::chrono::milliseconds silence_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  mutable std::optional<std::string> failure_;
  std::chrono::steady_clock::time_point reached_ = std::chrono::steady_clock::now();  // the store, last
  mutable std::optional<std::chrono::steady_clock::time_point> suspected_;  // since when it seems to be lost
  bool over_ = false;                                                       // the thread
  std::map<std::string, Doing> doing_;
  bool ends_ = false, asked_ = false, looked_ = false;  // at everybody, since it was asked
  uint64_t beats_ = 0;
  struct Heard {
    std::string beat;
    std::chrono::steady_clock::time_point at;
  };
  std::map<int64_t, Heard> heard_;
  std::thread thread_;
};

}  // namespace tpubridge::distributed
