// C++ functions that a program calls, on plugins with XLA's FFI extension (CPU, CUDA). Torch-free, and with
// no header of XLA's.
//
// All of them stand behind one custom call, `tpubridge_ffi`, whose attribute `tpubridge_op` names the
// function, so a program from the disk cache finds the function of the process that runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tpubridge/base/ffi_names.h"
#include "tpubridge/base/shape.h"

namespace tpubridge::pjrt {
class Plugin;
}

namespace tpubridge::ffi {

// A dense row-major array in the device's memory: of the host on the CPU plugin, of the GPU on CUDA. Not to
// be kept after the call; inputs are not to be written.
struct Buffer {
  DType dtype = DType::f32;
  std::span<const int64_t> dims = {};
  void* data = nullptr;

  [[nodiscard]] int64_t elements() const;
  [[nodiscard]] int64_t dim(size_t i) const;  // throws ArgumentError
  // The elements as T, whose size must be theirs: float for f32, int64_t for s64, uint16_t for bf16.
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    check_width(sizeof(T));
    return {static_cast<T*>(data), static_cast<size_t>(elements())};
  }

 private:
  void check_width(size_t bytes) const;
};

using Constant = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

// Threads that an execution lends to the functions it calls: those that compute the program itself.
class Workers {
 public:
  virtual ~Workers() = default;
  [[nodiscard]] virtual int64_t count() const = 0;
  // Runs task(data) some time, perhaps here and now. False: it will not.
  virtual bool give(void (*task)(void*), void* data) const = 0;
};

// One call. Functions are called by many executions at once, on threads of the plugin.
class Call {
 public:
  Call(std::vector<Buffer> inputs, std::vector<Buffer> outputs, void* stream,
       std::vector<std::pair<std::string, Constant>> constants, const Workers* workers = nullptr);

  [[nodiscard]] std::span<const Buffer> inputs() const { return inputs_; }
  [[nodiscard]] std::span<const Buffer> outputs() const { return outputs_; }
  [[nodiscard]] const Buffer& input(size_t i) const;               // throw ArgumentError where there is none
  [[nodiscard]] const Buffer& input(std::string_view name) const;  // by the op's argument; "xs.1" of a list
  [[nodiscard]] bool has_input(std::string_view name) const;
  [[nodiscard]] const Buffer& output(size_t i = 0) const;
  [[nodiscard]] void* stream() const { return stream_; }  // a CUstream; null on the CPU

  // How many threads parallel() has; 1 on CUDA.
  [[nodiscard]] int64_t threads() const;
  // part(0) to part(parts - 1), on this thread and on others of the plugin's that are free, and waits for
  // all. What a part throws is thrown here, when no other runs any more.
  void parallel(int64_t parts, const std::function<void(int64_t)>& part) const;

  // Arguments of the op that are no tensors.
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] int64_t integer(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] const std::vector<int64_t>& integers(std::string_view name) const;

 private:
  [[nodiscard]] const Constant& constant(std::string_view name) const;
  std::vector<Buffer> inputs_, outputs_;
  void* stream_;
  const Workers* workers_;
  std::vector<std::pair<std::string, Constant>> constants_;
  std::vector<std::string> input_names_;
};

// What it throws, or a text that is not empty, is the error of the program.
using Function = std::function<std::string(const Call&)>;

// Throws ArgumentError where the name is taken: a program that runs must not change under its caller's feet.
void add(const std::string& name, Function function);
[[nodiscard]] bool has(std::string_view name);
// Whether this program calls functions of its process, so that no other can run it.
[[nodiscard]] bool is_called_by(std::string_view program);

// Tells the plugin of the custom call, before it compiles or loads a program. False where it takes none.
bool install(const pjrt::Plugin& plugin, std::string_view platform);

}  // namespace tpubridge::ffi
