// The libraries part of `doctor`: the same library twice, and what the loader's variables do.
#include <fmt/format.h>

#include <array>
#include <map>
#include <set>

#include "tools/doctor.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/files.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;
using Level = Finding::Level;
namespace fs = std::filesystem;

// Libraries of which one process should see a single copy.
constexpr std::array<std::string_view, 8> kSingle = {"libtorch_cpu.so", "libc10.so",           "libtorch.so",
                                                     "libtpu.so",       "libstdc++.so.6",      "libcudart.so",
                                                     "libprotobuf.so",  "libtpubridge_core.so"};

bool same_library(std::string_view file, std::string_view library) {
  return file.starts_with(library) && (file.size() == library.size() || file[library.size()] == '.');
}

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

void look_at_search_path(Part& part) {
  std::map<std::string_view, std::vector<std::string>> found;
  for (const std::string& folder : split(env::raw("LD_LIBRARY_PATH").value_or(""), ":;")) {
    std::error_code failed;
    if (!fs::is_directory(folder, failed)) {
      part.findings.push_back({Level::note,
                               fmt::format("LD_LIBRARY_PATH names {}, which is no folder", folder),
                               {},
                               "Leave it out."});
      continue;
    }
    for (const auto library : kSingle)
      if (fs::exists(Path(folder) / library, failed))
        found[library].push_back((Path(folder) / library).string());
  }
  for (const auto& [library, places] : found) {
    if (places.size() < 2) continue;
    part.findings.push_back({Level::note,
                             fmt::format("LD_LIBRARY_PATH leads to {} copies of {}", places.size(), library),
                             places, "The first is used; two versions in one process crash it: keep one."});
  }
}

void look_at_preload(Part& part) {
  for (const std::string& library : split(env::raw("LD_PRELOAD").value_or(""), ": ")) {
    std::error_code failed;
    const bool missing = library.find('/') != library.npos && !fs::exists(library, failed);
    part.findings.push_back(
        {Level::note, fmt::format("LD_PRELOAD puts {} into every program", library),
         missing ? std::vector<std::string>{"there is no such file"} : std::vector<std::string>{},
         "If something behaves oddly, try without it."});
  }
}

// What the children had loaded after opening a plugin.
void look_at_loaded(Part& part, const ordered_json& plugins) {
  for (const ordered_json& plugin : plugins) {
    if (!plugin.contains("libraries")) continue;
    for (const auto library : kSingle) {
      std::set<std::string> places;
      for (const std::string file : plugin["libraries"])
        if (same_library(Path(file).filename().string(), library)) places.insert(file);
      if (places.size() > 1)
        part.findings.push_back(
            {Level::problem,
             fmt::format("with the plugin {}, {} is loaded {} times", plugin["name"].get<std::string>(),
                         library, places.size()),
             {places.begin(), places.end()},
             "Keep one of them on LD_LIBRARY_PATH, or use a plugin built against the same."});
    }
  }
}

}  // namespace

Part look_at_libraries(const Part& plugins) {
  Part part{"libraries", {}, nullptr};
  look_at_search_path(part);
  look_at_preload(part);
  look_at_loaded(part, plugins.data);
  if (part.findings.empty()) part.findings.push_back({Level::ok, "no library stands in another's way"});
  return part;
}

}  // namespace tpubridge::tools
