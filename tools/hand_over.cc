#include "tools/hand_over.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "tools/interrupt.h"
#include "tpubridge/base/absolute.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"

namespace tpubridge::tools {

std::optional<std::string> library_path_with_torch() {
  const std::string torch = env::text("TPUBRIDGE_TORCH_DIR");
  if (torch.empty()) return std::nullopt;
  std::string folders = (absolute_path(torch) / "lib").string();
  if (const auto others = env::raw("LD_LIBRARY_PATH"); others && !others->empty()) folders += ":" + *others;
  return folders;
}

int hand_over(const Invocation& call, const std::string& name, const std::string& what) {
  std::error_code failed;
  const Path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const Path program = self.parent_path() / name;
  if (failed || !std::filesystem::exists(program, failed))
    throw UnsupportedError("this tpubridge cannot " + what + ": the program " + name + " is not beside it",
                           {{"path", program.string()}},
                           "Build tpubridge with torch (setup/deps gets it); the command then has it.",
                           Code::unsupported);
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), call.words.begin() + 1, call.words.end());  // without the subcommand
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  if (const auto folders = library_path_with_torch()) ::setenv("LD_LIBRARY_PATH", folders->c_str(), 1);
  std::fflush(nullptr);
  postpone_interrupts();
  ::execv(program.c_str(), argv.data());
  const int why = errno;
  handle_interrupts(call.json);
  throw file_error("run", program, why);
}

}  // namespace tpubridge::tools
