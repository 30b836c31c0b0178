// The device as libtorch's generic code sees it: its name, the current device, the (one) stream, hooks.
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>

#include "tpubridge/device/generator.h"
#include "tpubridge/device/hand_over.h"
#include "tpubridge/device/pinned.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {
namespace {

using c10::Device;
using c10::DeviceIndex;
constexpr auto kTpu = c10::DeviceType::PrivateUse1;

thread_local DeviceIndex current = 0;
std::atomic<HandOver> taker{nullptr};

DeviceIndex count_devices() noexcept {
  try {
    return static_cast<DeviceIndex>(exec::device_count());
  } catch (...) {
    return 0;  // libtorch asks for a number and no exception; the first use of the device says what is wrong
  }
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kTpu; }
  Device exchangeDevice(Device d) const override {
    const Device before(kTpu, current);
    setDevice(d);
    return before;
  }
  Device getDevice() const override { return {kTpu, current}; }
  void setDevice(Device d) const override {
    TORCH_CHECK(d.type() == kTpu, "expected a tpu device, got ", d);
    if (d.has_index()) current = d.index();
  }
  void uncheckedSetDevice(Device d) const noexcept override {
    if (d.has_index()) current = d.index();
  }
  // Programs of a device run in the order they were queued: one stream, and every event has its place in it.
  c10::Stream getStream(Device d) const override { return c10::Stream(c10::Stream::DEFAULT, d); }
  c10::Stream getDefaultStream(Device d) const override { return c10::Stream(c10::Stream::DEFAULT, d); }
  c10::Stream getStreamFromGlobalPool(Device d, bool) const override {
    return c10::Stream(c10::Stream::DEFAULT, d);
  }
  c10::Stream getNewStream(Device d, int) const override { return c10::Stream(c10::Stream::DEFAULT, d); }
  c10::Stream exchangeStream(c10::Stream s) const override { return s; }
  void record(void**, const c10::Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream& s) const override { synchronizeDevice(s.device_index()); }
  void synchronizeEvent(void*) const override { synchronizeDevice(current); }
  void synchronizeDevice(const DeviceIndex d) const override {
    handing_over([&] { exec::materialise(d, {}, "synchronize"); });
  }
  DeviceIndex deviceCount() const noexcept override { return count_devices(); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return count_devices() > 0; }
  bool hasPrimaryContext(DeviceIndex d) const override { return d >= 0 && d < count_devices(); }
  DeviceIndex deviceCount() const override { return count_devices(); }
  void setCurrentDevice(DeviceIndex d) const override { current = d; }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex exchangeDevice(DeviceIndex d) const override { return std::exchange(current, d); }
  DeviceIndex maybeExchangeDevice(DeviceIndex d) const override { return std::exchange(current, d); }
  const at::Generator& getDefaultGenerator(DeviceIndex d) const override { return default_generator(d); }
  at::Generator getNewGenerator(DeviceIndex d) const override { return new_generator(d); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  bool isPinnedPtr(const void* p) const override { return is_pinned(p); }
  Device getDeviceFromPtr(void*) const override {
    TORCH_CHECK(false, "memory of the tpu device has no host address");
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto* s = dynamic_cast<Storage*>(storage.unsafeGetStorageImpl());
    TORCH_CHECK(s, "resize: the storage was not made by tpubridge");
    resize_storage(*s, bytes);
  }
};

const bool registered = [] {
  trace::set_backward_source(torch::autograd::get_current_graph_task_id);
  c10::register_privateuse1_backend("tpu");
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

}  // namespace

void set_hand_over(HandOver function) { taker = function; }
void hand_over(const Error& e) {
  if (const HandOver to = taker) to(e);
}

Device resolve(std::optional<Device> device) {
  TORCH_CHECK(!device || is_tpu(*device), "expected a tpu device, got ", *device);
  const DeviceIndex index = device && device->has_index() ? device->index() : current;
  (void)exec::device(index);  // throws where there is none
  return {kTpu, index};
}

}  // namespace tpubridge::device
