#include "tpubridge/plugin/discovery.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::pjrt {
namespace {

namespace fs = std::filesystem;

std::string file_of(const Candidate& plugin) { return fs::path(plugin.path).filename().string(); }

bool is_file(const fs::path& p) {
  std::error_code ignored;
  return fs::is_regular_file(p, ignored);
}

std::vector<fs::path> children(const fs::path& folder, std::string_view prefix = {}) {
  std::vector<fs::path> out;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    if (it->path().filename().string().starts_with(prefix)) out.push_back(it->path());
  std::ranges::sort(out);
  return out;
}

// The package folders of every python3 on PATH, of the user and of the system.
std::vector<fs::path> package_folders() {
  std::vector<fs::path> libs = {"/usr/local/lib", "/usr/lib"};
  if (const auto home = env::raw("HOME")) libs.insert(libs.begin(), fs::path(*home) / ".local/lib");
  std::string_view path;
  const auto variable = env::raw("PATH");
  for (path = variable ? *variable : std::string_view(); !path.empty();) {
    const auto colon = std::min(path.find(':'), path.size());
    const fs::path folder(path.substr(0, colon));
    if (is_file(folder / "python3")) libs.insert(libs.begin(), folder.parent_path() / "lib");
    path.remove_prefix(std::min(colon + 1, path.size()));
  }
  std::vector<fs::path> out;
  for (const auto& lib : libs)
    for (const auto& python : children(lib, "python3"))
      for (const char* sub : {"site-packages", "dist-packages"}) out.push_back(python / sub);
  return out;
}

std::string find_package_file(const std::vector<std::string>& relative) {
  for (const auto& folder : package_folders())
    for (const auto& file : relative)
      if (is_file(folder / file)) return (folder / file).string();
  return {};
}

std::string find_libtpu() {
  if (const auto named = env::raw("TPU_LIBRARY_PATH")) return *named;
  return find_package_file({"libtpu/libtpu.so"});
}

std::string find_cuda() {
  std::vector<std::string> files;
  for (const char* version : {"13", "12"})
    for (const char* package : {"jax_plugins/xla_cuda", "xla_plugins/xla_cuda"})
      files.push_back(fmt::format("{}{}/xla_cuda_plugin.so", package, version));
  return find_package_file(files);
}

// No path of the machine that built it: a package runs on others, where anybody may own such a folder.
std::string find_cpu() {
  std::error_code failed;
  const fs::path file = fs::canonical(beside_library("tpubridge/xla_cpu_pjrt.so"), failed);
  return failed ? std::string() : file.string();
}

// name:path,name:path
void add_named(std::vector<Candidate>& out) {
  const auto list = env::raw("PJRT_NAMES_AND_LIBRARY_PATHS");
  if (!list) return;
  const auto device = env::raw("PJRT_DEVICE");
  for (std::string_view rest = *list; !rest.empty();) {
    const auto comma = std::min(rest.find(','), rest.size());
    const std::string_view entry = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const auto colon = entry.find(':');
    Candidate c{std::string(entry.substr(0, std::min(colon, entry.size()))),
                {},
                "PJRT_NAMES_AND_LIBRARY_PATHS",
                false,
                {}};
    if (colon == entry.npos) {
      c.reason = "the entry is not name:path";
    } else if (c.path = entry.substr(colon + 1); !is_file(c.path)) {
      c.reason = "there is no such file";
    } else if (device && !std::ranges::equal(*device, c.name, [](char a, char b) {
                 return std::tolower(a) == std::tolower(b);
               })) {
      c.reason = "PJRT_DEVICE asks for " + *device;
    } else {
      c.chosen = true;
    }
    out.push_back(std::move(c));
  }
}

Candidate known(const std::string& name, std::string path, bool hardware, const char* missing) {
  Candidate c{name,
              std::move(path),
              name == "tpu"    ? "libtpu"
              : name == "cuda" ? "XLA's CUDA plugin"
                               : kEmbedded,
              false,
              {}};
  if (c.path.empty())
    c.reason = hardware ? "the hardware is here, but no plugin for it is installed" : "not installed";
  else if (!is_file(c.path))
    c.reason = "there is no such file";
  else if (!hardware)
    c.reason = missing;
  else
    c.chosen = true;
  return c;
}

bool looks_like_path(const std::string& text) { return text.find('/') != text.npos || text.ends_with(".so"); }

// Only the first that qualifies is taken; the reasons say so.
void settle(std::vector<Candidate>& list, const std::string& wanted) {
  const Candidate* taken = nullptr;
  for (auto& c : list) {
    const bool asked = wanted.empty() || looks_like_path(wanted) || c.name == wanted;
    if (!asked) c.reason = wanted + " was asked for", c.chosen = false;
    if (!c.chosen) continue;
    if (taken) {
      c.chosen = false;
      c.reason = taken->source + " comes first";
    } else {
      taken = &c;
      c.reason = wanted.empty() ? "first in the order of preference" : "asked for";
    }
  }
}

}  // namespace

fs::path beside_library(const std::string& relative) {
  Dl_info self{};  // asked with a function of this file alone: a program may have a stub for the others
  if (dladdr(reinterpret_cast<const void*>(&find_cpu), &self) == 0 || !self.dli_fname) return {};
  std::error_code failed;  // the loader names it as it found it: bin/../lib
  const fs::path library = fs::canonical(self.dli_fname, failed);
  return failed ? fs::path() : (library.parent_path() / relative).lexically_normal();
}

bool tpu_hardware() {
  if (!children("/dev", "accel").empty()) return true;
  for (const auto& device : children("/sys/bus/pci/devices")) {
    std::string vendor, kind;
    std::ifstream(device / "vendor") >> vendor;
    std::ifstream(device / "class") >> kind;
    if (vendor == "0x1ae0" && kind.starts_with("0x12")) return true;  // Google, processing accelerator
  }
  return false;
}

bool nvidia_hardware() {
  return fs::exists("/dev/nvidiactl") || !children("/proc/driver/nvidia/gpus").empty();
}

std::vector<Candidate> discover(const std::string& caller) {
  std::string wanted = caller, source = "caller";
  if (wanted.empty()) wanted = env::text("TPUBRIDGE_PLUGIN"), source = "TPUBRIDGE_PLUGIN";
  std::vector<Candidate> list;
  if (looks_like_path(wanted)) {
    const bool there = is_file(wanted);
    list.push_back(
        {fs::path(wanted).stem().string(), wanted, source, there, there ? "" : "there is no such file"});
    if (!there) {  // nothing else may stand in for what was asked by path
      return list;
    }
  }
  add_named(list);
  const bool tpu = tpu_hardware(), nvidia = nvidia_hardware();
  list.push_back(known("tpu", find_libtpu(), tpu, "no TPU is in this machine"));
  list.push_back(known("cuda", find_cuda(), nvidia, "no NVIDIA GPU is in this machine"));
  list.push_back(known("cpu", find_cpu(), true, ""));
  settle(list, wanted);
  return list;
}

Candidate choose(const std::string& wanted) {
  const auto list = discover(wanted);
  for (const auto& c : list)
    if (c.chosen) return c;
  Details details;
  for (const auto& c : list)
    details.emplace_back(c.name, c.path.empty() ? c.reason : c.path + ": " + c.reason);
  if (wanted == "tpu")
    throw TPUNotAvailableError(
        "TPU not available: libtpu or the hardware was not found", std::move(details),
        "`tpubridge doctor` explains; `tpubridge fit` compiles for a TPU that is not here");
  throw PluginError(wanted.empty() ? "no PJRT plugin was found" : "no PJRT plugin '" + wanted + "' was found",
                    std::move(details), "`tpubridge doctor` explains each step of the search");
}

bool is_cpu_plugin(const Candidate& plugin) {
  return plugin.name == "cpu" || file_of(plugin).find("cpu") != std::string::npos;
}

Values standard_options(const Candidate& plugin) {
  Values out;
  // By itself it would take four devices, and as many threads.
  if (is_cpu_plugin(plugin)) out["cpu_device_count"] = cpu_device_count();
  if (file_of(plugin).find("cuda") != std::string::npos && !env::flag("TPUBRIDGE_PREALLOCATE"))
    out["preallocate"] = false;
  return out;
}

int64_t cpu_device_count() {
  if (const auto ours = env::integer("TPUBRIDGE_CPU_DEVICES")) return *ours;
  const auto theirs = env::raw("CPU_NUM_DEVICES");
  if (!theirs) return 1;
  return env::parse_integer(
      {"CPU_NUM_DEVICES", env::Type::integer, "", "1..1024", "", env::Stability::stable}, *theirs);
}

}  // namespace tpubridge::pjrt
