// What one call of a compiled step touches, seen from inside the device: which storages it found and what
// they held, which it wrote, which tensors its ops were given, what it took from the host, which random
// numbers it drew.
//
// A recording belongs to a call, not to a thread: it travels to the threads of backward with libtorch's own
// thread-local state, and ops of other threads do not see it. All members are used under exec's mutex.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <functional>
#include <unordered_map>
#include <vector>

#include "tpubridge/device/generator.h"
#include "tpubridge/device/host_origin.h"
#include "tpubridge/device/host_reads.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/device/tensor_facts.h"

namespace torch::optim {
class Optimizer;
}

namespace tpubridge::device {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
[[nodiscard]] WeakStorage weak(c10::StorageImpl& s);
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
  // A tensor that an op of the call was given, as it was then.
  struct Seen {
    WeakTensor tensor;
    TensorFacts facts;
    uint32_t version;
  };
  // A tensor of the host whose elements became data of the trace: expanded to these sizes, as this type.
  struct Upload {
    at::Tensor host;
    std::vector<int64_t> sizes;
    c10::ScalarType dtype;
    trace::Value leaf;
  };
  // A draw, and the numbers that hold it: several where it was repeated.
  struct Drawn {
    at::Generator generator;
    int64_t elements;
    Draw at;
    std::vector<std::pair<trace::Value, trace::Value>> numbers;  // seed, offset
  };
  // A number of the host that a replayed call asks for again: by a function, or from a tensor of one element.
  struct Fed {
    trace::Value number;
    std::function<double()> ask;
    at::Tensor host = {};
  };
  // What decides about the ops besides tensors: a replayed call asks again, and another answer is traced.
  struct Watched {
    std::function<uint64_t()> ask;
    uint64_t answer;
  };

  // `notes_zeros`: see found_zeros().
  explicit Recording(HostReads policy, bool notes_zeros = false);

  void touch(Storage& s);         // before every read and write
  void see(const at::Tensor& t);  // an op is given it
  void upload(const at::Tensor& host, c10::IntArrayRef sizes, c10::ScalarType dtype,
              const trace::Value& leaf);
  void draw(const at::Generator& generator, int64_t elements, Draw at, trace::Value seed,
            trace::Value offset);
  void check_generators();  // when the call ends: notes trouble where one was set meanwhile
  void feed(trace::Value number, std::function<double()> ask) {
    fed.push_back({std::move(number), std::move(ask)});
  }
  void feed(trace::Value number,
            const at::Tensor& host);  // an element of the host; literals stay as they are
  void watch(std::function<uint64_t()> ask) {
    const uint64_t answer = ask();
    watched.push_back({std::move(ask), answer});
  }
  // A number of the host became an input of the trace, and nothing tells where it comes from: whoever
  // recognises it may set it before anything is computed.
  std::function<void(const trace::Value& number)> number_made = [](const trace::Value&) {};
  // Whether an optimizer steps at the moment that is followed.
  std::function<bool()> is_followed = [] { return false; };
  // A value is wanted on the host in the middle of the call: throws UnsupportedError, or notes it. True: the
  // value is to be computed on the side.
  bool host_read(std::string_view what);
  void note_trouble(std::string_view what);  // the first counts; with the place in the caller's code

  // Puts every storage and generator back to what it was when the call began, and does what on_undo() was
  // given, the latest first.
  void undo();
  void on_undo(std::function<void()> f) { undo_.push_back(std::move(f)); }
  // State that the call made as zeros and then wrote to (an optimizer's, at its first step), becomes what it
  // will be at the next call: data that was there before. So the first call's program serves the later ones.
  // Not what is returned: that is new each time.
  void found_zeros(const std::vector<at::Tensor>& returned);

  std::vector<Found> found;  // in the order they were met
  std::vector<Seen> seen;    // the same
  std::vector<Upload> uploads;
  std::vector<Drawn> drawn;
  std::vector<Fed> fed;
  std::vector<Watched> watched;
  std::vector<at::Tensor> variables;  // whose gradients a kernel of ours took
  // Optimizers that tell their numbers themselves, each with what dies with it.
  std::vector<std::pair<torch::optim::Optimizer*, std::weak_ptr<bool>>> optimizers;
  HostOrigins host;              // where tensors of the host come from
  bool backward = false;         // a node of autograd ran
  bool knows_modes = false;      // of modules: train or eval
  bool other_optimizer = false;  // one of torch's stepped that is not followed
  std::string trouble;           // why this call cannot be replayed; empty: nothing known

  [[nodiscard]] const Found* found_of(const Storage* s) const;

 private:
  std::unordered_map<const Storage*, size_t> places_;
  std::unordered_map<const c10::TensorImpl*, size_t> seen_places_;
  std::unordered_map<const trace::Node*, std::vector<uint32_t>> values_;  // of `found`
  std::vector<std::function<void()>> undo_;
  HostReads policy_;
  bool notes_zeros_;
  // A generator as the call found it: the default ones when it began, others when it first drew from them.
  struct Met {
    at::Generator generator;
    Draw at;
    uint64_t settings;
    [[nodiscard]] bool was_set() const { return settings_of(generator) != settings; }
  };
  std::vector<Met> generators_;
  void undo_draws();
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
  uint64_t observer_;
};

}  // namespace tpubridge::device
