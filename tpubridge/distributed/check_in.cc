#include "tpubridge/distributed/check_in.h"

#include <torch/version.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/log.h"

namespace tpubridge::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string some(const std::vector<int64_t>& ranks) {
  std::string out;
  for (size_t i = 0; i < ranks.size() && i < 8; ++i) out += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > 8 ? out + ", …" : out;
}

}  // namespace

void check_in(const StorePtr& store, const Place& place, milliseconds join_timeout,
              std::atomic<bool>& seated) {
  const std::string me = std::to_string(place.rank);
  const std::string card = std::to_string(place.world) + " processes, torch " + TORCH_VERSION;
  if (store->add("seat/" + me, 1) != 1)
    throw TPUDistributedError("two processes say that they are rank " + me, {{"launcher", place.launcher}},
                              "Give every process a rank of its own, and every job a port of its own "
                              "(TPUBRIDGE_COORDINATOR=host:port).",
                              Code::invalid_argument);
  seated = true;
  store->set("card/" + me, to_bytes(card));
  std::vector<int64_t> missing;
  for (int64_t r = 0; r < place.world; ++r)
    if (r != place.rank) missing.push_back(r);
  const auto begin = steady_clock::now();
  for (bool said = false; !missing.empty();) {
    std::erase_if(missing, [&](int64_t r) {
      const std::string key = "card/" + std::to_string(r);
      if (!store->check({key})) return false;
      if (const std::string other = to_text(store->get(key)); other != card)
        throw TPUDistributedError(
            "rank " + me + " and rank " + std::to_string(r) + " are not of one job",
            {{"rank " + me, card}, {"rank " + std::to_string(r), other}},
            "Start all of them with the same number of processes and the same libraries.",
            Code::invalid_argument);
      return true;
    });
    if (missing.empty()) return;
    if (store->check({"refused"}))
      throw TPUDistributedError(to_text(store->get("refused")), {{"rank", me}},
                                "Another rank said so, and has ended.", Code::unavailable);
    const auto waited = steady_clock::now() - begin;
    if (waited > join_timeout)
      throw TPUDistributedError(
          "not all processes have come: " + some(missing) + " of " + std::to_string(place.world) +
              " are missing",
          {{"rank", me}, {"launcher", place.launcher}},
          "Look at what these ranks wrote. Options::join_timeout is how long is waited for them.",
          Code::deadline_exceeded);
    if (waited > milliseconds(10'000) && !said) {
      said = true;
      log::warn("distributed.waiting", {{"rank", me}, {"for", some(missing)}});
    }
    std::this_thread::sleep_for(milliseconds(waited < milliseconds(1000) ? 5 : 100));
  }
}

}  // namespace tpubridge::distributed
