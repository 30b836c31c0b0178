// The counters: plain numbers are atomics, the named ones stand behind a mutex.
#include "tpubridge/exec/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "tpubridge/exec/ledger.h"

namespace tpubridge {
namespace {

struct Counters {
  std::atomic<int64_t> traced{0}, executions{0}, compiles{0}, hits{0}, entries{0}, fallbacks{0},
      collisions{0}, sized{0}, resized{0}, gathered{0}, spread{0};
  std::atomic<int64_t> to_device{0}, to_host{0}, temporaries{0}, quick{0}, replaced{0};
  std::mutex mutex;  // guards what follows
  std::map<std::string, int64_t, std::less<>> reasons, synchronising;
  std::map<std::string, Metrics::Fallen> fallback_ops;
  double compile_seconds = 0;
  std::vector<std::string (*)()> sections;
};

// Never destroyed: buffers may be freed by other static objects at exit.
Counters& counters() {
  static auto* c = new Counters;
  return *c;
}

int64_t total(const std::map<std::string, int64_t>& counts) {
  int64_t sum = 0;
  for (const auto& [name, n] : counts) sum += n;
  return sum;
}

std::string listed(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<int64_t, std::string>> rows;
  for (const auto& [name, n] : counts) rows.emplace_back(-n, name);
  std::sort(rows.begin(), rows.end());
  std::string text;
  for (const auto& [n, name] : rows) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, -n);
  return text.empty() ? "none" : text;
}

// The dearest first.
std::string listed(const std::map<std::string, Metrics::Fallen>& fallen) {
  std::vector<std::pair<double, std::string>> rows;
  for (const auto& [name, f] : fallen)
    rows.emplace_back(-f.seconds, fmt::format("{} {} ({:.1f} ms)", name, f.calls, f.seconds * 1e3));
  std::sort(rows.begin(), rows.end());
  std::string text;
  for (const auto& row : rows) text += (text.empty() ? "" : ", ") + row.second;
  return text.empty() ? "none" : text;
}

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

}  // namespace

int64_t Metrics::fallback_count() const {
  int64_t calls = 0;
  for (const auto& [name, f] : fallbacks) calls += f.calls;
  return calls;
}
double Metrics::fallback_seconds() const {
  double seconds = 0;
  for (const auto& [name, f] : fallbacks) seconds += f.seconds;
  return seconds;
}
int64_t Metrics::materialisation_count() const { return total(materialisations); }

Metrics metrics() {
  auto& c = counters();
  Metrics m;
  m.traced_ops = c.traced;
  m.executions = c.executions;
  m.compiles = c.compiles;
  m.cache_hits = c.hits;
  m.cache_entries = c.entries;
  m.hash_collisions = c.collisions;
  m.sized_executions = c.sized;
  m.resized_bytes = c.resized;
  m.gathered_bytes = c.gathered;
  m.spread_executions = c.spread;
  m.disk = cache::disk_counts();
  m.host_to_device_bytes = c.to_device;
  m.device_to_host_bytes = c.to_host;
  const DeviceMemory memory = all_device_memory();
  m.live_device_bytes = memory.live;
  m.peak_device_bytes = memory.peak;
  m.last_temporary_bytes = c.temporaries;
  m.quick_programs = c.quick;
  m.replaced_programs = c.replaced;
  std::lock_guard lock(c.mutex);
  m.materialisations = {c.reasons.begin(), c.reasons.end()};
  m.fallbacks = c.fallback_ops;
  m.synchronising = {c.synchronising.begin(), c.synchronising.end()};
  m.compile_seconds = c.compile_seconds;
  return m;
}

std::string report() {
  const Metrics m = metrics();
  std::string text = fmt::format(
      "traced ops        {}\n"
      "materialisations  {} ({})\n"
      "programs run      {} ({} without compiling, {} held)\n"
      "compiles          {} ({:.2f} s)\n"
      "disk cache        {} hits ({:.2f} s saved, {} loaded ahead), {} misses, {} stored, {} bad\n"
      "CPU fallbacks     {} ({})\n"
      "data-dependent    {}\n"
      "host to device    {:.1f} MiB\n"
      "device to host    {:.1f} MiB\n"
      "device memory     {:.1f} MiB live, {:.1f} MiB peak\n"
      "last program      {:.1f} MiB of temporaries\n",
      m.traced_ops, m.materialisation_count(), listed(m.materialisations), m.executions, m.cache_hits,
      m.cache_entries, m.compiles, m.compile_seconds, m.disk.hits, m.disk.seconds_saved, m.disk.ahead,
      m.disk.misses, m.disk.stores, m.disk.drops, m.fallback_count(), listed(m.fallbacks),
      listed(m.synchronising), mib(m.host_to_device_bytes), mib(m.device_to_host_bytes),
      mib(m.live_device_bytes), mib(m.peak_device_bytes), mib(m.last_temporary_bytes));
  std::vector<std::string (*)()> sections;
  {
    const std::lock_guard lock(counters().mutex);
    sections = counters().sections;
  }
  if (m.quick_programs)
    text += fmt::format("in two tiers      {} programs, {} optimised by now\n", m.quick_programs,
                        m.replaced_programs);
  for (auto* lines : sections) text += lines();
  return text;
}

namespace exec {
namespace {

void bump(std::map<std::string, int64_t, std::less<>>& counts, std::string_view name) {
  auto it = counts.find(name);
  if (it == counts.end()) it = counts.emplace(name, 0).first;
  ++it->second;
}

}  // namespace

void count_traced() { counters().traced.fetch_add(1, std::memory_order_relaxed); }

void count_materialisation(std::string_view reason) {
  std::lock_guard lock(counters().mutex);
  bump(counters().reasons, reason);
}

void count_compile(double seconds) {
  auto& c = counters();
  ++c.compiles;
  std::lock_guard lock(c.mutex);
  c.compile_seconds += seconds;
}

void count_execution(bool compiled_for_it) {
  ++counters().executions;
  if (!compiled_for_it) ++counters().hits;
}

void count_cache_entries(int64_t entries) { counters().entries = entries; }

void count_collision() { ++counters().collisions; }
void count_sized() { ++counters().sized; }
void count_resized(int64_t bytes) { counters().resized += bytes; }
void count_gathered(int64_t bytes) { counters().gathered += bytes; }
void count_spread() { ++counters().spread; }

void count_fallback(const std::string& op, double seconds) {
  auto& c = counters();
  ++c.fallbacks;
  std::lock_guard lock(c.mutex);
  auto& f = c.fallback_ops[op];
  ++f.calls;
  f.seconds += seconds;
}

void count_synchronising(const std::string& op) {
  std::lock_guard lock(counters().mutex);
  bump(counters().synchronising, op);
}

void count_to_device(int64_t bytes) { counters().to_device += bytes; }
void count_to_host(int64_t bytes) { counters().to_host += bytes; }

void note_temporaries(int64_t bytes) { counters().temporaries = bytes; }

void count_tier(bool swapped) { ++(swapped ? counters().replaced : counters().quick); }

void add_to_report(std::string (*lines)()) {
  std::lock_guard lock(counters().mutex);
  counters().sections.push_back(lines);
}

int64_t compile_count() { return counters().compiles; }
int64_t execution_count() { return counters().executions; }
int64_t fallback_count() { return counters().fallbacks; }

}  // namespace exec
}  // namespace tpubridge

int64_t tpubridge_cpu_fallback_count() { return tpubridge::exec::fallback_count(); }
int64_t tpubridge_compile_count() { return tpubridge::exec::compile_count(); }
