// Structured log records: an event and its fields, written as `event key=value …`.
//
// Quiet by default: warnings and errors go to stderr. TPUBRIDGE_LOG sets the least severe level that is
// written; an application may take the records itself with set_sink. All functions may be called from any
// thread. An event is a dotted name ("cache.miss"), never a sentence.
#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpubridge::log {

enum class Level { trace, debug, info, warn, error, off };
[[nodiscard]] std::string_view to_string(Level level);

using Field = std::pair<std::string_view, std::string>;

struct Record {
  Level level;
  std::string event;
  std::vector<std::pair<std::string, std::string>> fields;
  [[nodiscard]] std::string text() const;                       // event key=value key="two words"
  [[nodiscard]] std::string field(std::string_view key) const;  // empty where absent
};

namespace detail {
inline constexpr int kUnread = -1;
inline std::atomic<int> threshold{kUnread};  // a Level, or kUnread before TPUBRIDGE_LOG was read
int read_threshold();
}  // namespace detail

[[nodiscard]] inline Level level() {
  const int t = detail::threshold.load(std::memory_order_relaxed);
  return static_cast<Level>(t == detail::kUnread ? detail::read_threshold() : t);
}
// Whether a record of this level would be written: ask before building costly fields.
[[nodiscard]] inline bool enabled(Level l) { return l >= level() && l != Level::off; }
Level set_level(Level level);  // returns the old one

void write(Level level, std::string_view event, std::initializer_list<Field> fields = {});
inline void trace(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::trace, event, f);
}
inline void debug(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::debug, event, f);
}
inline void info(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::info, event, f);
}
inline void warn(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::warn, event, f);
}
inline void error(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::error, event, f);
}

// Where records go; an empty one means stderr. Calls come one at a time, and none comes after set_sink has
// replaced it. A sink must not throw; what it logs itself is dropped, or it would never end.
using Sink = std::function<void(const Record&)>;
Sink set_sink(Sink sink);  // returns the old one

// Takes all records of `level` and above while it lives, instead of the sink and level that were set.
class Capture {
 public:
  explicit Capture(Level level = Level::trace);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  [[nodiscard]] std::vector<Record> records() const;                        // so far, in order
  [[nodiscard]] std::vector<Record> records(std::string_view event) const;  // of this event alone

 private:
  struct State;
  std::shared_ptr<State> state_;
  Level old_level_;
  Sink old_sink_;
};

}  // namespace tpubridge::log
