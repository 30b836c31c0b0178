// What one call of a compiled step touches, seen from inside the device: which storages it found and what
// they held, which it wrote, what it copied from the host, which random numbers it drew.
//
// A recording belongs to a call, not to a thread: it travels to the threads of backward with libtorch's own
// thread-local state, and ops of other threads do not see it. All members are used under exec's mutex.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <functional>
#include <unordered_map>
#include <vector>

#include "tpubridge/device/generator.h"
#include "tpubridge/device/host_reads.h"
#include "tpubridge/device/storage.h"

namespace tpubridge::device {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
[[nodiscard]] WeakStorage weak(Storage& s);
[[nodiscard]] inline WeakStorage no_storage() { return WeakStorage(c10::intrusive_ptr<c10::StorageImpl>()); }

class Recording final : public c10::DebugInfoBase {
 public:
  // What a storage held when the call first touched it; no value: it was made by the call, or never written.
  // Then `zeros` is what it held next, where
  // that is zeros and the recording notes them.
  struct Found {
    WeakStorage storage;
    trace::Value value;
    std::shared_ptr<const trace::Geometry> geometry;
    size_t bytes;
    trace::Value zeros = {};
    std::shared_ptr<const trace::Geometry> zeros_geometry = {};
  };
  struct Upload {
    at::Tensor host;
    trace::Value leaf;
  };
  // A draw, and the numbers that hold it: several where it was repeated.
  struct Drawn {
    at::Generator generator;
    int64_t elements;
    Draw at;
    std::vector<std::pair<trace::Value, trace::Value>> numbers;  // seed, offset
  };
  // A number of the host that a replayed call asks for again.
  struct Fed {
    trace::Value number;
    std::function<double()> ask;
  };
  // What decides about the ops besides tensors: a replayed call asks again, and another answer is traced.
  struct Watched {
    std::function<uint64_t()> ask;
    uint64_t answer;
  };

  // `notes_zeros`: see found_zeros().
  explicit Recording(HostReads policy, bool notes_zeros = false)
      : policy_(policy), notes_zeros_(notes_zeros), start_(Draws::now()) {}

  void touch(Storage& s);  // before every read and write
  void upload(const at::Tensor& host, const trace::Value& leaf);
  void draw(const at::Generator& generator, int64_t elements, Draw at, trace::Value seed,
            trace::Value offset);
  void check_generators();  // when the call ends: notes trouble where one does not stand where draws left it
  void feed(trace::Value number, std::function<double()> ask) {
    fed.push_back({std::move(number), std::move(ask)});
  }
  void watch(std::function<uint64_t()> ask) {
    const uint64_t answer = ask();
    watched.push_back({std::move(ask), answer});
  }
  // A value is wanted on the host in the middle of the call: throws UnsupportedError, or notes it. True: the
  // value is to be computed on the side.
  bool host_read(std::string_view what);

  // Puts every storage and generator back to what it was when the call began.
  void undo();
  // State that the call made as zeros and then wrote to (an optimizer's, at its first step), becomes what it
  // will be at the next call: data that was there before. So the first call's program serves the later ones.
  // Not what is returned: that is new each time.
  void found_zeros(const std::vector<at::Tensor>& returned);

  std::vector<Found> found;  // in the order they were met
  std::vector<Upload> uploads;
  std::vector<Drawn> drawn;
  std::vector<Fed> fed;
  std::vector<Watched> watched;
  std::string trouble;  // why this call cannot be replayed; empty: nothing known

 private:
  std::unordered_map<Storage*, size_t> places_;
  HostReads policy_;
  bool notes_zeros_;
  Draws start_;  // the default generators when the call began
};

// What a kernel calls when it has recorded its node.
void after_op(int device);

// The recording that this thread works for; null almost always.
[[nodiscard]] Recording* recording();

// While it lives, ops of this thread and of the backward passes it starts belong to the recording.
class RecordingScope {
 public:
  explicit RecordingScope(std::shared_ptr<Recording> r);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  c10::DebugInfoGuard guard_;
};

}  // namespace tpubridge::device
