// The checkpoints of one training: a folder with one folder for each, step-000000100 and so on.
//
//   CheckpointStore store("runs/a", {.keep = 3});
//   store.save(100, data);          // hands the write to a thread; waits for the one before
//   store.wait();                   // what went wrong in the thread is thrown here, or by the next save
//   if (auto found = store.newest_good()) …
//
// Which is the newest is found by looking, not by a link that could be wrong. One process writes a folder at
// a time. No torch in it.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "tpubridge/train/checkpoint_folder.h"

namespace tpubridge {

inline constexpr int64_t kMaxStep = 1'000'000'000'000'000;  // a larger one was not counted

struct StoreOptions {
  size_t keep = 3;           // the newest ones; 0 keeps all
  bool asynchronous = true;  // false: save() returns when the checkpoint is on the disk
};

struct StoredCheckpoint {
  int64_t step = 0;
  Path path;
};
struct LoadedCheckpoint : StoredCheckpoint {
  CheckpointData data;
};

class CheckpointStore {
 public:
  explicit CheckpointStore(Path folder, StoreOptions options = {});
  ~CheckpointStore();  // waits; an error that nobody waited for is logged
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  // Replaces a checkpoint of the same step. The data is not copied: nobody may change it any more.
  void save(int64_t step, CheckpointData data);
  void wait();

  [[nodiscard]] const Path& folder() const { return folder_; }
  [[nodiscard]] Path path_of(int64_t step) const;
  // Oldest first, good or not. Throws where the folder is there and cannot be read.
  [[nodiscard]] std::vector<StoredCheckpoint> list() const;
  [[nodiscard]] std::optional<StoredCheckpoint> latest() const;
  // The newest that can be read whole; damaged ones are logged ("checkpoint.skipped") with the reason. Throws
  // where a newer one may be whole and cannot be read: who went on without it would write over it.
  [[nodiscard]] std::optional<LoadedCheckpoint> newest_good() const;

  // Takes the right to write in the folder, as the first save does. Throws where another process has it.
  void claim();
  [[nodiscard]] bool busy() const;  // one is being written: wait() would wait
  // Moves all checkpoints, good or not, into a new folder before-N beside them, whose path it gives.
  std::optional<Path> set_aside();

 private:
  struct Claim;
  void write(int64_t step, const CheckpointData& data);
  void drop_old(int64_t newest) const;

  Path folder_;
  StoreOptions options_;
  std::unique_ptr<Claim> claim_;  // from the first save on
  std::future<void> pending_;
};

}  // namespace tpubridge
