#include "tpubridge/cache/key.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "tpubridge/base/env.h"
#include "tpubridge/base/fd.h"
#include "tpubridge/cache/bytes.h"
#include "tpubridge/plugin/host_cpu.h"

namespace tpubridge::cache {
namespace {

constexpr std::array<std::string_view, 11> kCpuLines = {
    "vendor_id", "cpu family", "model",    "model name",      "stepping",        "flags",
    "Features",  "isa",        "CPU part", "CPU implementer", "CPU architecture"};

std::string plugin_identity(const pjrt::Plugin& plugin) {
  const auto version = plugin.api_version();
  std::string out = fmt::format("pjrt {}.{}\n", version.major, version.minor);
  for (const auto& [name, value] : plugin.attributes())
    out += fmt::format("{}={}\n", name, pjrt::to_string(value));
  return out + file_digest(plugin.path());
}

std::string topology(const pjrt::Client& client) {
  std::string out = fmt::format("process {}\n", client.process_index());
  for (const auto& d : client.devices()) {
    out += fmt::format("{} {} {}", d.id(), d.info().process_index, d.info().kind);
    for (const char* name : {"coords", "core_on_chip", "slice_index", "compute_capability"})
      if (const auto it = d.info().attributes.find(name); it != d.info().attributes.end())
        out += fmt::format(" {}={}", name, pjrt::to_string(it->second));
    out += '\n';
  }
  return out;
}

std::string host_cpu() {
  utsname machine{};
  uname(&machine);
  return fmt::format("{}\n{} threads\n{}", machine.machine, std::thread::hardware_concurrency(),
                     cpu_features(pjrt::cpuinfo_for_plugins()));
}

}  // namespace

ProgramId KeyParts::id() const {
  constexpr uint64_t kOtherSeed = 0x9e3779b97f4a7c15ull;
  std::string all = fmt::format("tpubridge program {}\n", kFormatVersion);
  for (const std::string* part : {&program, &format, &options, &flags, &platform, &platform_version, &plugin,
                                  &device_kind, &cpu, &topology}) {
    put64(all, part->size());  // ("ab", "c") is not ("a", "bc")
    all += *part;
  }
  return {hash128(all), hash128(all, kOtherSeed), all.size()};
}

std::string cpu_features(const std::string& cpuinfo) {
  std::set<std::string> lines;
  std::istringstream in(cpuinfo);
  for (std::string line; std::getline(in, line);) {
    std::string_view name = std::string_view(line).substr(0, line.find(':'));
    while (name.ends_with(' ') || name.ends_with('\t')) name.remove_suffix(1);
    if (std::ranges::find(kCpuLines, name) != kCpuLines.end()) lines.insert(line);
  }
  std::string out;
  for (const auto& line : lines) out += line + "\n";
  return out;
}

std::string file_digest(const std::string& path) {
  constexpr size_t kSample = 4096, kSamples = 64;
  const OpenFile file = open_to_read(path);
  const auto size = static_cast<size_t>(file.info.st_size);
  Hasher hasher;
  std::array<std::byte, kSample> block{};
  const size_t step = std::max(kSample, size / kSamples);
  for (size_t at = 0; at < size; at += step) {
    const size_t n = read_at(file.fd, path, block, at);
    hasher.add({reinterpret_cast<const char*>(block.data()), n});
  }
  return fmt::format("{} bytes {}", size, hasher.digest().hex());
}

KeyParts target_of(const pjrt::Client& client) {
  KeyParts out;
  for (const char* name : {"XLA_FLAGS", "LIBTPU_INIT_ARGS", "PJRT_NPROC"})
    out.flags += fmt::format("{}={}\n", name, env::raw(name).value_or(""));
  out.platform = client.platform_name();
  out.platform_version = client.platform_version();
  out.plugin = plugin_identity(client.plugin());
  if (const auto devices = client.addressable_devices(); !devices.empty())
    out.device_kind = devices[0]->info().kind;
  if (out.platform == "cpu") out.cpu = host_cpu();
  out.topology = topology(client);
  return out;
}

}  // namespace tpubridge::cache
