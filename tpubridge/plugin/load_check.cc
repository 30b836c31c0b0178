#include "tpubridge/plugin/load_check.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "tpubridge/base/env.h"
#include "tpubridge/capi/call.h"
#include "tpubridge/capi/convert.h"

namespace tpubridge::pjrt {
namespace {

// Runs in the forked child: XLA reads its flags when a client is made or a program compiled.
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
  if (!has(api, &PJRT_Api::PJRT_Client_Create) || api->PJRT_Client_Create(&create)) _exit(0);
  const Program source{
      "func.func @main() -> tensor<i32> { %0 = stablehlo.constant dense<0> : tensor<i32> return %0 : "
      "tensor<i32> }"};
  const std::string options = CompileOptions{}.serialize();
  const PJRT_Program program = to_pjrt(source);
  PJRT_Client_Compile_Args compile{};
  compile.struct_size = sizeof compile;
  compile.client = create.client;
  compile.program = &program;
  compile.compile_options = options.data();
  compile.compile_options_size = options.size();
  static_cast<void>(api->PJRT_Client_Compile(&compile));
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

#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#else
constexpr unsigned kMachine = EM_AARCH64;
#endif

}  // namespace

void refuse_library(const std::string& path, const std::string& why, std::string hint) {
  throw PluginError(fmt::format("cannot load the PJRT plugin {}: {}", path, why), {{"path", path}},
                    std::move(hint));
}

void check_library_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_library(path, "it cannot be read", "Check the file's permissions");
  Elf64_Ehdr head{};
  if (!file.read(reinterpret_cast<char*>(&head), sizeof head) ||
      std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_phentsize != sizeof(Elf64_Phdr))
    refuse_library(path, "it is not a shared library", "Give the path of the plugin's .so");
  if (head.e_machine != kMachine)
    refuse_library(path,
                   fmt::format("it was built for another machine (ELF machine {}, this one is {})",
                               head.e_machine, kMachine),
                   "Install the plugin's build for this machine");
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path, unknown);
  if (unknown) refuse_library(path, "it cannot be read", "Check the file's permissions");
  const auto fits = [size](uint64_t offset, uint64_t bytes) {
    return offset <= size && bytes <= size - offset;
  };
  bool whole = fits(head.e_phoff, uint64_t{head.e_phnum} * sizeof(Elf64_Phdr));
  file.seekg(static_cast<std::streamoff>(whole ? head.e_phoff : 0));
  for (unsigned i = 0; whole && i < head.e_phnum; ++i) {
    Elf64_Phdr part{};
    whole = file.read(reinterpret_cast<char*>(&part), sizeof part) && fits(part.p_offset, part.p_filesz);
  }
  if (!whole)
    refuse_library(path, "the file is cut off", "Fetch it again: an interrupted download leaves such a file");
}

void check_thread_variables() {
  for (const char* name : {"PJRT_NPROC", "NPROC"}) {
    const auto value = env::raw(name);
    if (!value) continue;
    (void)env::parse_integer({name, env::Type::integer, "", "1..1024", "", env::Stability::stable}, *value);
  }
}

namespace {
// What does not begin with a dash is the name of a file to XLA, which reads a pipe or /dev/zero for ever.
void check_flags_file(std::string_view flags) {
  flags.remove_prefix(std::min(flags.find_first_not_of(" \t\r\n"), flags.size()));
  if (flags.empty() || flags.front() == '-') return;
  std::error_code unknown;
  const auto kind = std::filesystem::status(flags, unknown).type();
  if (kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::not_found || unknown)
    return;
  throw PluginError(fmt::format("XLA_FLAGS names {}, which is not a regular file", flags),
                    {{"XLA_FLAGS", std::string(flags)}},
                    "Name a file with flags in it, or give the flags themselves: they begin with --.",
                    Code::invalid_argument);
}
}  // namespace

void check_xla_flags(const std::string& path) {
  const char* flags = std::getenv("XLA_FLAGS");
  if (!flags || !*flags) return;
  check_flags_file(flags);
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0)
    throw PluginError("cannot make a pipe to check XLA_FLAGS", {{"XLA_FLAGS", flags}});
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
    try_plugin(path);
  }
  close(pipe_ends[1]);
  const std::string text = read_until_closed(pipe_ends[0], child);
  close(pipe_ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
    return;
  const auto at = text.find("Unknown flag");
  const std::string said = at == text.npos ? fmt::format("a trial process ended with status {}", status)
                                           : text.substr(at, text.find('\n', at) - at);
  throw PluginError("XLA_FLAGS would make this plugin abort the process: " + said,
                    {{"path", path}, {"XLA_FLAGS", flags}},
                    "Remove the flag, or pass it per compile (CompileOptions::overrides)");
}

}  // namespace tpubridge::pjrt
