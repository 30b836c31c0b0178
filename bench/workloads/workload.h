// The workloads of the side-by-side benchmark, as programs of a user of libtorch. bench/peers/ has the same
// maths in Python; bench/harness/workloads.py has the sizes.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tpubridge/tpubridge.h"

namespace workloads {

// Sizes, as key=value on the command line; one that is missing is an error.
class Params {
 public:
  explicit Params(std::map<std::string, std::string> values) : values_(std::move(values)) {}
  [[nodiscard]] const std::string& text(const std::string& name) const;
  [[nodiscard]] int64_t number(const std::string& name) const;
  [[nodiscard]] int64_t number_or(const std::string& name, int64_t otherwise) const {
    return values_.contains(name) ? number(name) : otherwise;
  }

 private:
  std::map<std::string, std::string> values_;
};

enum class Mode {
  replayed,  // on the device, by tpubridge::compile
  traced,    // on the device, no compile(): the graph is traced at every call
  libtorch,  // libtorch's own kernels on the CPU
};

struct Workload {
  std::function<void()> call;              // once; returns when the result is there
  std::function<void(int64_t)> many = {};  // so often with one wait at the end
  std::function<void()> renew = {};        // forgets the compiled step, not what it learned
  std::function<std::map<std::string, double>()> facts = {};  // figures that are not times
  std::shared_ptr<void> state = {};                           // what the functions use
};

using Make = Workload (*)(Mode, const Params&);
Workload tiny(Mode, const Params&);
Workload chain(Mode, const Params&);
Workload to_device(Mode, const Params&);
Workload to_host(Mode, const Params&);
Workload trace(Mode, const Params&);
Workload mlp(Mode, const Params&);
Workload resnet(Mode, const Params&);
Workload efficientnet(Mode, const Params&);
Workload mobilenet(Mode, const Params&);
Workload swin(Mode, const Params&);
Workload unet(Mode, const Params&);
Workload gpt(Mode, const Params&);
Workload birnn(Mode, const Params&);
Workload decode(Mode, const Params&);

inline torch::Device device_of(Mode mode) { return torch::Device(mode == Mode::libtorch ? "cpu" : "tpu"); }
void wait(const torch::Tensor& result);

// While it lives, ops compute in bf16 where that is safe; the weights stay f32. For f32 it does nothing.
class Autocast {
 public:
  Autocast(torch::Device device, const std::string& dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType type_;
  bool on_;
};

// Bytes on the device while a call runs: what is held, and what the program needs beside its arguments.
double peak_bytes(const std::function<void()>& traced_call);

}  // namespace workloads
