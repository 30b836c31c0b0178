#include "tpubridge/backend/replicas.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <map>

#include "tpubridge/backend/first_line.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/mesh/collectives.h"

namespace tpubridge {
namespace {

constexpr const char* kWrap = "wrap_model";

Replicas::Module copy_of(const Replicas::Module& model, const std::function<Replicas::Module()>& another) {
  Replicas::Module made;
  try {
    made = another ? another() : model->clone();
  } catch (const std::exception& e) {
    throw distributed_error(
        kWrap, "the model cannot be copied: " + first_line(e.what()),
        "Derive it from torch::nn::Cloneable, or give a function that makes another one.");
  }
  if (!made || made == model)
    throw distributed_error(kWrap, "the function that makes another model gave none");
  return made;
}

// Element types, what has gradients, and which parts are in training mode; the values come later.
void match(const torch::nn::Module& model, const torch::nn::Module& made) {
  const auto want = model.parameters(), have = made.parameters();
  for (size_t k = 0; k < std::min(want.size(), have.size()); ++k) {
    if (have[k].scalar_type() != want[k].scalar_type()) have[k].set_data(have[k].to(want[k].scalar_type()));
    have[k].set_requires_grad(want[k].requires_grad());
  }
  const auto parts = model.modules(), made_parts = made.modules();  // parents come first
  for (size_t k = 0; k < std::min(parts.size(), made_parts.size()); ++k)
    made_parts[k]->train(parts[k]->is_training());
}

// The values of one model into another of the same structure.
void copy_values(const torch::nn::Module& from, const torch::nn::Module& to, bool parameters) {
  const at::NoGradGuard no_grad;
  const auto copy = [](const auto& source, const auto& target) {
    if (source.size() != target.size())
      throw distributed_error(kWrap, "two copies of the model have different parts");
    for (size_t i = 0; i < source.size(); ++i) {
      const at::Tensor &a = source[i].value(), &b = target[i].value();
      if (source[i].key() != target[i].key() || a.defined() != b.defined() ||
          (a.defined() && (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type())))
        throw distributed_error(kWrap, "two copies of the model differ in '" + source[i].key() + "'");
      if (a.defined()) target[i].value().copy_(a);
    }
  };
  if (parameters) copy(from.named_parameters(), to.named_parameters());
  copy(from.named_buffers(), to.named_buffers());
}

}  // namespace

Replicas::Replicas(Module model, std::vector<c10::Device> devices, const std::function<Module()>& another)
    : devices_(std::move(devices)) {
  if (!model) throw ArgumentError("wrap_model was given no model");
  if (devices_.empty()) throw ArgumentError("wrap_model was given no devices");
  modules_.push_back(model);
  for (size_t i = 1; i < devices_.size(); ++i) modules_.push_back(copy_of(model, another));
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (i > 0) match(*model, *modules_[i]);
    modules_[i]->to(devices_[i]);
    parameters_.push_back(modules_[i]->parameters());
  }
  broadcast();
}

std::vector<BatchShare> Replicas::share(int64_t rows) const {
  const auto parts = static_cast<int64_t>(modules_.size());
  if (rows < 1) throw distributed_error("backward", "the batch has no rows");
  std::vector<BatchShare> out;
  int64_t from = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t count = rows / parts + (i < rows % parts ? 1 : 0);
    out.push_back({from, count, static_cast<double>(count * parts) / static_cast<double>(rows)});
    from += count;
  }
  return out;
}

void Replicas::broadcast() {
  for (size_t i = 1; i < modules_.size(); ++i) copy_values(*modules_[0], *modules_[i], true);
}

void Replicas::broadcast_buffers() {
  if (modules_[0]->buffers().empty()) return;
  for (size_t i = 1; i < modules_.size(); ++i) copy_values(*modules_[0], *modules_[i], false);
}

void Replicas::average_gradients() {
  if (modules_.size() == 1) return;
  const at::NoGradGuard no_grad;
  std::map<at::ScalarType, std::vector<size_t>> by_type;  // parameters that have a gradient somewhere
  for (size_t k = 0; k < parameters_[0].size(); ++k)
    for (const auto& of_one : parameters_)
      if (of_one[k].grad().defined()) {
        by_type[of_one[k].grad().scalar_type()].push_back(k);
        break;
      }
  for (const auto& [type, which] : by_type) {
    std::vector<at::Tensor> flat;
    for (const auto& of_one : parameters_) {
      std::vector<at::Tensor> parts;
      for (const size_t k : which) {
        const at::Tensor& grad = of_one[k].grad();
        parts.push_back((grad.defined() ? grad : at::zeros_like(of_one[k])).reshape({-1}));
      }
      flat.push_back(at::cat(parts));
    }
    const auto mean = all_reduce(flat, Reduce::mean);
    for (size_t r = 0; r < parameters_.size(); ++r) {
      int64_t from = 0;
      for (const size_t k : which) {
        at::Tensor& p = parameters_[r][k];
        const at::Tensor part = mean[r].narrow(0, from, p.numel()).view(p.sizes());
        from += p.numel();
        if (p.grad().defined())
          p.mutable_grad().copy_(part);
        else
          p.mutable_grad() = part.clone();
      }
    }
  }
}

void Replicas::add_optimizer(std::shared_ptr<torch::optim::Optimizer> optimizer) {
  if (!optimizer) throw ArgumentError("the function that makes an optimizer gave none");
  if (optimizers_.size() == modules_.size()) optimizers_.clear();
  optimizers_.push_back(std::move(optimizer));
}

void Replicas::step() {
  if (optimizers_.size() != modules_.size())
    throw distributed_error("step", "there is no optimizer for each replica",
                            "Call make_optimizers() first.");
  for (const auto& o : optimizers_) o->step();
}

void Replicas::zero_grad() {
  for (const auto& m : modules_) m->zero_grad();
}

at::Tensor rows_on(const at::Tensor& tensor, int64_t all, const BatchShare& share,
                   const c10::Device& device) {
  if (!tensor.defined()) return tensor;
  if (tensor.dim() == 0 || tensor.size(0) != all || share.count == all) return tensor.to(device);
  const at::Tensor part = tensor.narrow(0, share.from, share.count);
  // A view into a tensor of the device would differ in its offset from replica to replica, and so in its
  // program.
  return part.device() == device && !device.is_cpu() ? part.clone() : part.to(device);
}

at::Tensor mean_of(const std::vector<at::Tensor>& losses, size_t replicas) {
  const at::NoGradGuard no_grad;
  at::Tensor sum = losses.at(0);
  for (size_t i = 1; i < losses.size(); ++i) sum = sum.add(losses[i].to(sum.device()));
  return replicas == 1 ? sum : sum.div(static_cast<double>(replicas));
}

}  // namespace tpubridge
