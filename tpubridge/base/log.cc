#include "tpubridge/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"

namespace tpubridge::log {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info", "warn", "error", "off"};
thread_local bool inside_sink = false;

struct Output {
  // Recursive: a sink may replace itself from within its own call.
  std::recursive_mutex mutex;
  std::shared_ptr<const Sink> sink = std::make_shared<const Sink>();
  spdlog::logger to_stderr{"tpubridge", std::make_shared<spdlog::sinks::stderr_sink_mt>()};

  Output() {
    to_stderr.set_level(spdlog::level::trace);  // the threshold is ours
    to_stderr.set_pattern("%Y-%m-%d %H:%M:%S.%e %n %l: %v");
    to_stderr.flush_on(spdlog::level::trace);
  }
};

// Never destroyed: static destructors of others may still log.
Output& output() {
  static auto* const it = new Output;  // NOLINT(cppcoreguidelines-owning-memory)
  return *it;
}

spdlog::level::level_enum to_spdlog(Level level) {
  static constexpr std::array levels = {spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
                                        spdlog::level::warn,  spdlog::level::err,   spdlog::level::off};
  return levels[static_cast<size_t>(level)];
}

// A value that holds a space, a quote, an equals sign or a control character would not read back as one
// value.
bool plain(std::string_view value) {
  return !value.empty() && std::ranges::none_of(value, [](unsigned char c) {
    return c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f;
  });
}

}  // namespace

std::string_view to_string(Level level) { return kNames[static_cast<size_t>(level)]; }

std::string Record::text() const {
  std::string out = event;
  for (const auto& [key, value] : fields) out += ' ' + key + '=' + (plain(value) ? value : quote(value));
  return printable(out);
}

std::string Record::field(std::string_view key) const {
  for (const auto& [k, v] : fields)
    if (k == key) return v;
  return {};
}

int detail::read_threshold() {
  int found = static_cast<int>(Level::warn);
  std::string problem;
  try {
    const std::string name = env::choice("TPUBRIDGE_LOG");
    found = static_cast<int>(std::ranges::find(kNames, name) - kNames.begin());
  } catch (const TPUConfigurationError& e) {
    problem = e.what();  // a log call is no place to throw: the default holds, and the first record says why
  }
  int unread = kUnread;
  if (!threshold.compare_exchange_strong(unread, found)) return unread;
  if (!problem.empty()) warn("log.bad_level", {{"problem", problem}});
  return found;
}

Level set_level(Level level) {
  const Level old = log::level();
  detail::threshold.store(static_cast<int>(level), std::memory_order_relaxed);
  return old;
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  if (!enabled(level) || inside_sink) return;
  Record record{level, std::string(event), {}};
  for (const auto& [key, value] : fields) record.fields.emplace_back(key, value);

  Output& out = output();
  const std::lock_guard lock(out.mutex);
  const auto sink = out.sink;
  if (!*sink) {
    out.to_stderr.log(to_spdlog(level), spdlog::string_view_t(record.text()));
    return;
  }
  struct Inside {
    Inside() { inside_sink = true; }
    ~Inside() { inside_sink = false; }
  } const inside;
  (*sink)(record);
}

Sink set_sink(Sink sink) {
  Output& out = output();
  const std::lock_guard lock(out.mutex);
  Sink old = *out.sink;
  out.sink = std::make_shared<const Sink>(std::move(sink));
  return old;
}

struct Capture::State {
  mutable std::mutex mutex;
  std::vector<Record> records;
};

Capture::Capture(Level level) : state_(std::make_shared<State>()), old_level_(set_level(level)) {
  old_sink_ = set_sink([state = state_](const Record& record) {
    const std::lock_guard lock(state->mutex);
    state->records.push_back(record);
  });
}

Capture::~Capture() {
  set_sink(std::move(old_sink_));
  set_level(old_level_);
}

std::vector<Record> Capture::records() const {
  const std::lock_guard lock(state_->mutex);
  return state_->records;
}

std::vector<Record> Capture::records(std::string_view event) const {
  std::vector<Record> out = records();
  std::erase_if(out, [&](const Record& r) { return r.event != event; });
  return out;
}

}  // namespace tpubridge::log
