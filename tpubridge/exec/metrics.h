// What the device did, counted. Every counter is process-wide and only grows, but for the live figures.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tpubridge/cache/counts.h"

namespace tpubridge {

struct Metrics {
  int64_t traced_ops = 0;
  std::map<std::string, int64_t> materialisations;  // by reason
  int64_t executions = 0;
  int64_t compiles = 0;
  double compile_seconds = 0;
  int64_t cache_hits = 0;       // programs that ran without compiling
  int64_t cache_entries = 0;    // programs held at the moment
  int64_t hash_collisions = 0;  // different programs of one hash that were looked up and told apart
  cache::DiskCounts disk;       // programs loaded from disk instead of compiled, and stored there
  struct Fallen {
    int64_t calls = 0;
    double seconds = 0;  // with the copies there and back, and the wait for what was pending
  };
  std::map<std::string, Fallen> fallbacks;       // ops that ran on the CPU, by name
  std::map<std::string, int64_t> synchronising;  // ops whose result shape depends on data, by name
  int64_t host_to_device_bytes = 0, device_to_host_bytes = 0;
  int64_t live_device_bytes = 0, peak_device_bytes = 0;
  int64_t quick_programs = 0, replaced_programs = 0;  // compiled in two tiers: begun, and optimised by now
  int64_t sized_executions = 0;                       // of programs for many sizes
  int64_t gathered_bytes = 0;        // of values on several devices that a program of one device needed whole
  int64_t spread_executions = 0;     // of these programs, so many ran over the devices of a mesh
  int64_t resized_bytes = 0;         // that went through the host to be as large as a program needs them
  int64_t last_temporary_bytes = 0;  // of the program that was compiled or loaded last

  [[nodiscard]] int64_t fallback_count() const;
  [[nodiscard]] double fallback_seconds() const;
  [[nodiscard]] int64_t materialisation_count() const;
};

[[nodiscard]] Metrics metrics();
[[nodiscard]] std::string report();  // the same, for people

namespace exec {

void count_traced();
void count_materialisation(std::string_view reason);
void count_execution(bool compiled_for_it);
void count_compile(double seconds);
void count_cache_entries(int64_t entries);
void count_collision();
void count_fallback(const std::string& op, double seconds);
void count_synchronising(const std::string& op);
void count_to_device(int64_t bytes);
void count_to_host(int64_t bytes);

void count_sized();
void count_resized(int64_t bytes);
void count_gathered(int64_t bytes);
void count_spread();
void note_temporaries(int64_t bytes);
void count_tier(bool swapped);  // a quick program was begun, or has its place taken
// Lines that stand at the end of report(); what is above exec/ adds its own.
void add_to_report(std::string (*lines)());

// Without a copy of the whole record.
[[nodiscard]] int64_t compile_count();
[[nodiscard]] int64_t execution_count();
[[nodiscard]] int64_t fallback_count();

}  // namespace exec
}  // namespace tpubridge

extern "C" {
int64_t tpubridge_cpu_fallback_count();
int64_t tpubridge_compile_count();
}
