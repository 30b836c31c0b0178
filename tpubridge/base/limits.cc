#include "tpubridge/base/limits.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace tpubridge {

void limit_this_process([[maybe_unused]] uint64_t mapped) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // not left alone where the parent is killed
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve more than there is
  rlimit data{};
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || size <= 0 || ::getrlimit(RLIMIT_DATA, &data) != 0) return;
  data.rlim_cur = std::min(data.rlim_cur, static_cast<rlim_t>(pages) * static_cast<rlim_t>(size) + mapped);
  ::setrlimit(RLIMIT_DATA, &data);
#endif
}

}  // namespace tpubridge
