// The parts of `doctor` about the machine itself, the cache folder and who holds the TPU.
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <set>
#include <sstream>

#include "tools/doctor.h"
#include "tools/output.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"
#include "tpubridge/base/private_files.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;
using Level = Finding::Level;
namespace fs = std::filesystem;

// The value of the first line "key<separator> value"; empty where there is none.
std::string field(const Path& file, std::string_view key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto at = line.find(separator);
    if (at == line.npos || !line.starts_with(key)) continue;
    if (line.find_first_not_of(" \t", key.size()) != at) continue;
    const auto from = line.find_first_not_of(" \t\"", at + 1);
    const auto to = line.find_last_not_of(" \t\"\r");
    return from == line.npos ? "" : line.substr(from, to - from + 1);
  }
  return {};
}

// Arm's cores have numbers instead of names there.
std::string cpu_name() {
  const Path info = "/proc/cpuinfo";
  if (auto model = field(info, "model name", ':'); !model.empty()) return model;
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> parts = {
      {{"0xd0c", "Neoverse N1"},
       {"0xd40", "Neoverse V1"},
       {"0xd49", "Neoverse N2"},
       {"0xd4f", "Neoverse V2"},
       {"0xd83", "Neoverse V3"},
       {"0xd08", "Cortex-A72"},
       {"0xd0b", "Cortex-A76"}}};
  const std::string implementer = field(info, "CPU implementer", ':'), part = field(info, "CPU part", ':');
  for (const auto& [number, name] : parts)
    if (implementer == "0x41" && part == number) return std::string(name);
  return part.empty() ? "unknown CPU" : fmt::format("CPU {} part {}", implementer, part);
}

int64_t meminfo(std::string_view key) {
  std::istringstream text(field("/proc/meminfo", key, ':'));
  int64_t kib = 0;
  text >> kib;
  return kib * 1024;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                     : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

std::string command_of(int pid) {
  std::ifstream in(fmt::format("/proc/{}/cmdline", pid));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  for (char& c : text)
    if (c == '\0') c = ' ';
  text.erase(text.find_last_not_of(' ') + 1);
  return text.empty() ? "a process of another user" : text;
}

// Processes that hold a lock on the file, as the kernel lists them.
std::set<int> lock_holders(const Path& path) {
  struct stat info {};
  std::set<int> out;
  if (stat(path.c_str(), &info) != 0) return out;
  const std::string place =
      fmt::format(" {:02x}:{:02x}:{} ", major(info.st_dev), minor(info.st_dev), info.st_ino);
  std::ifstream in("/proc/locks");
  for (std::string line; std::getline(in, line);) {
    if (line.find(place) == line.npos || line.find("->") != line.npos) continue;  // "->": it waits
    std::istringstream words(line);
    std::string number, kind, strictness, access;
    int pid = 0;
    if (words >> number >> kind >> strictness >> access >> pid && pid > 0) out.insert(pid);
  }
  return out;
}

// Processes that have one of the files open, as far as we may look.
std::set<int> open_by(const std::vector<Path>& files) {
  std::set<int> out;
  std::error_code failed;
  for (fs::directory_iterator it("/proc", failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::error_code denied;
    for (fs::directory_iterator fd(it->path() / "fd", denied), last; !denied && fd != last;
         fd.increment(denied)) {
      std::error_code gone;
      const Path target = fs::read_symlink(fd->path(), gone);
      for (const Path& file : files)
        if (target == file) out.insert(std::stoi(name));
    }
  }
  return out;
}

std::vector<Path> accelerator_files() {
  std::vector<Path> out;
  std::error_code failed;
  for (fs::directory_iterator it("/dev", failed), end; !failed && it != end; it.increment(failed))
    if (it->path().filename().string().starts_with("accel") && !it->is_directory(failed))
      out.push_back(it->path());
  return out;
}

// Who uses the TPU, or at least libtpu. A lock outlives the process that took it in the children that
// inherited the file.
std::set<int> tpu_holders(const Path& lock) {
  std::set<int> out;
  const auto lockers = lock_holders(lock);
  for (const int pid : lockers)
    if (fs::exists(fmt::format("/proc/{}", pid))) out.insert(pid);
  if (out.empty() && !lockers.empty()) out = open_by({lock});
  out.merge(open_by(accelerator_files()));
  out.erase(getpid());
  return out;
}

}  // namespace

Part look_at_machine() {
  utsname system{};
  uname(&system);
  const int64_t total = meminfo("MemTotal"), free = meminfo("MemAvailable");
  const std::string os = field("/etc/os-release", "PRETTY_NAME", '='), cpu = cpu_name();
  Part part{"machine",
            {},
            {{"cpu", cpu},
             {"machine", system.machine},
             {"cores", usable_cores()},
             {"memory", total},
             {"memory_available", free},
             {"os", os},
             {"kernel", system.release},
             {"tpu", pjrt::tpu_hardware()},
             {"nvidia_gpu", pjrt::nvidia_hardware()}}};
  part.findings.push_back(
      {Level::info,
       fmt::format("{} ({}), {}, {} of memory ({} available)", cpu, system.machine,
                   human_count(usable_cores(), "core", "cores"), human_bytes(total), human_bytes(free)),
       {fmt::format("{}, Linux {}", os.empty() ? "unknown system" : os, system.release)}});
  // Below this even the CPU plugin's compiler is killed.
  constexpr int64_t kLittle = int64_t{1} << 30;
  if (free > 0 && free < kLittle)
    part.findings.push_back({Level::note,
                             fmt::format("only {} of memory are available", human_bytes(free)),
                             {},
                             "Compiling larger programs may fail: end other programs."});
  return part;
}

Part look_at_tpu(const std::string& lock_file) {
  const Path lock = lock_file;
  const bool hardware = pjrt::tpu_hardware();
  const auto holders = tpu_holders(lock);
  Part part{"tpu",
            {},
            {{"hardware", hardware},
             {"lock_file", fs::exists(lock) ? ordered_json(lock.string()) : ordered_json()}}};
  ordered_json& list = part.data["held_by"] = ordered_json::array();
  for (const int pid : holders) {
    list.push_back({{"pid", pid}, {"command", command_of(pid)}});
    part.findings.push_back(
        {hardware ? Level::problem : Level::note,
         fmt::format("{} by process {}: {}", hardware ? "the TPU is held" : "libtpu's lock is held", pid,
                     command_of(pid)),
         {fmt::format("lock file {}", lock.string())},
         hardware ? fmt::format("Only one process can use a TPU: wait for it, or end it (kill {}).", pid)
                  : "To load libtpu beside it for offline compiles, set ALLOW_MULTIPLE_LIBTPU_LOAD=1."});
  }
  if (holders.empty() && fs::exists(lock) && access(lock.c_str(), R_OK | W_OK) != 0)
    part.findings.push_back({hardware ? Level::problem : Level::note,
                             fmt::format("{} belongs to another user", lock.string()),
                             {},
                             fmt::format("libtpu cannot take its lock: sudo rm {}", lock.string())});
  if (part.findings.empty())
    part.findings.push_back(
        {hardware ? Level::ok : Level::info,
         hardware ? "a TPU is here, and no process holds it" : "no TPU is in this machine"});
  return part;
}

Part look_at_cache() {
  Part part{"cache", {}, nullptr};
  const bool named = env::raw("TPUBRIDGE_CACHE_DIR").has_value();
  try {
    const Path folder = cache_folder();
    Path above = folder;  // the folder is made when it is first used
    while (!fs::exists(above) && above.has_relative_path()) above = above.parent_path();
    const bool usable = fs::is_directory(above) && access(above.c_str(), W_OK | X_OK) == 0;
    std::error_code failed;
    const auto space = fs::space(above, failed);
    const auto available = failed ? 0 : static_cast<int64_t>(space.available);
    part.data = {{"folder", folder.string()}, {"writable", usable}, {"available", available}};
    if (usable) check_private_folder(folder / "programs");
    if (usable)
      part.findings.push_back({Level::ok, fmt::format("{} can be written, {} are free", folder.string(),
                                                      human_bytes(available))});
    else
      part.findings.push_back(
          {named ? Level::problem : Level::note,
           fmt::format("{} cannot be written", folder.string()),
           {fs::is_directory(above) ? "no permission for " + above.string()
                                    : above.string() + " is no folder"},
           "Set TPUBRIDGE_CACHE_DIR to a folder that can; without one, every process compiles anew."});
  } catch (const Error& e) {
    part.findings.push_back({Level::note, e.message(), {}, e.hint()});
  }
  return part;
}

}  // namespace tpubridge::tools
