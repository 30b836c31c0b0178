// The thread that stays ahead of training.
#include "tpubridge/base/errors.h"
#include "tpubridge/device/bytes.h"
#include "tpubridge/device/torch.h"
#include "tpubridge/train/data.h"

namespace tpubridge {
namespace {

at::Tensor rows(const at::Tensor& t, int64_t from, int64_t count, const at::Device& device) {
  const at::Tensor part = t.narrow(0, from, count);
  // A view into a tensor of the device would differ in its offset from part to part, and so in its program.
  return part.device() == device && !device.is_cpu() ? part.clone() : part.to(device);
}

}  // namespace

std::vector<MicroBatch> split(const Batch& batch, int64_t parts, const at::Device& device) {
  const int64_t all = batch.empty() || batch[0].dim() == 0 ? 0 : batch[0].size(0);
  parts = std::clamp<int64_t>(parts, 1, std::max<int64_t>(all, 1));
  std::vector<MicroBatch> out(static_cast<size_t>(parts));
  int64_t from = 0;
  for (int64_t i = 0; i < parts; ++i) {
    auto& part = out[static_cast<size_t>(i)];
    const int64_t count = all / parts + (i < all % parts ? 1 : 0);
    if (parts > 1) part.weight = static_cast<double>(count) / static_cast<double>(all);
    for (const auto& t : batch) {
      const bool whole = parts == 1 || t.dim() == 0 || t.size(0) != all;
      part.batch.push_back(whole ? t.to(device) : rows(t, from, count, device));
    }
    from += count;
  }
  return out;
}

Prefetcher::Prefetcher(DataSource& source, at::Device device, std::optional<size_t> depth, int64_t parts)
    : source_(source),
      device_(device),
      depth_(depth.value_or(2)),
      by_size_(!depth),
      parts_(parts),
      thread_([this] { run(); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  filler_.notify_one();
  thread_.join();
}

// A sleeping thread is woken when half of its places are free, not for each: waking costs more than a batch
// of a small step. One that is awake fills them all.
bool Prefetcher::room() const {
  if (static_cast<int64_t>(queue_.size()) < wanted_) return true;
  return asleep_ ? 2 * queue_.size() < depth_ : queue_.size() < depth_;
}

void Prefetcher::wake() {
  if (asleep_ && room()) filler_.notify_one();
}

void Prefetcher::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (!stop_ && (failed_ || !room())) {
      asleep_ = true;
      filler_.wait(lock, [&] { return stop_ || (!failed_ && room()); });
      asleep_ = false;
    }
    if (stop_) return;
    const int64_t parts = parts_, version = version_;
    lock.unlock();
    Waiting w{{}, version, nullptr};
    try {
      w.batch.before = source_.position();
      w.batch.host = source_.next();
      w.batch.after = source_.position();
    } catch (...) {
      w.error = std::current_exception();
    }
    try {
      if (w.batch.host) w.batch.parts = split(*w.batch.host, parts, device_);
    } catch (const TPUOutOfMemoryError&) {
      w.version = -1;  // copied again when it is asked for, where somebody can make room
    } catch (...) {
      w.error = std::current_exception();
    }
    const auto bytes = static_cast<size_t>(w.batch.host ? bytes_of(*w.batch.host) : 0);
    lock.lock();
    if (by_size_ && bytes > 0) depth_ = std::clamp<size_t>(kBytes / bytes, 2, kMost);
    failed_ = w.error != nullptr;
    queue_.push_back(std::move(w));
    if (wanted_ > 0) filled_.notify_one();
  }
}

Fetched Prefetcher::next() {
  std::unique_lock lock(mutex_);
  if (queue_.empty()) {
    ++wanted_;
    wake();
    filled_.wait(lock, [&] { return !queue_.empty(); });
    --wanted_;
  }
  Waiting& front = queue_.front();
  if (front.error) {
    const auto error = front.error;
    queue_.pop_front();
    failed_ = false;  // the next call asks the source again
    wake();
    std::rethrow_exception(error);
  }
  if (front.version != version_ && front.batch.host) {
    front.batch.parts = split(*front.batch.host, parts_, device_);  // may throw: then it still waits
    front.version = version_;
  }
  Fetched out = std::move(front.batch);
  queue_.pop_front();
  wake();
  return out;
}

void Prefetcher::set_parts(int64_t parts, size_t depth) {
  const std::lock_guard lock(mutex_);
  parts_ = parts;
  depth_ = depth;
  by_size_ = false;
  ++version_;
  for (auto& w : queue_) w.batch.parts.clear();
}

}  // namespace tpubridge
