// Walks the return addresses up to the first that belongs to somebody else.
#include "tpubridge/device/place.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "tpubridge/device/torch.h"

namespace tpubridge::device {
namespace {

const void* library_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) ? info.dli_fbase : nullptr;
}

std::string readable(const char* symbol) {
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr), &std::free);
  return name ? name.get() : symbol;
}

}  // namespace

std::string user_place() {
  // By address, not by name: the libraries may have been renamed or linked into one.
  const std::array ours = {library_of(reinterpret_cast<const void*>(&user_place)),
                           library_of(reinterpret_cast<const void*>(&at::_ops::add_Tensor::call)),
                           library_of(reinterpret_cast<const void*>(&c10::GetAllocator))};
  std::array<void*, 256> frames;
  const int n = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < n; ++i) {
    Dl_info info;
    if (!dladdr(frames[static_cast<size_t>(i)], &info) || !info.dli_fbase) continue;
    bool inside = false;
    for (const void* base : ours) inside |= info.dli_fbase == base;
    if (inside) continue;
    const auto offset =
        static_cast<char*>(frames[static_cast<size_t>(i)]) - static_cast<char*>(info.dli_fbase);
    std::stringstream text;
    if (info.dli_sname) text << readable(info.dli_sname) << " in ";
    text << info.dli_fname << "+0x" << std::hex << offset;
    return text.str();
  }
  return "unknown";
}

std::string optimizer_above() {
  std::array<void*, 256> frames;
  const int n = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < n; ++i) {
    Dl_info info;
    if (!dladdr(frames[static_cast<size_t>(i)], &info) || !info.dli_sname) continue;
    if (!std::string_view(info.dli_sname).starts_with("_ZN5torch5optim")) continue;
    const std::string name = readable(info.dli_sname);
    if (const auto end = name.find("::step("); end != std::string::npos) return name.substr(0, end);
  }
  return {};
}

}  // namespace tpubridge::device
