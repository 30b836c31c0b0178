// The TPU generations: what libtpu 0.0.51 says of each, and how their chips lie on hosts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "settings.h"

namespace fake {

struct Generation {
  const char* name;           // ours, and libtpu's in topology names, but for v7
  const char* topology_name;  // libtpu's
  const char* kind;
  int64_t hbm_bytes;   // that a program may use, per device
  int cores;           // devices per chip on a machine
  int topology_cores;  // devices per chip in an offline topology
  int dims;            // 2: a torus of chips in a plane, 3: in space
  double tflops;       // bf16, per chip
  double gbytes_per_s;
};

[[nodiscard]] const Generation& generation(std::string_view name);  // throws Failure

struct Place {
  int id, host;
  std::array<int64_t, 3> coords;
  int core;

  [[nodiscard]] std::string str() const;  // TpuDevice(id=0, process_index=0, coords=(0,0,0), core_on_chip=0)
  [[nodiscard]] std::string debug() const;  // TPU_0(process=0,(0,0,0,0))
};

struct Machine {
  const Generation* generation;
  int cores = 1;  // devices per chip
  int64_t hbm_bytes = 0;
  std::vector<Place> places;  // host by host, as libtpu lists them
};

[[nodiscard]] Machine machine_from(const Settings& settings);
[[nodiscard]] Machine machine_from_topology(std::string_view name);  // "v5e:2x2"

}  // namespace fake
