// Walks the return addresses up to the first that belongs to somebody else.
#include "tpubridge/device/place.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "tpubridge/device/torch.h"

namespace tpubridge::device {
namespace {

constexpr int kFrames = 256;

const void* library_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) ? info.dli_fbase : nullptr;
}

std::string readable(const char* symbol) {
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr), &std::free);
  return name ? name.get() : symbol;
}

// The optimizer whose step() the address is in, empty for most.
std::string optimizer_at(const void* address) {
  Dl_info info;
  if (!dladdr(address, &info) || !info.dli_sname ||
      !std::string_view(info.dli_sname).starts_with("_ZN5torch5optim"))
    return {};
  const std::string name = readable(info.dli_sname);
  const size_t end = name.find("::step(");
  return end == name.npos ? std::string() : name.substr(0, end);
}

// The callers, the innermost first, until `f` is done with them. Of each: where it is, and in what.
template <class F>
void each_caller(F f) {
  std::array<void*, kFrames> frames;
  const int n = backtrace(frames.data(), kFrames);
  for (int i = 0; i < n; ++i) {
    Dl_info info;
    const void* at = frames[static_cast<size_t>(i)];
    if (dladdr(at, &info) && info.dli_fbase && f(at, info)) return;
  }
}

}  // namespace

std::string user_place() {
  // By address, not by name: the libraries may have been renamed or linked into one.
  const std::array ours = {library_of(reinterpret_cast<const void*>(&user_place)),
                           library_of(reinterpret_cast<const void*>(&at::_ops::add_Tensor::call)),
                           library_of(reinterpret_cast<const void*>(&c10::GetAllocator))};
  std::string place = "unknown";
  each_caller([&](const void* at, const Dl_info& info) {
    if (std::find(ours.begin(), ours.end(), info.dli_fbase) != ours.end()) return false;
    std::stringstream text;
    if (info.dli_sname) text << readable(info.dli_sname) << " in ";
    text << info.dli_fname << "+0x" << std::hex
         << static_cast<const char*>(at) - static_cast<const char*>(info.dli_fbase);
    place = text.str();
    return true;
  });
  return place;
}

std::string optimizer_above() {
  // Looking an address up takes a millisecond in a library as large as libtorch, and a call has the same ones
  // for all of its ops.
  static thread_local std::unordered_map<const void*, std::string> known;
  constexpr size_t kMost = 4096;
  if (known.size() > kMost) known.clear();
  std::array<void*, kFrames> frames;
  const int n = backtrace(frames.data(), kFrames);
  for (int i = 0; i < n; ++i) {
    const void* at = frames[static_cast<size_t>(i)];
    auto it = known.find(at);
    if (it == known.end()) it = known.emplace(at, optimizer_at(at)).first;
    if (!it->second.empty()) return it->second;
  }
  return {};
}

}  // namespace tpubridge::device
