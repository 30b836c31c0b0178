// Many processes, on one host or many, that train one model (docs/processes.md).
//
//   tpubridge::distributed::init();                        // who this process is, from its launcher
//   tpubridge::distributed::broadcast_parameters(*model);  // all begin with the weights of rank 0
//   …
//   loss.backward();
//   tpubridge::distributed::average_gradients(*model);     // part of the program, also of a compiled step
//   optimizer.step();
//
// Collectives are traced: they run inside of the compiled program, in the order in which they were called.
// All ranks must call the same ones with the same sizes and element types; where they do not, that is a
// TPUDistributedError on all of them, not a wrong value.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tpubridge/distributed/place.h"

namespace tpubridge::distributed {

struct Options {
  std::chrono::milliseconds join_timeout{300'000};  // for all processes to come
  std::chrono::milliseconds timeout{600'000};       // for one collective
  std::chrono::milliseconds silence{30'000};        // for how long a process may not be heard of
  std::optional<Place> place = {};                  // instead of what the environment says
};

// Waits until all processes of the job are there. Throws TPUConfigurationError (variables that make no sense)
// or TPUDistributedError (somebody does not come, or is another version); ArgumentError the second time.
const Place& init(const Options& options = {});
[[nodiscard]] bool is_initialized();
[[nodiscard]] int64_t rank();        // 0 before init()
[[nodiscard]] int64_t world_size();  // 1 before init()
// Runs the collectives that were called and whose results nobody has read (others may wait for them; a minute
// at most), waits for what was sent, tells the others that this process ends as it should, and, on the one
// that serves the store, waits for them, ten seconds at most. Done at exit by itself; not in a forked child.
void shutdown();

// Each gives a new tensor; x may be on the host, then so is the result. Differentiable, but for max, min and
// product. `reduction`: sum, mean, max, min, product.
[[nodiscard]] at::Tensor all_reduce(const at::Tensor& x, const std::string& reduction = "sum");
[[nodiscard]] at::Tensor all_gather(const at::Tensor& x);  // one after the other along the first dimension
// The reverse: the reduced tensor's part number `rank` along the first dimension, which all must divide.
[[nodiscard]] at::Tensor reduce_scatter(const at::Tensor& x, const std::string& reduction = "sum");
[[nodiscard]] at::Tensor broadcast(const at::Tensor& x, int64_t root = 0);
// Part r along the first dimension goes to rank r.
[[nodiscard]] at::Tensor all_to_all(const at::Tensor& x);
// From one process to another; `x` of recv says size, element type and device.
void send(const at::Tensor& x, int64_t to, int64_t tag = 0);
[[nodiscard]] at::Tensor recv(const at::Tensor& x, int64_t from, int64_t tag = 0);
// Waits until all ranks have come here, and have computed what they traced before.
void barrier();

// Parameters and buffers become those of rank 0.
void broadcast_parameters(torch::nn::Module& module, int64_t root = 0);
// Gradients become their mean over all ranks: several of one element type at once, up to `bucket_bytes`. A
// parameter without a gradient must have none on any rank.
void average_gradients(const std::vector<at::Tensor>& parameters, int64_t bucket_bytes = 25 << 20);
void average_gradients(torch::nn::Module& module, int64_t bucket_bytes = 25 << 20);

}  // namespace tpubridge::distributed
