// What every rank of a test runs: these tests are started by those of tests/distributed, several at a time.
#pragma once

#include <cstdlib>
#include <functional>
#include <vector>

#include "tests/device/check.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/distributed/distributed.h"

namespace tpubridge {

namespace dist = distributed;

// Joins the job that the launcher tells of, once.
inline int64_t joined(std::chrono::milliseconds silence = std::chrono::seconds(60),
                      std::chrono::milliseconds join_timeout = std::chrono::seconds(120)) {
  if (!dist::is_initialized()) dist::init({.join_timeout = join_timeout, .silence = silence});
  return dist::rank();
}

// What this would be on each rank.
inline std::vector<torch::Tensor> on_all_ranks(const std::function<torch::Tensor(int64_t rank)>& make) {
  std::vector<torch::Tensor> out;
  for (int64_t r = 0; r < dist::world_size(); ++r) out.push_back(make(r));
  return out;
}

// The words of the TPUDistributedError that it must throw.
template <class F>
std::string words_of_failure(F run) {
  try {
    run();
  } catch (const TPUDistributedError& e) {
    return e.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace tpubridge
