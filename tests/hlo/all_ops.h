// Every op of the builder in a few modules, for tests that compile them on any plugin.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/hlo/cases.h"

namespace tpubridge::hlo {

// One array of the reference file; complex numbers are two entries of `data`.
struct Reference {
  Shape shape;
  std::vector<long double> data;
};
struct ReferenceCase {
  std::vector<Reference> inputs, outputs;
  double tolerance = 0;
};
[[nodiscard]] const std::map<std::string, ReferenceCase>& reference();  // read once

struct Sample {
  std::string name, text;
  int64_t replicas = 1, partitions = 1;
  bool shardy = false;  // compile with Shardy's partitioner
  bool tpu = true;      // whether the TPU compiler takes it
};

// Parameters of all cases in order, results of all cases in order.
[[nodiscard]] Sample build(const Family& family);

// Collectives and shardings need several devices; their expected values stand in collectives_test.cc.
[[nodiscard]] Sample collective_sample();  // 4 replicas
[[nodiscard]] Sample uneven_sample();      // 4 replicas in groups of 3 and 1: not on a TPU
[[nodiscard]] Sample
broadcast_sample();  // 4 replicas; neither the CPU plugin nor the TPU has collective_broadcast
[[nodiscard]] Sample sharded_sample();  // 4 partitions, by Shardy
[[nodiscard]] Sample gspmd_sample();    // 4 partitions, by GSPMD

[[nodiscard]] std::vector<Sample> all_ops();

}  // namespace tpubridge::hlo
