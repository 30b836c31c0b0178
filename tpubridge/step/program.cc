#include "tpubridge/step/program.h"

#include <link.h>

#include <algorithm>

namespace tpubridge::step {
namespace {

// The executable comes first, and is all that is asked for.
template <class Ask>
void ask_executable(Ask ask) {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        (*static_cast<Ask*>(to))(*info);
        return 1;
      },
      &ask);
}

Range words_in(uintptr_t begin, size_t bytes) {
  return {(begin + kWord - 1) / kWord * kWord, (begin + bytes) / kWord * kWord};
}

// The addresses of functions that are found when they are first called.
Range functions_of(const dl_phdr_info& info, const ElfW(Dyn) * entry) {
  Range r;
  size_t functions = 0;
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_PLTGOT) r.begin = entry->d_un.d_ptr;
    if (entry->d_tag == DT_PLTRELSZ) functions = entry->d_un.d_val / sizeof(ElfW(Rela));
  }
  if (r.begin != 0 && r.begin < info.dlpi_addr) r.begin += info.dlpi_addr;
  constexpr size_t kOfTheLoader = 3;
  r.end = r.begin + (functions + kOfTheLoader) * kWord;
  return r;
}

// What remains of `ranges` without this one.
std::vector<Range> without(const std::vector<Range>& ranges, const Range& cut) {
  std::vector<Range> out;
  for (const Range& r : ranges)
    for (const Range part : {Range{r.begin, std::min(r.end, cut.begin)}, {std::max(r.begin, cut.end), r.end}})
      if (part.begin < part.end) out.push_back(part);
  return out;
}

std::vector<Range> data_of(const dl_phdr_info& info) {
  std::vector<Range> out, not_data;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& h = info.dlpi_phdr[i];
    const uintptr_t begin = info.dlpi_addr + h.p_vaddr;
    if (h.p_type == PT_LOAD && (h.p_flags & PF_W)) out.push_back(words_in(begin, h.p_memsz));
    if (h.p_type == PT_GNU_RELRO) not_data.push_back({begin, begin + h.p_memsz});  // fixed once it runs
    if (h.p_type == PT_DYNAMIC)
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      not_data.push_back(functions_of(info, reinterpret_cast<const ElfW(Dyn)*>(begin)));
  }
  for (const Range& r : not_data) out = without(out, r);
  return out;
}

}  // namespace

const std::vector<Range>& program_data() {
  static const auto found = [] {
    std::vector<Range> out;
    ask_executable([&](const dl_phdr_info& info) { out = data_of(info); });
    return out;
  }();
  return found;
}

Range thread_data() {
  thread_local const Range found = [] {
    Range out;
    ask_executable([&](const dl_phdr_info& info) {
      const auto begin = reinterpret_cast<uintptr_t>(info.dlpi_tls_data);
      for (int i = 0; begin != 0 && i < info.dlpi_phnum; ++i)
        if (const auto& h = info.dlpi_phdr[i]; h.p_type == PT_TLS) out = words_in(begin, h.p_memsz);
    });
    return out.begin < out.end ? out : Range();
  }();
  return found;
}

const std::vector<Range>& few_globals() {
  constexpr size_t kFew = 1024;  // words
  static const auto found = [] {
    size_t words = 0;
    for (const Range& r : program_data()) words += r.words();
    return words <= kFew ? program_data() : std::vector<Range>();
  }();
  return found;
}

bool on_data(uintptr_t from, size_t n) {
  for (const Range& r : program_data())
    if (r.has(from, n)) return true;
  return false;
}

}  // namespace tpubridge::step
