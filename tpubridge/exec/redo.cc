#include "tpubridge/exec/redo.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/sized.h"

namespace tpubridge::exec {
namespace {

// The device works on a few programs ahead; what is longer ago has ended, or nobody has asked for it.
constexpr size_t kMost = 64;

BufferData& buffer_data(trace::DeviceData& data) { return static_cast<BufferData&>(data); }

class Record {
 public:
  Record(Given given, const std::vector<std::shared_ptr<trace::DeviceData>>& made, pjrt::Event ended)
      : given_(std::move(given)), made_(made.begin(), made.end()), ended_(std::move(ended)) {
    for (const auto& leaf : given_.leaves) {
      if (given_.may_take) buffer_data(*leaf.data).count_where_taken();
      ++buffer_data(*leaf.data).remembered;
      versions_.push_back(buffer_data(*leaf.data).version);
    }
  }
  ~Record() {
    for (const auto& leaf : given_.leaves) --buffer_data(*leaf.data).remembered;
  }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  [[nodiscard]] bool makes(const trace::DeviceData& data) const {
    return std::ranges::any_of(made_, [&](const auto& m) { return m.lock().get() == &data; });
  }
  // Whether it need not be remembered: all went well, or for another reason than memory it never will, or
  // nobody can ask for it. `wait`: also where it takes a while to know.
  [[nodiscard]] bool is_over(bool wait) {
    if (std::ranges::all_of(made_, [](const auto& m) { return m.expired(); })) return true;
    if (failed_ || (!wait && !ended_.ready())) return false;
    try {
      ended_.wait();
    } catch (const TPUOutOfMemoryError&) {
      failed_ = true;
      return false;
    } catch (const Error&) {  // whoever reads gets the same
    }
    return true;
  }
  [[nodiscard]] int64_t lost() const {
    int64_t n = 0;
    for (size_t i = 0; i < given_.leaves.size(); ++i) {
      const auto& leaf = buffer_data(*given_.leaves[i].data);
      n += leaf.as_it_is().deleted() || leaf.version != versions_[i];
    }
    return n;
  }
  // Nothing is donated: should it fail again, all is still there.
  void run() {
    const Compiled& compiled = given_.program->best();
    std::vector<pjrt::Buffer> larger;
    std::vector<const pjrt::Buffer*> arguments;
    if (compiled.sizing)
      arguments = sized_arguments(given_.leaves, *compiled.sizing, larger);
    else
      for (const auto& leaf : given_.leaves) arguments.push_back(&buffer_data(*leaf.data).buffer());
    for (const auto& pack : given_.packs) arguments.push_back(&pack);
    pjrt::ExecuteOptions options;
    options.not_donatable = compiled.donated;
    auto outputs = compiled.program->execute(arguments, options);
    outputs.at(0).wait();
    const std::unique_lock alone(reading());
    for (size_t i = 0; i < made_.size(); ++i)
      if (const auto data = made_[i].lock()) buffer_data(*data).mend(std::move(outputs[i]));
    ended_ = pjrt::Event();
    failed_ = false;
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  Given given_;
  std::vector<uint64_t> versions_;  // of the leaves: a compiled step may have put other values there
  std::vector<std::weak_ptr<trace::DeviceData>> made_;
  pjrt::Event ended_;
  bool failed_ = false;
};

std::atomic<size_t> count{0};  // of the records: programs that start ask for it

std::deque<std::unique_ptr<Record>>& records() {
  static auto* all = new std::deque<std::unique_ptr<Record>>;  // as the programs
  return *all;
}

[[noreturn]] void never(const TPUOutOfMemoryError& error, const std::string& why) {
  throw TPUOutOfMemoryError(
      error.message() + "; it was told when the program had begun, and " + why, error.details(),
      "Restore these tensors, from a checkpoint or by making them anew.", Code::data_loss);
}

}  // namespace

std::shared_mutex& reading() {
  static auto* m = new std::shared_mutex;
  return *m;
}

void remember_given(Given given, const std::vector<std::shared_ptr<trace::DeviceData>>& made) {
  if (runs_in_this_process() || made.empty()) return;
  auto record = std::make_unique<Record>(std::move(given), made, buffer_data(*made[0]).as_it_is().ready());
  if (record->is_over(/*wait=*/false)) return;  // small programs end at once
  auto& all = records();
  if (all.size() >= kMost) all.pop_front();
  all.push_back(std::move(record));
  count = all.size();
}

void forget_ended() {
  if (count.load(std::memory_order_relaxed) == 0) return;
  const Lock lock(mutex());
  bool running = false;  // programs end in the order of their start: the rest need not be asked
  std::erase_if(records(), [&](const auto& r) {
    if (running) return false;
    const bool over = r->is_over(/*wait=*/false);
    running = !over && !r->failed();
    return over;
  });
  count = records().size();
}

namespace {
std::atomic<std::thread::id> again_by;  // whose work it is
}
bool computing_again() { return again_by.load() == std::this_thread::get_id(); }

void compute_again(const trace::DeviceData& wanted, const TPUOutOfMemoryError& error) {
  const Lock lock(mutex());
  struct Working {
    Working() { again_by = std::this_thread::get_id(); }
    ~Working() { again_by = std::thread::id(); }
  } const working;
  auto& all = records();
  const auto of_wanted = std::ranges::find_if(all, [&](const auto& r) { return r->makes(wanted); });
  if (of_wanted == all.end())
    never(error,
          "what it was given is not known any more, or was changed by it: it cannot be computed again");
  const Record* const last = of_wanted->get();
  // In the order in which they ran: what failed first is what later ones are made of.
  for (size_t i = 0; i < all.size();) {
    Record& r = *all[i];
    const bool is_last = &r == last;
    if (r.is_over(/*wait=*/true)) {
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (const int64_t lost = r.lost(); lost > 0) {
      if (is_last)
        never(error, fmt::format("{} of its inputs had been given to it: they are lost, and what was to be "
                                 "computed from them",
                                 lost));
      ++i;
    } else {
      log::info("memory.computed_again", {{"cause", error.message()}});
      r.run();  // TPUOutOfMemoryError again: it stays as it is, and may be tried later
      ++i;
    }
    if (is_last) break;
  }
  count = all.size();
}

void forget_given() {
  const Lock lock(mutex());
  records().clear();
  count = 0;
}

}  // namespace tpubridge::exec
