// The plugin's client behind the device, opened at first use, and the data that lives there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "tpubridge/exec/grid.h"
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

[[nodiscard]] int64_t bytes_held(const pjrt::Buffer& buffer);  // on its device

// A value on the devices of a grid, beside the part that its first device has.
struct Spread {
  Layout layout;
  Shape whole;
  std::vector<pjrt::Buffer> others;  // on the other places of the grid, in their order
};

// A buffer as the trace holds it. Counted in the live bytes of metrics().
struct BufferData : trace::DeviceData {
  // `exact`: what of the buffer is the value, where it is larger: a program for many sizes made it (sized.h).
  BufferData(pjrt::Buffer buffer, int device, std::optional<Shape> exact = {});
  ~BufferData() override;
  BufferData(const BufferData&) = delete;
  BufferData& operator=(const BufferData&) = delete;
  // The value, as large as it is, on the one device. Cut or gathered where it is not, once, which waits for
  // it.
  [[nodiscard]] const pjrt::Buffer& buffer() const {
    return other_.load(std::memory_order_acquire) ? whole() : buffer_;
  }
  [[nodiscard]] const pjrt::Buffer& as_it_is() const { return buffer_; }
  // Its parts on several devices: then as_it_is() is that of the first. Null: the value is on one device.
  [[nodiscard]] const Spread* spread() const { return spread_.get(); }
  void set_spread(Spread spread);
  // Of a value on one device: copies on the other places of a grid, which are kept for the next who asks.
  [[nodiscard]] const std::vector<pjrt::Buffer>& copies_over(const GridPtr& grid) const;
  // Another buffer of the same shape in its place.
  void replace(pjrt::Buffer by) {
    mend(std::move(by));
    ++version;
  }
  // The same value, computed again.
  void mend(pjrt::Buffer by);
  // A program may have taken the memory over: then it is no longer counted as ours.
  void count_where_taken() const {
    if (buffer_.deleted()) count(0), uncount_others();
  }
  int device;
  uint64_t version = 0;     // how often it was replaced: copies of it are good as long as it stays
  uint32_t remembered = 0;  // by so many programs that may have to run again (redo.h), which do not see it

 private:
  friend void close_buffers();
  struct Copies {
    GridPtr grid;
    std::vector<pjrt::Buffer> others;
  };
  [[nodiscard]] const pjrt::Buffer& whole() const;
  void cut() const;
  void gather() const;
  void drop_others() const;
  void count(int64_t bytes) const;
  void count_others() const;
  void uncount_others() const;
  mutable pjrt::Buffer buffer_;
  std::optional<Shape> exact_;
  std::unique_ptr<Spread> spread_;
  mutable std::unique_ptr<Copies> copies_;
  mutable std::optional<pjrt::Buffer> gathered_;  // what is spread, whole, for programs of one device
  mutable std::atomic<bool> other_;               // buffer_ is not the value: larger, or a part of it
  mutable int64_t bytes_ = 0;
  mutable std::vector<std::pair<int, int64_t>> counted_;  // bytes on other devices
  BufferData *next_ = nullptr, **place_ = nullptr;        // in the list of all
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
// The same of parts, one for each place of a grid.
[[nodiscard]] trace::Value spread_leaf(std::vector<pjrt::Buffer> parts, const Shape& whole,
                                       const Layout& layout);

// Host memory to the device; `byte_strides` empty: dense. The memory may be reused when this returns.
[[nodiscard]] trace::Value to_device(const void* data, const Shape& shape, std::vector<int64_t> byte_strides,
                                     int device);
// A computed value of these parts, one for each place of the grid.
// Host memory over a grid, each part to its device.
[[nodiscard]] trace::Value to_devices(const void* data, const Shape& shape,
                                      const std::vector<int64_t>& byte_strides, const Layout& layout);
// The value (computed, a leaf) to host memory, dense and row-major. Waits for it.
void to_host(const trace::Value& value, void* to, size_t bytes);
void wait_for(const trace::Node& leaf, uint32_t index);  // until the value is there
// A computed value on another device.
[[nodiscard]] trace::Value copy_to(const trace::Value& value, int device);

// Both throw TPUDeviceError where it was on a client that was given up.
[[nodiscard]] const BufferData& data_of(const trace::Node& leaf, uint32_t index);
[[nodiscard]] const pjrt::Buffer& buffer_of(const trace::Node& leaf, uint32_t index);

}  // namespace tpubridge::exec
