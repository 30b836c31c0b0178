// Where the child and libtpu are, and how the child is started on this machine.
#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <optional>

#include "tpubridge/aot/aot.h"
#include "tpubridge/base/env.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge::aot {
namespace {

constexpr const char* kQemu = "qemu-x86_64-static";
constexpr const char* kQemuRoot =
    "/usr/x86_64-linux-gnu";  // where Debian's libc6-amd64-cross puts the C library
constexpr const char* kSetUp = "`make aot` sets it up";

bool is_file(const Path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// A file that a variable of the user names must be there: nothing else may stand in for it.
std::optional<Path> named_by(std::string_view variable) {
  const auto value = env::raw(variable);
  if (!value) return std::nullopt;
  if (!is_file(*value))
    throw PluginError(fmt::format("{} names a file that is not there", variable), {{"path", *value}},
                      fmt::format("Correct {}, or unset it", variable), Code::not_found);
  return Path(*value);
}

std::vector<Path> child_places() {
  std::vector<Path> out;
  std::error_code failed;
  if (Path beside = pjrt::beside_library("../bin/tpubridge-aot"); !beside.empty()) out.push_back(beside);
  const Path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) out.push_back(program.parent_path() / "tpubridge-aot");
  return out;
}

// Whether the file is a program for x86_64; a script is not.
bool is_x86_64(const Path& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr head{};
  return file.read(reinterpret_cast<char*>(&head), sizeof head) &&
         std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_machine == EM_X86_64;
}

bool in_path(const std::string& program) {
  const auto path = env::raw("PATH");
  for (std::string_view rest = path ? *path : std::string_view("/usr/bin:/bin"); !rest.empty();) {
    const auto colon = std::min(rest.find(':'), rest.size());
    if (access((Path(rest.substr(0, colon)) / program).c_str(), X_OK) == 0) return true;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return false;
}

}  // namespace

Path child_program() {
  if (auto named = named_by("TPUBRIDGE_AOT_CHILD")) return *named;
  Details looked;
  for (const Path& place : child_places()) {
    if (is_file(place)) return place;
    looked.emplace_back("looked at", place.string());
  }
  throw PluginError("the program tpubridge-aot, which compiles for TPUs that are not here, was not found",
                    std::move(looked), kSetUp, Code::not_found);
}

Path libtpu_library() {
  for (const char* variable : {"TPUBRIDGE_LIBTPU", "TPU_LIBRARY_PATH"})
    if (auto named = named_by(variable)) return *named;
  if (Path beside = pjrt::beside_library("tpubridge/libtpu.so"); is_file(beside)) return beside;
  for (const auto& candidate : pjrt::discover("tpu"))
    if (candidate.source == "libtpu" && is_file(candidate.path)) return candidate.path;
  throw PluginError("libtpu, Google's TPU compiler, was not found", {}, kSetUp, Code::not_found);
}

std::vector<std::string> child_command(const Path& child) {
#if defined(__x86_64__)
  constexpr bool native = true;
#else
  constexpr bool native = false;
#endif
  if (native || !is_x86_64(child)) return {child.string()};
  std::error_code unknown;
  if (!in_path(kQemu) || !std::filesystem::is_directory(kQemuRoot, unknown))
    throw PluginError(fmt::format("{} is an x86_64 program, and {} with {} is not here to run it",
                                  child.string(), kQemu, kQemuRoot),
                      {}, kSetUp, Code::not_found);
  return {kQemu, "-cpu", "max", "-L", kQemuRoot, child.string()};
}

}  // namespace tpubridge::aot
