#include "tpubridge/pjrt/flag_check.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "tpubridge/pjrt/api.h"

namespace tpubridge::pjrt {
namespace {

// Runs in the forked child: XLA reads its flags when a client is made.
[[noreturn]] void try_plugin(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  using GetApi = const PJRT_Api* (*)();
  const auto get = library ? reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi")) : nullptr;
  const PJRT_Api* api = get ? get() : nullptr;
  if (!api) _exit(0);  // not a question of flags: the parent finds out by itself
  PJRT_Plugin_Initialize_Args init{};
  init.struct_size = sizeof init;
  if (has(api, &PJRT_Api::PJRT_Plugin_Initialize) && api->PJRT_Plugin_Initialize(&init)) _exit(0);
  PJRT_Client_Create_Args create{};
  create.struct_size = sizeof create;
  if (has(api, &PJRT_Api::PJRT_Client_Create)) static_cast<void>(api->PJRT_Client_Create(&create));
  _exit(0);
}

std::string read_until_closed(int fd, pid_t child) {
  constexpr int kSeconds = 60;
  std::string text;
  std::array<char, 4096> chunk{};
  const time_t deadline = std::time(nullptr) + kSeconds;
  pollfd wait{fd, POLLIN, 0};
  while (std::time(nullptr) < deadline) {
    if (poll(&wait, 1, 500) <= 0) continue;
    const ssize_t n = read(fd, chunk.data(), chunk.size());
    if (n <= 0) return text;
    if (text.size() < 65536) text.append(chunk.data(), static_cast<size_t>(n));
  }
  kill(child, SIGKILL);
  return text;
}

}  // namespace

void check_xla_flags(const std::string& plugin_path) {
  const char* flags = std::getenv("XLA_FLAGS");
  if (!flags || !*flags) return;
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) throw PluginError("cannot make a pipe to check XLA_FLAGS", {{"XLA_FLAGS", flags}});
  const pid_t child = fork();
  if (child < 0) {
    close(pipe_ends[0]), close(pipe_ends[1]);
    throw PluginError("cannot start a process to check XLA_FLAGS", {{"XLA_FLAGS", flags}});
  }
  if (child == 0) {
    dup2(pipe_ends[1], STDERR_FILENO);
    dup2(pipe_ends[1], STDOUT_FILENO);
    close(pipe_ends[0]), close(pipe_ends[1]);
    for (const int s : {SIGABRT, SIGSEGV, SIGILL}) std::signal(s, SIG_DFL);
    try_plugin(plugin_path);
  }
  close(pipe_ends[1]);
  const std::string text = read_until_closed(pipe_ends[0], child);
  close(pipe_ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL) return;
  const auto at = text.find("Unknown flag");
  const std::string said = at == text.npos ? fmt::format("it died with signal {}", WTERMSIG(status))
                                           : text.substr(at, text.find('\n', at) - at);
  throw PluginError("XLA_FLAGS would make this plugin abort the process: " + said,
                    {{"path", plugin_path}, {"XLA_FLAGS", flags}},
                    "Remove the flag, or pass it per compile (CompileOptions::overrides)");
}

}  // namespace tpubridge::pjrt
