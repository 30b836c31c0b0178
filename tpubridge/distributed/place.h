// Who this process is among those of a job: told by its launcher, by variables of the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tpubridge::distributed {

struct Place {
  int64_t rank = 0;
  int64_t world = 1;
  int64_t local_rank = 0;   // among the processes of this host
  int64_t local_world = 1;  // how many these are
  std::string host;         // of the coordinator
  int64_t port = 0;
  std::string job;       // what tells this job, and this attempt, from others that use the same coordinator
  bool serves = true;    // whether rank 0 is to serve the store; false where the launcher does
  std::string launcher;  // "torchrun", "Slurm", …; "alone" where nobody says anything
  friend bool operator==(const Place&, const Place&) = default;
};

using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// Throws TPUConfigurationError for variables that make no sense, that are not all there, or by which two
// launchers say different things.
[[nodiscard]] Place place_of(const Lookup& variable);
[[nodiscard]] Place place_of_this_process();

// The first host of Slurm's list: "node[03-07,9],login" is node03.
[[nodiscard]] std::string first_host(std::string_view list);

}  // namespace tpubridge::distributed
