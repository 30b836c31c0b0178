#include "tpubridge/base/confine.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <vector>

#include "tpubridge/base/fd.h"
#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#endif

namespace tpubridge {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kConfines = false;  // they look into processes themselves
#else
constexpr bool kConfines = true;
#endif
#if defined(__x86_64__)
constexpr long kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr long kMachine = AUDIT_ARCH_AARCH64;
#endif

constexpr std::string_view kRefused = "refused system call: ";

struct Call {
  long number;
  std::string_view name;
};
// io_uring would do what the others may not.
constexpr std::array kNever = {
    Call{__NR_execve, "execve"},
    Call{__NR_execveat, "execveat"},
    Call{__NR_ptrace, "ptrace"},
    Call{__NR_process_vm_readv, "process_vm_readv"},
    Call{__NR_process_vm_writev, "process_vm_writev"},
    Call{__NR_tkill, "tkill"},
    Call{__NR_pidfd_send_signal, "pidfd_send_signal"},
    Call{__NR_io_uring_setup, "io_uring_setup"},
    Call{__NR_bpf, "bpf"},
    Call{__NR_perf_event_open, "perf_event_open"},
    Call{__NR_mount, "mount"},
    Call{__NR_truncate, "truncate"},  // Landlock knows it from its third version on
    Call{__NR_unshare, "unshare"},
    Call{__NR_setns, "setns"}};
// Their first argument is a process: this one alone, which abort() needs.
constexpr std::array kToItself = {Call{__NR_kill, "kill"}, Call{__NR_tgkill, "tgkill"},
                                  Call{__NR_rt_sigqueueinfo, "rt_sigqueueinfo"},
                                  Call{__NR_rt_tgsigqueueinfo, "rt_tgsigqueueinfo"}};
constexpr std::array kSocket = {Call{__NR_socket, "socket"}};
// To read and to empty at once: Linux does it, and Landlock before its third version takes it for reading.
#if defined(__x86_64__)
constexpr std::array kOpen = {Call{__NR_openat, "openat"}, Call{__NR_open, "open"}};
#else
constexpr std::array kOpen = {Call{__NR_openat, "openat"}};
#endif

void say(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

// Only what a signal handler may call.
void on_refused(int signal, siginfo_t* info, void*) {
  say(kRefused);
  const auto say_if = [&](const auto& calls) {
    for (const Call& c : calls)
      if (c.number == info->si_syscall) say(c.name);
  };
  say_if(kNever), say_if(kToItself), say_if(kSocket), say_if(kOpen);
  say("\n");
  std::signal(signal, SIG_DFL);
  ::raise(signal);
  ::_exit(128 + signal);
}

constexpr sock_filter load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}
constexpr sock_filter answer(uint32_t value) { return BPF_STMT(BPF_RET | BPF_K, value); }
// Goes on with the next one where it is equal, otherwise behind the `skipped` ones after it.
constexpr sock_filter if_equal(long value, uint8_t skipped) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(value), 0, skipped);
}

std::vector<sock_filter> filter() {
  const auto argument = [](size_t i) { return load(offsetof(seccomp_data, args) + i * sizeof(uint64_t)); };
  const sock_filter number = load(offsetof(seccomp_data, nr)), first = argument(0);
  const sock_filter trap = answer(SECCOMP_RET_TRAP), allow = answer(SECCOMP_RET_ALLOW);
  std::vector<sock_filter> out = {load(offsetof(seccomp_data, arch)),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(kMachine), 1, 0),
                                  answer(SECCOMP_RET_KILL_PROCESS), number};
#if defined(__x86_64__)  // the numbers of the x32 interface, which has the same machine
  out.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
  out.push_back(answer(SECCOMP_RET_KILL_PROCESS));
#endif
  for (const Call& c : kNever) out.insert(out.end(), {if_equal(c.number, 1), trap});
  for (const Call& c : kToItself)
    out.insert(out.end(), {if_equal(c.number, 4), first, if_equal(::getpid(), 1), allow, trap});
  for (const Call& c : kOpen)
    out.insert(out.end(), {if_equal(c.number, 5), argument(c.number == __NR_openat ? 2 : 1),
                           BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_TRUNC | O_ACCMODE),
                           if_equal(O_TRUNC | O_RDONLY, 1), trap, allow});
#ifdef __NR_openat2  // its flags lie in memory, which no filter sees: who asks does without
  out.insert(out.end(), {if_equal(__NR_openat2, 1), answer(SECCOMP_RET_ERRNO | ENOSYS)});
#endif
  // A look into the user database asks a service by a local socket, and does without.
  out.insert(out.end(), {if_equal(__NR_socket, 4), first, if_equal(AF_UNIX, 1),
                         answer(SECCOMP_RET_ERRNO | EACCES), trap, allow});
  return out;
}

}  // namespace

bool forbid_system_calls() {
  if (!kConfines || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  struct sigaction action {};
  action.sa_sigaction = on_refused;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return false;
  std::vector<sock_filter> code = filter();
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return ::syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

std::string refused_call(std::string_view text) {
  const size_t at = text.rfind(kRefused);
  if (at == text.npos) return "";
  text.remove_prefix(at + kRefused.size());
  return std::string(text.substr(0, text.find('\n')));
}

#ifdef LANDLOCK_CREATE_RULESET_VERSION
namespace {

// From the third version on; older headers have no name for it.
uint64_t right_to_truncate() {
  const long version = ::syscall(__NR_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version >= 3 ? uint64_t{1} << 14 : 0;
}

}  // namespace

bool write_only_below(std::span<const Path> folders) {
  if (!kConfines) return false;
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs =
      LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
      LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
      LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
      LANDLOCK_ACCESS_FS_MAKE_SYM | right_to_truncate();
  const Fd rules(static_cast<int>(::syscall(__NR_landlock_create_ruleset, &attributes,
                                            offsetof(landlock_ruleset_attr, handled_access_fs) + 8, 0)));
  if (!rules) return false;
  const auto allow = [&](const Path& path, uint64_t what) {
    const Fd there(::open(path.c_str(), O_PATH | O_CLOEXEC));
    const landlock_path_beneath_attr rule{what, there.get()};
    if (there) ::syscall(__NR_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  };
  for (const Path& folder : folders) allow(folder, attributes.handled_access_fs);
  const uint64_t write = LANDLOCK_ACCESS_FS_WRITE_FILE | right_to_truncate();
  allow("/dev/null", write);
  allow("/proc/self", write);  // threads get their names there
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(__NR_landlock_restrict_self, rules.get(), 0) == 0;
}
#else
bool write_only_below(std::span<const Path>) { return false; }
#endif

}  // namespace tpubridge
