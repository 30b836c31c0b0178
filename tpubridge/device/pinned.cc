// Keeps the ranges that were handed out, so that any pointer into one is known.
#include "tpubridge/device/pinned.h"

#include <c10/core/impl/alloc_cpu.h>

#include <map>
#include <mutex>

#include "tpubridge/device/torch.h"

namespace tpubridge::device {
namespace {

struct Ranges {
  std::mutex mutex;
  std::map<const char*, size_t> held;
};
Ranges& ranges() {
  static auto* r = new Ranges;
  return *r;
}

void release(void* p) {
  {
    std::lock_guard lock(ranges().mutex);
    ranges().held.erase(static_cast<char*>(p));
  }
  c10::free_cpu(p);
}

struct Pinned final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    void* p = c10::alloc_cpu(n);
    if (p) {
      std::lock_guard lock(ranges().mutex);
      ranges().held[static_cast<char*>(p)] = n;
    }
    return {p, p, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t n) const override { default_copy_data(to, from, n); }
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static Pinned allocator;
  return &allocator;
}

bool is_pinned(const void* pointer) {
  const auto* p = static_cast<const char*>(pointer);
  std::lock_guard lock(ranges().mutex);
  auto it = ranges().held.upper_bound(p);
  if (it == ranges().held.begin()) return false;
  --it;
  return p < it->first + it->second;
}

}  // namespace tpubridge::device
