#include "tpubridge/plugin/host_cpu.h"

#include <fstream>
#include <sstream>

namespace tpubridge::pjrt {
namespace {

constexpr char kCpuInfo[] = "/proc/cpuinfo";

std::string cpuinfo() {
  std::ostringstream text;
  text << std::ifstream(kCpuInfo).rdbuf();
  return text.str();
}

}  // namespace
}  // namespace tpubridge::pjrt

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstring>

namespace tpubridge::pjrt {
namespace {

// Arm's part numbers of cores that have SVE; shown as Neoverse N1 (0xd0c), which they all can act as.
constexpr const char* kPartsWithSve[] = {"0xd40", "0xd46", "0xd47", "0xd48", "0xd49", "0xd4d",
                                         "0xd4e", "0xd4f", "0xd80", "0xd81", "0xd82", "0xd83",
                                         "0xd84", "0xd85", "0xd87", "0xd8e"};
constexpr char kNeoverseN1[] = "0xd0c";

std::string cpuinfo_without_sve() {
  std::istringstream file(cpuinfo());
  std::string line, out;
  while (std::getline(file, line)) {
    if (line.starts_with("CPU part"))
      for (const char* part : kPartsWithSve)
        if (const size_t at = line.find(part); at != std::string::npos)
          line.replace(at, std::strlen(part), kNeoverseN1);
    out += line + "\n";
  }
  return out;
}

// What the plugin calls instead of open(2); by openat, which is never redirected.
int open_for_plugin(const char* path, int flags, ...) {
  unsigned mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, unsigned);
    va_end(rest);
  }
  if (std::strcmp(path, kCpuInfo) != 0) return openat(AT_FDCWD, path, flags, mode);
  const int shown = memfd_create("cpuinfo", MFD_CLOEXEC);
  if (shown < 0) return openat(AT_FDCWD, path, flags, mode);
  const std::string text = cpuinfo_without_sve();
  if (write(shown, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      lseek(shown, 0, SEEK_SET) != 0) {
    close(shown);
    return openat(AT_FDCWD, path, flags, mode);
  }
  return shown;
}

// Points the library's own reference to `name` at `function`; no other library is touched.
void redirect(const link_map& library, const char* name, void* function) {
  const char* strings = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const ElfW(Rela)* jumps = nullptr;
  size_t bytes = 0;
  for (const ElfW(Dyn)* d = library.l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(d->d_un.d_ptr);
    if (d->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_JMPREL) jumps = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr);
    if (d->d_tag == DT_PLTRELSZ) bytes = d->d_un.d_val;
  }
  if (!strings || !symbols || !jumps) return;
  for (size_t i = 0; i < bytes / sizeof *jumps; ++i) {
    if (std::strcmp(strings + symbols[ELF64_R_SYM(jumps[i].r_info)].st_name, name) != 0) continue;
    auto* const slot = reinterpret_cast<void**>(library.l_addr + jumps[i].r_offset);
    const auto page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    auto* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) & ~(page_size - 1));
    if (mprotect(page, page_size, PROT_READ | PROT_WRITE) == 0) *slot = function;
  }
}

}  // namespace

void hide_sve_if_missing(void* library) {
  if (getauxval(AT_HWCAP) & HWCAP_SVE) return;
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || !map) return;
  redirect(*map, "open", reinterpret_cast<void*>(&open_for_plugin));
}

std::string cpuinfo_for_plugins() {
  return getauxval(AT_HWCAP) & HWCAP_SVE ? cpuinfo() : cpuinfo_without_sve();
}

}  // namespace tpubridge::pjrt
#else
namespace tpubridge::pjrt {
void hide_sve_if_missing(void*) {}
std::string cpuinfo_for_plugins() { return cpuinfo(); }
}  // namespace tpubridge::pjrt
#endif
