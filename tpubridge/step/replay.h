// Running a recorded call again.
#pragma once

#include <list>
#include <unordered_set>

#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/loop.h"
#include "tpubridge/step/record.h"

namespace tpubridge::step {

// Work that waits for memory: the next one is asked for while this one is done.
inline constexpr size_t kAhead = 6;
// Programs of many calls, one for each number of them: so many are kept, those that were used last.
inline constexpr size_t kWindows = 8;

// What calls take besides numbers of the host, at one moment: who changes it in the middle of many calls
// comes too early, for all of them run at once; replay_many.cc.
struct Taken {
  struct Data {
    uint64_t node = 0;  // by whom it was made: ids are not used again
    uint32_t index = 0;
    uint64_t version = 0;  // of the data: other steps put theirs in its place
    bool operator==(const Data&) const = default;
  };
  struct Generator {
    Draw next;
    uint64_t settings;  // how often somebody has set it
    bool operator==(const Generator&) const = default;
  };
  std::vector<Data> data;  // of tensors that it captures, of gradients, of the arguments
  std::vector<Generator> generators;
  std::vector<at::Tensor> host;  // elements that it copies to the device
  bool holds = false;            // each captured tensor is what it was when recorded
};
// What changed, for people; empty where nothing did.
[[nodiscard]] std::string_view changes(const Taken& before, const Taken& now);

class Replay {
 public:
  // `runner`: of a program over several devices; it must outlive this.
  explicit Replay(Recorded recorded, Runner* runner = nullptr);

  // Empty where something it stands on is gone or is not what it was: the call must be traced again. Where
  // it throws, everything is as it was before.
  std::optional<std::vector<at::Tensor>> run(const std::vector<at::Tensor>& arguments);
  // So many calls as one program, a loop over them. Arguments of the device, and of the host, have one more
  // dimension, a row for each call; so have the results. `enter` is called before each but the first (null:
  // nothing happens), in order and without exec's mutex; what it throws ends it all before anything happened,
  // and where it gives false, that call is no replay. Empty where the loop cannot be shown to be so many
  // replays: nothing has happened but for what `enter` did.
  using Enter = std::function<bool(int64_t)>;
  std::optional<std::vector<at::Tensor>> run_many(const std::vector<at::Tensor>& stacks, int64_t rounds,
                                                  const Enter& enter);
  // After that, where there is an `enter`: for how many calls, from the first one on, the numbers are known.
  // Each of them can be done by itself as if nothing had been entered since; empty where it cannot be after
  // all.
  [[nodiscard]] size_t rounds() const { return rounds_.size(); }
  std::optional<std::vector<at::Tensor>> run_round(const std::vector<at::Tensor>& arguments, size_t round);
  // … and what `enter` changed though a call before it takes it; mostly empty.
  [[nodiscard]] std::string_view changed() const { return changed_; }
  [[nodiscard]] Taken taken(const std::vector<at::Tensor>& stacks) const;
  [[nodiscard]] std::string_view why_not() const { return why_not_; }  // when it was empty
  [[nodiscard]] Recorded take() && { return std::move(r_); }

 private:
  // What was seen of a captured source: while its storage holds the same node, all of it still holds.
  struct Known {
    Storage* storage = nullptr;
    const trace::Geometry* geometry = nullptr;
    const trace::Node* node = nullptr;
    uint64_t id = 0;  // of the node: addresses are used again
    uint32_t index = 0;
    exec::BufferData* data = nullptr;
    std::weak_ptr<trace::DeviceData> owner;
    bool single = false;    // the node gives this value alone
    bool private_ = false;  // in this call: nobody else can see the value
  };

  bool bind_computed(const std::vector<at::Tensor>& arguments);
  std::string_view bind(const std::vector<at::Tensor>& arguments);
  bool bind_captured(size_t source);
  bool bind_gradients(const std::vector<at::Tensor>& arguments);
  bool bind_gradient(size_t slot, const std::vector<at::Tensor>& arguments);
  bool bind_other(size_t source, const std::vector<at::Tensor>& arguments);
  bool bind_numbers(const std::vector<at::Tensor>& arguments, int64_t round = 0);
  [[nodiscard]] std::string_view surroundings();
  bool check(size_t source);
  void pack_numbers();
  [[nodiscard]] const trace::Value& value_of(size_t source) const;
  [[nodiscard]] static exec::BufferData* own_buffer(const Storage& s);
  [[nodiscard]] int64_t find_thrown_away();
  void take_inputs(const std::vector<bool>& donated, bool over);
  void execute();
  std::vector<pjrt::Buffer> execute_everywhere(const exec::Compiled& compiled);
  std::vector<pjrt::Buffer> execute_over(const exec::Compiled& compiled);
  [[nodiscard]] bool lies_as_compiled() const;
  void keep_everywhere();
  void put(const std::vector<at::Tensor>& arguments);
  void put_other(size_t target, const std::vector<at::Tensor>& arguments);
  [[nodiscard]] trace::Value result(const Target& t);
  bool swap_in(const Target& t, Storage& s);
  void replace(exec::BufferData& data, size_t root);
  Storage* target_storage(size_t target, const std::vector<at::Tensor>& arguments);
  void make_fresh();
  void put_gradients(const std::vector<at::Tensor>& arguments, int64_t rounds);
  void commit(const std::vector<at::Tensor>& arguments, int64_t rounds = 1);
  [[nodiscard]] pjrt::Buffer& output(size_t root) {
    return outputs_[window_ ? window_->place_of[root] : root];
  }
  void forget_call();
  at::Tensor make(const Given& g, const std::vector<at::Tensor>& arguments);

  struct Pack {
    std::vector<std::byte> bytes;       // what the buffer holds
    std::vector<pjrt::Buffer> buffers;  // one for each device
  };
  // Many calls in one program; replay_many.cc.
  struct Window {
    int64_t rounds = 0;
    lower::Loop loop;
    std::shared_ptr<const exec::Compiled> compiled;
    std::string failed;                 // why it could not be compiled
    std::vector<bool> donated;          // per leaf
    std::vector<size_t> place_of;       // per root: among the results, where its last value is one
    std::vector<size_t> other_targets;  // but for those that are only returned
    std::vector<Pack> packs;
  };
  [[nodiscard]] std::string_view cannot_loop() const;
  [[nodiscard]] std::string_view plan(lower::Loop& loop) const;
  [[nodiscard]] Window& window(int64_t rounds);
  void compile_window(Window& w) const;
  bool bind_stack(size_t source, const std::vector<at::Tensor>& stacks);
  bool bind_rounds(const std::vector<at::Tensor>& stacks, const Enter& enter);
  // False where what happens before a call makes it no replay, or comes too early.
  bool enter_round(const std::vector<at::Tensor>& stacks, int64_t round, const Enter& enter,
                   const Taken& began);
  bool execute_window();
  [[nodiscard]] std::vector<at::Tensor> rows_of_results();

  Recorded r_;
  Runner* runner_;
  uint64_t opened_ = exec::openings();  // the program is of the client that was open then
  std::vector<Pack> packs_;
  std::vector<trace::Number> numbers_;  // as they were last sent
  bool packed_ = false, numbers_vary_ = false;
  std::vector<bool> donated_;              // per leaf: the program takes it over
  std::vector<bool> spare_;                // per leaf: the call overwrites it
  std::vector<size_t> uses_;               // targets per root
  std::vector<Known> known_;               // per source
  std::vector<size_t> captured_, others_;  // sources
  std::vector<size_t> slots_;              // that the call has to do with
  std::vector<double> of_optimizers_;
  std::vector<int64_t> steps_of_call_;  // per step of an optimizer: how many of them a call takes
  size_t numbers_of_optimizers_ = 0;
  // A tensor from outside, in little room: hundreds are looked at in every call.
  struct Check {
    c10::TensorImpl* tensor;
    const c10::StorageImpl* storage;
    uint64_t keys, hooks;
    int64_t offset;
    c10::ScalarType dtype;
    bool requires_grad;
    uint16_t dims;
    uint32_t written;
  };
  std::vector<Check> checks_;
  std::vector<int64_t> check_dims_;  // sizes and strides of each, one after the other
  [[nodiscard]] bool holds_captured() const;
  struct Fixed {
    size_t number;
    double value;
  };
  std::vector<Fixed> fixed_;  // numbers of the optimizers that could not be told from constants
  struct Gradient {
    c10::TensorImpl* variable = nullptr;
    Storage* storage = nullptr;       // of the gradient that was checked last
    WeakStorage held = no_storage();  // its address is not used again
  };
  std::vector<Gradient> gradients_;   // per slot
  std::vector<size_t> new_storages_;  // slots whose gradient is another than at the call before
  // State: a source's storage gets the new buffer in the place of the old one.
  struct InPlace {
    size_t source, root;
  };
  std::vector<InPlace> in_place_;
  std::vector<size_t> in_place_targets_;  // of the same
  std::vector<size_t> other_targets_;
  std::unordered_set<const Storage*> captured_storages_;
  std::vector<size_t> given_targets_;  // per target: how many gradients and results look at it
  std::list<Window> windows_;          // the last used first
  // A call whose numbers are known before it is done.
  struct Round {
    std::vector<trace::Number> numbers;
    std::vector<std::pair<at::Generator, Draw>> drawn;  // where it leaves the generators
  };
  std::vector<Round> rounds_;
  std::string_view changed_;
  // Of the call that runs at the moment.
  Window* window_ = nullptr;          // it is many calls
  const Round* round_ = nullptr;      // it is one of those
  std::vector<Storage*> storages_;    // per source; null for constants
  std::vector<trace::Value> values_;  // per source that has no storage
  std::string_view why_not_;
  std::vector<trace::Value> pending_;  // of what it takes: to be computed first
  std::vector<const pjrt::Buffer*> inputs_;
  std::vector<int64_t> keep_;
  std::vector<std::pair<at::Generator, Draw>> drawn_;  // where generators will stand
  std::vector<Storage*> thrown_away_;                  // gradients that nobody else holds
  std::vector<pjrt::Buffer> outputs_;
  std::vector<exec::Spread> rest_;     // of each, on other devices, where there is any
  std::vector<trace::Value> results_;  // per root, where made already
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> fresh_;
};

}  // namespace tpubridge::step
