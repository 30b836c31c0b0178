// Lives as long as the process, like the registry.
#include "state.h"

#include <cstdlib>
#include <map>

#include "functions.h"

namespace fake {
namespace {

struct State {
  std::mutex lock;
  Settings settings;
  std::optional<Failure> environment_error;
  std::map<std::string, int64_t, std::less<>> fired;
  std::vector<std::weak_ptr<Gate>> gates;

  State() { read_environment(); }
  void read_environment() {
    settings = Settings();
    environment_error.reset();
    const char* text = std::getenv("FAKE_PJRT");
    if (!text) return;
    try {
      parse(text, settings);
    } catch (const Failure& failure) {
      environment_error = failure;
    }
  }
};
State& state() {
  static auto* const s = new State;
  return *s;
}

}  // namespace

Settings settings() {
  const std::lock_guard guard(state().lock);
  return state().settings;
}

void configure(std::string_view text) {
  State& s = state();
  Settings trial;
  const Orders orders = parse(text, trial);  // a wrong text changes nothing
  {
    const std::lock_guard guard(s.lock);
    if (orders.reset) {
      s.read_environment();
      s.fired.clear();
      forget_calls();
      registry::forget_misuse();
    }
    parse(text, s.settings);
  }
  if (orders.release) Gate::open_all();
}

void check_environment() {
  const std::lock_guard guard(state().lock);
  if (state().environment_error) throw Failure(*state().environment_error);
}

size_t args_growth(std::string_view function) {
  const std::lock_guard guard(state().lock);
  const auto& growth = state().settings.args_growth;
  const auto at = growth.find(function);
  return at == growth.end() ? 0 : at->second;
}

std::optional<Rule> due(std::string_view kind, std::string_view function) {
  State& s = state();
  const std::lock_guard guard(s.lock);
  std::optional<Rule> found;
  for (Rule& rule : s.settings.rules) {
    if (rule.kind != kind || rule.function != function) continue;
    ++rule.seen;
    if (found || rule.seen <= rule.after || (rule.times >= 0 && rule.fired >= rule.times)) continue;
    ++rule.fired;
    ++s.fired[rule.kind];
    found = rule;
  }
  return found;
}

Failure failure(const Rule& rule, PJRT_Error_Code code, const std::string& message) {
  return {rule.code == PJRT_Error_Code_OK ? code : rule.code, message};
}

void fail_if_due(std::string_view kind, PJRT_Error_Code code, const std::string& message) {
  if (const auto rule = due(kind)) throw failure(*rule, code, message);
}

int64_t times_fired(std::string_view kind) {
  const std::lock_guard guard(state().lock);
  const auto at = state().fired.find(kind);
  return at == state().fired.end() ? 0 : at->second;
}

std::shared_ptr<Gate> Gate::closed() {
  auto gate = std::make_shared<Gate>();
  const std::lock_guard guard(state().lock);
  state().gates.push_back(gate);
  return gate;
}

void Gate::open_all() {
  std::vector<std::weak_ptr<Gate>> gates;
  {
    const std::lock_guard guard(state().lock);
    gates.swap(state().gates);
  }
  for (const auto& weak : gates)
    if (const auto gate = weak.lock()) gate->open();
}

void Gate::open() {
  std::vector<std::function<void()>> actions;
  {
    const std::lock_guard guard(lock_);
    open_ = true;
    actions.swap(waiting_);
  }
  changed_.notify_all();
  for (const auto& action : actions) action();
}

void Gate::wait() {
  std::unique_lock guard(lock_);
  changed_.wait(guard, [this] { return open_; });
}

void Gate::when_open(std::function<void()> action) {
  {
    const std::lock_guard guard(lock_);
    if (!open_) {
      waiting_.push_back(std::move(action));
      return;
    }
  }
  action();
}

}  // namespace fake
