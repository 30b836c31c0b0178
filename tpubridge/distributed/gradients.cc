// One model in many processes: the same weights to begin with, and the mean of the gradients.
#include <ATen/ATen.h>

#include <map>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/distributed/distributed.h"

namespace tpubridge::distributed {
namespace {

using Tensors = std::vector<at::Tensor>;

// In their order, those of one device and element type side by side.
std::vector<Tensors> buckets_of(const Tensors& all, int64_t most_bytes) {
  struct Open {
    size_t at = 0;
    int64_t bytes = 0;
  };
  std::vector<Tensors> out;
  std::map<std::pair<std::string, c10::ScalarType>, Open> open;
  for (const auto& t : all) {
    const auto bytes = static_cast<int64_t>(t.nbytes());
    auto [at, fresh] = open.try_emplace({t.device().str(), t.scalar_type()}, Open{out.size()});
    if (fresh || at->second.bytes + bytes > most_bytes) {
      at->second = {out.size()};
      out.emplace_back();
    }
    out[at->second.at].push_back(t);
    at->second.bytes += bytes;
  }
  return out;
}

// What `change` makes of all of them, in a row, becomes their values.
template <class F>
void together(const Tensors& all, int64_t most_bytes, F change) {
  const at::NoGradGuard no_grad;
  for (const Tensors& bucket : buckets_of(all, most_bytes)) {
    Tensors flat;
    for (const auto& t : bucket) flat.push_back(t.reshape({-1}));
    const at::Tensor changed = change(flat.size() == 1 ? flat[0] : at::cat(flat));
    int64_t begin = 0;
    for (const auto& t : bucket) {
      t.copy_(changed.narrow(0, begin, t.numel()).view(t.sizes()));
      begin += t.numel();
    }
  }
}

void check_bucket(int64_t bytes) {
  if (bytes < 1)
    throw TPUDistributedError("bucket_bytes must be at least 1", {{"bucket_bytes", std::to_string(bytes)}});
}

}  // namespace

void broadcast_parameters(torch::nn::Module& module, int64_t root) {
  Tensors all = module.parameters();
  for (const auto& b : module.buffers())
    if (b.defined()) all.push_back(b);
  together(all, 25 << 20, [&](const at::Tensor& flat) { return broadcast(flat, root); });
}

void average_gradients(const std::vector<at::Tensor>& parameters, int64_t bucket_bytes) {
  check_bucket(bucket_bytes);
  Tensors gradients;
  for (const auto& p : parameters)
    if (p.defined() && p.grad().defined()) gradients.push_back(p.grad());
  together(gradients, bucket_bytes, [](const at::Tensor& flat) { return all_reduce(flat, "mean"); });
}

void average_gradients(torch::nn::Module& module, int64_t bucket_bytes) {
  average_gradients(module.parameters(), bucket_bytes);
}

}  // namespace tpubridge::distributed
