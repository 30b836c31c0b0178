// The plugin's client behind the device, opened at first use, and the data that lives there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "tpubridge/exec/mutex.h"
#include "tpubridge/pjrt/client.h"
#include "tpubridge/trace/node.h"

namespace tpubridge::exec {

// The client: the plugin that discovery finds (TPUBRIDGE_PLUGIN chooses). Throws PluginError where there is
// none.
[[nodiscard]] pjrt::Client& client();
[[nodiscard]] int device_count();  // opens the client
[[nodiscard]] const pjrt::Device& device(int index);
[[nodiscard]] bool runs_in_this_process();  // on its threads, in its memory: the CPU plugin

// A buffer as the trace holds it. Counted in the live bytes of metrics().
struct BufferData : trace::DeviceData {
  // `exact`: what of the buffer is the value, where it is larger: a program for many sizes made it (sized.h).
  BufferData(pjrt::Buffer buffer, int device, std::optional<Shape> exact = {});
  ~BufferData() override;
  BufferData(const BufferData&) = delete;
  BufferData& operator=(const BufferData&) = delete;
  // As large as the value is. Cut where it is not, once, which waits for it.
  [[nodiscard]] const pjrt::Buffer& buffer() const {
    if (larger_.load(std::memory_order_acquire)) cut();
    return buffer_;
  }
  [[nodiscard]] const pjrt::Buffer& as_it_is() const { return buffer_; }
  // Another buffer of the same shape in its place.
  void replace(pjrt::Buffer by) {
    mend(std::move(by));
    ++version;
  }
  // The same value, computed again.
  void mend(pjrt::Buffer by);
  // A program may have taken the memory over: then it is no longer counted as ours.
  void count_where_taken() const {
    if (buffer_.deleted()) count(0);
  }
  int device;
  uint64_t version = 0;     // how often it was replaced: copies of it are good as long as it stays
  uint32_t remembered = 0;  // by so many programs that may have to run again (redo.h), which do not see it

 private:
  friend void close_buffers();
  void cut() const;
  void count(int64_t bytes) const;
  mutable pjrt::Buffer buffer_;
  std::optional<Shape> exact_;
  mutable std::atomic<bool> larger_;  // than the value
  mutable int64_t bytes_ = 0;
  BufferData *next_ = nullptr, **place_ = nullptr;  // in the list of all
};

// What a program is given: data, and its shape as the trace sees it.
struct GivenLeaf {
  std::shared_ptr<trace::DeviceData> data;
  Shape shape;
};

// Whether one owner alone can see it.
[[nodiscard]] inline bool is_private(const std::shared_ptr<trace::DeviceData>& data) {
  return data.use_count() == 1 + static_cast<long>(static_cast<const BufferData&>(*data).remembered);
}

// Frees every buffer of every value: whoever asks for one from then on is told so.
void close_buffers();
// The client is given up, with every buffer and program, and a new one is opened: for a device that is lost.
// Tensors that were on the device throw TPUDeviceError from then on when their values are asked for; writing
// new values to them works. No other thread may use the device meanwhile. Where the new client cannot be
// opened it throws, and the next use of the device tries again.
void reopen();
[[nodiscard]] uint64_t openings();  // how often it was done: what was compiled before is of no use
// Whether the device still takes a value and gives it back.
[[nodiscard]] bool answers(int device);

// A computed value of the trace: what this buffer holds, shaped as the trace sees it.
[[nodiscard]] trace::Value leaf_of(pjrt::Buffer buffer, const Shape& shape, int device);

// Host memory to the device; `byte_strides` empty: dense. The memory may be reused when this returns.
[[nodiscard]] trace::Value to_device(const void* data, const Shape& shape, std::vector<int64_t> byte_strides,
                                     int device);
// The value (computed, a leaf) to host memory, dense and row-major. Waits for it.
void to_host(const trace::Value& value, void* to, size_t bytes);
void wait_for(const trace::Node& leaf, uint32_t index);  // until the value is there
// A computed value on another device.
[[nodiscard]] trace::Value copy_to(const trace::Value& value, int device);

// Both throw TPUDeviceError where it was on a client that was given up.
[[nodiscard]] const BufferData& data_of(const trace::Node& leaf, uint32_t index);
[[nodiscard]] const pjrt::Buffer& buffer_of(const trace::Node& leaf, uint32_t index);

}  // namespace tpubridge::exec
