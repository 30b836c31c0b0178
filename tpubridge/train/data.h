// Where batches come from, and how they reach the device ahead of time.
//
// A DataSource gives batches in host memory, epoch after epoch, always in the same order for the same seed,
// and can say where it stands, so that training resumes with the batch that comes next.
#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

namespace tpubridge {

using Batch = std::vector<at::Tensor>;  // the first dimension is the batch's

class DataSource {
 public:
  virtual ~DataSource() = default;
  // Nothing at the end of an epoch; the call after it begins the next one. Called from one thread at a time,
  // but not always the same. Must not draw from torch's default generators: their state is training's.
  [[nodiscard]] virtual std::optional<Batch> next() = 0;
  [[nodiscard]] virtual nlohmann::json position() const = 0;  // of the batch that comes next
  virtual void seek(const nlohmann::json& position) = 0;      // throws ArgumentError for one that is not its
  [[nodiscard]] virtual int64_t batches_per_epoch() const { return 0; }  // 0: not known
};

// A batch and a part of it as the step takes them.
struct MicroBatch {
  Batch batch;
  double weight = 1;  // its part of the whole
};

struct Fetched {
  std::optional<Batch> host;  // nothing: the end of an epoch
  std::vector<MicroBatch> parts;
  nlohmann::json before, after;  // positions of this batch and of the next one
  [[nodiscard]] int64_t examples() const { return host && !host->empty() ? host->front().size(0) : 0; }
};

// Splits a batch along its first dimension into `parts` of sizes as equal as can be (fewer where it has fewer
// rows), on the device. Tensors whose first size is another go whole to each part.
[[nodiscard]] std::vector<MicroBatch> split(const Batch& batch, int64_t parts, const at::Device& device);

// Gets batches and copies them to the device on a thread of its own, at most `depth` ahead; without a depth
// kMost, or as many as kBytes hold, 2 at least. What goes wrong there is thrown by the next() that would have
// given the batch.
class Prefetcher {
 public:
  static constexpr size_t kMost = 16;
  static constexpr size_t kBytes = size_t{64} << 20;

  Prefetcher(DataSource& source, at::Device device, std::optional<size_t> depth = {}, int64_t parts = 1);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  [[nodiscard]] Fetched next();
  // From now on batches come in so many parts. Those that wait give up their memory on the device and are
  // copied anew when they are asked for; with `depth` 0 none is copied ahead any more.
  void set_parts(int64_t parts, size_t depth);

 private:
  void run();
  [[nodiscard]] bool room() const;
  void wake();

  DataSource& source_;
  const at::Device device_;
  std::mutex mutex_;
  std::condition_variable filler_, filled_;
  size_t depth_;
  bool by_size_;  // the depth is found by the size of the batches
  int64_t parts_;
  int64_t version_ = 0;  // of depth and parts
  struct Waiting {
    Fetched batch;
    int64_t version;
    std::exception_ptr error;
  };
  std::deque<Waiting> queue_;
  int64_t wanted_ = 0;  // how many next() are waiting
  bool stop_ = false, failed_ = false, asleep_ = false;
  std::thread thread_;
};

}  // namespace tpubridge
