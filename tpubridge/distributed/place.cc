#include "tpubridge/distributed/place.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/hash.h"

namespace tpubridge::distributed {
namespace {

// The variables of one launcher. Empty: it has none for that.
struct Launcher {
  const char *name, *rank, *world, *local_rank, *local_world, *job;
};
constexpr std::array kLaunchers = {
    Launcher{"TPUBRIDGE_* variables", "TPUBRIDGE_RANK", "TPUBRIDGE_WORLD_SIZE", "TPUBRIDGE_LOCAL_RANK",
             "TPUBRIDGE_LOCAL_WORLD_SIZE", "TPUBRIDGE_JOB"},
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    Launcher{"OpenMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    Launcher{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ""},
    Launcher{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", "SLURM_JOB_ID"},
};

class Reader {
 public:
  explicit Reader(const Lookup& variable) : variable_(variable) {}

  [[nodiscard]] std::optional<std::string> text(const std::string& name) const {
    if (name.empty()) return std::nullopt;
    auto value = variable_(name);
    if (value && value->empty()) return std::nullopt;
    return value;
  }

  [[nodiscard]] std::optional<int64_t> number(const std::string& name, int64_t least, int64_t most) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    int64_t out = 0;
    const char* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, out);
    if (error != std::errc() || stop != end || out < least || out > most)
      throw TPUConfigurationError(
          name + " is no whole number from " + std::to_string(least) + " to " + std::to_string(most),
          {{"variable", name}, {"value", *value}}, "It is what a launcher sets: see docs/processes.md.");
    return out;
  }

 private:
  const Lookup& variable_;
};

constexpr int64_t kMostProcesses = 1'000'000, kMostPort = 65535;

struct Told {
  const Launcher* by = nullptr;
  Place place = {};
  bool knows_local_rank = false;
};

std::optional<Told> told_by(const Launcher& l, const Reader& read) {
  const auto rank = read.number(l.rank, 0, kMostProcesses - 1);
  const auto world = read.number(l.world, 1, kMostProcesses);
  if (!rank) return std::nullopt;  // how many there are says nothing by itself
  // A batch script of Slurm is one process, whatever is said of its job.
  if (l.rank == std::string_view("SLURM_PROCID") && !read.text("SLURM_STEP_NODELIST")) return std::nullopt;
  if (!world)
    throw TPUConfigurationError(std::string(l.rank) + " is set, and " + l.world + " is not",
                                {{"launcher", l.name}}, "Set both, or neither.");
  if (*rank >= *world)
    throw TPUConfigurationError(
        std::string(l.rank) + " must be less than " + l.world,
        {{l.rank, std::to_string(*rank)}, {l.world, std::to_string(*world)}, {"launcher", l.name}});
  Told out{.by = &l};
  out.place.rank = *rank;
  out.place.world = *world;
  out.place.launcher = l.name;
  const auto local_rank = read.number(l.local_rank, 0, kMostProcesses - 1);
  out.knows_local_rank = local_rank.has_value();
  out.place.local_rank = local_rank.value_or(0);
  out.place.local_world = read.number(l.local_world, 1, kMostProcesses).value_or(0);
  out.place.job = read.text(l.job).value_or("");
  // A job of Slurm may run several programs side by side.
  if (l.job == std::string_view("SLURM_JOB_ID") && !out.place.job.empty())
    if (const auto step = read.text("SLURM_STEP_ID")) out.place.job += "." + *step;
  return out;
}

// GKE and Cloud TPU: one process a host, the hosts by their names.
std::optional<Told> told_by_pod(const Reader& read) {
  static constexpr Launcher kPod{"TPU pod", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES", "", "", ""};
  const auto id = read.number(kPod.rank, 0, kMostProcesses - 1);
  const auto names = read.text(kPod.world);
  if (!id || !names) return std::nullopt;
  Told out{.by = &kPod};
  out.place.rank = *id;
  out.place.world = 1 + std::count(names->begin(), names->end(), ',');
  out.place.local_world = 1;
  out.place.host = names->substr(0, names->find(','));
  out.place.launcher = kPod.name;
  if (*id >= out.place.world)
    throw TPUConfigurationError("TPU_WORKER_ID is not among TPU_WORKER_HOSTNAMES",
                                {{"TPU_WORKER_ID", std::to_string(*id)}, {"TPU_WORKER_HOSTNAMES", *names}});
  return out;
}

void read_coordinator(Place& p, const Reader& read) {
  if (const auto ours = read.text("TPUBRIDGE_COORDINATOR")) {
    const auto colon = ours->rfind(':');
    const auto port = colon == ours->npos ? std::string() : ours->substr(colon + 1);
    const Lookup told = [&](const std::string&) { return std::optional(port); };
    const Reader of_port(told);
    if (colon == 0 || port.empty())
      throw TPUConfigurationError("TPUBRIDGE_COORDINATOR is no host:port", {{"value", *ours}},
                                  "For example 10.0.0.7:29500: where rank 0 can be reached.");
    p.host = ours->substr(0, colon);
    p.port = of_port.number("the port in TPUBRIDGE_COORDINATOR", 1, kMostPort).value_or(0);
    if (p.host.size() > 2 && p.host.front() == '[' && p.host.back() == ']')
      p.host = p.host.substr(1, p.host.size() - 2);  // [::1]:29500
    return;
  }
  if (const auto address = read.text("MASTER_ADDR")) p.host = *address;
  if (const auto port = read.number("MASTER_PORT", 1, kMostPort)) p.port = *port;
  if (p.host.empty())
    if (const auto nodes = read.text("SLURM_STEP_NODELIST")) p.host = first_host(*nodes);
  if (p.host.empty() && p.local_world == p.world) p.host = "127.0.0.1";  // all on this host
  // One port for all processes of a job, another for another job.
  if (p.port == 0 && !p.job.empty()) p.port = 20000 + static_cast<int64_t>(hash64(p.job) % 20000);
  if (p.port == 0 && p.launcher == "TPU pod") p.port = 8477;  // beside libtpu's own, 8476
  if (p.host.empty() || p.port == 0)
    throw TPUConfigurationError(p.launcher + " does not say where rank 0 can be reached",
                                {{"launcher", p.launcher}},
                                "Set TPUBRIDGE_COORDINATOR=host:port, the same for all processes; the port "
                                "must be free on that host.");
}

void check_agreement(const std::vector<Told>& all) {
  for (size_t i = 1; i < all.size(); ++i) {
    const auto &a = all[0], &b = all[i];
    if (a.place.rank == b.place.rank && a.place.world == b.place.world) continue;
    const auto say = [](const Told& t) {
      return std::string(t.by->rank) + "=" + std::to_string(t.place.rank) + " of " +
             std::to_string(t.place.world);
    };
    throw TPUConfigurationError(
        std::string(a.by->name) + " and " + b.by->name + " disagree about who this process is",
        {{a.by->name, say(a)}, {b.by->name, say(b)}},
        "Unset the variables of the one that did not start it.");
  }
}

}  // namespace

std::string first_host(std::string_view list) {
  const auto open = list.find('[');
  const auto comma = list.find(',');
  if (open == list.npos || comma < open) return std::string(list.substr(0, comma));
  const auto end = list.find_first_of("-,]", open);
  const auto close = list.find(']', open);
  if (end == list.npos || close == list.npos)
    throw TPUConfigurationError("a list of hosts that cannot be read", {{"hosts", std::string(list)}},
                                "Set TPUBRIDGE_COORDINATOR=host:port.");
  const auto after = list.substr(close + 1);
  return std::string(list.substr(0, open)) + std::string(list.substr(open + 1, end - open - 1)) +
         std::string(after.substr(0, after.find(',')));
}

Place place_of(const Lookup& variable) {
  const Reader read(variable);
  std::vector<Told> all;
  for (const Launcher& l : kLaunchers)
    if (auto told = told_by(l, read)) all.push_back(std::move(*told));
  if (auto told = told_by_pod(read)) all.push_back(std::move(*told));
  if (all.empty()) {
    Place alone;
    alone.launcher = "alone";
    return alone;
  }
  // Launchers inside of others: what they say is meant, whatever is left of the outer one.
  const bool ours = read.text("TPUBRIDGE_JOB").has_value() && all[0].by == &kLaunchers[0];
  const auto torchs = std::ranges::find(all, &kLaunchers[1], &Told::by);
  if (ours) all.resize(1);
  if (!ours && torchs != all.end() && !torchs->place.job.empty()) all = {*torchs};
  check_agreement(all);
  Place out = all[0].place;
  for (const Told& t : all) {  // another one may know more
    if (out.host.empty()) out.host = t.place.host;
    if (out.job.empty()) out.job = t.place.job;
    if (out.local_world == 0) out.local_world = t.place.local_world;
  }
  if (const auto knows = std::ranges::find_if(all, &Told::knows_local_rank); knows != all.end())
    out.local_rank = knows->place.local_rank;
  if (out.local_world == 0) out.local_world = out.world == 1 ? 1 : 0;
  read_coordinator(out, read);
  if (all[0].by == &kLaunchers[1]) {  // torchrun
    out.job += "/" + read.text("TORCHELASTIC_RESTART_COUNT").value_or("0");
    out.serves = read.text("TORCHELASTIC_USE_AGENT_STORE").value_or("False") != "True";
  }
  return out;
}

Place place_of_this_process() {
  return place_of([](const std::string& name) { return env::raw(name); });
}

}  // namespace tpubridge::distributed
