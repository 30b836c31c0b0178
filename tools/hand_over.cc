#include "tools/hand_over.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"

namespace tpubridge::tools {

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
  std::fflush(nullptr);
  ::execv(program.c_str(), argv.data());
  throw file_error("run", program, errno);
}

}  // namespace tpubridge::tools
