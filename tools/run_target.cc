#include "tools/run_target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"

namespace tpubridge::tools {

void check_target(const std::string& file, std::initializer_list<std::string_view> endings) {
  const Path path(file);
  if (std::ranges::find(endings, path.extension().string()) == endings.end()) {
    std::string known;
    for (const auto e : endings) known += (known.empty() ? "" : " or ") + std::string(e);
    throw ArgumentError(fmt::format("cannot write {}: the name must end in {}", file, known),
                        {{"file", file}});
  }
  const Path folder = path.has_parent_path() ? path.parent_path() : Path(".");
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed))
    throw file_error("write", path, failed ? failed.value() : ENOENT);
  if (access(folder.c_str(), W_OK) != 0) throw file_error("write", path, errno);
}

}  // namespace tpubridge::tools
