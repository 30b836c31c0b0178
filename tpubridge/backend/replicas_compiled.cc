#include "tpubridge/backend/replicas_compiled.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <map>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/mesh/collectives.h"
#include "tpubridge/step/optimizers.h"

namespace tpubridge {

CompiledReplicas::CompiledReplicas(Replicas& replicas) : replicas_(replicas) {
  for (size_t i = 0; i < replicas.modules().size(); ++i) {
    StepOptions options{.modules = {replicas.modules()[i]}, .host_reads = HostReads::trace};
    options.name = "gradients of replica " + std::to_string(i);
    backward_.push_back(std::make_unique<step::Engine>(options));
    options.name = "optimizer of replica " + std::to_string(i);
    options.optimizers = {replicas.optimizers().at(i).get()};
    step_.push_back(std::make_unique<step::Engine>(std::move(options)));
  }
}

// The gradients leave the parameters: what is averaged comes back as other tensors.
FlatGradients CompiledReplicas::flat_gradients(size_t i, const at::Tensor& loss) {
  loss.backward();
  const at::NoGradGuard no_grad;
  std::map<at::ScalarType, std::pair<std::vector<at::Tensor>, std::vector<int64_t>>> by_type;
  const auto parameters = replicas_.modules()[i]->parameters();
  for (size_t k = 0; k < parameters.size(); ++k) {
    const at::Tensor grad = std::exchange(parameters[k].mutable_grad(), at::Tensor());
    if (!grad.defined()) continue;
    auto& [parts, which] = by_type[grad.scalar_type()];
    parts.push_back(grad.reshape({-1}));
    which.push_back(static_cast<int64_t>(k));
  }
  by_type[loss.scalar_type()].first.push_back(loss.detach().reshape({-1}));
  FlatGradients out;
  for (auto& [type, flat] : by_type) {
    if (type == loss.scalar_type()) out.loss_in = static_cast<int64_t>(out.flat.size());
    out.flat.push_back(at::cat(flat.first));
    out.which.push_back(std::move(flat.second));
  }
  return out;
}

// Gives the loss.
at::Tensor CompiledReplicas::step(size_t i, const FlatGradients& mean) {
  const at::Tensor& with_loss = mean.flat[static_cast<size_t>(mean.loss_in)];
  {
    const at::NoGradGuard no_grad;
    const auto parameters = replicas_.modules()[i]->parameters();
    for (size_t f = 0; f < mean.flat.size(); ++f) {
      int64_t from = 0;
      for (const int64_t k : mean.which[f]) {
        const at::Tensor& p = parameters[static_cast<size_t>(k)];
        p.mutable_grad() = mean.flat[f].narrow(0, from, p.numel()).view(p.sizes()).clone();
        from += p.numel();
      }
    }
  }
  replicas_.optimizers()[i]->step();
  return with_loss.narrow(0, with_loss.numel() - 1, 1).reshape({}).clone();
}

at::Tensor CompiledReplicas::apply(std::vector<FlatGradients>& all) {
  for (const auto& one : all)
    if (one.which != all[0].which || one.loss_in != all[0].loss_in)
      throw distributed_error(
          "train_step", "the replicas have gradients of different parameters",
          "The loss must use the same parameters on each; or call backward() and step().");
  for (size_t f = 0; all.size() > 1 && f < all[0].flat.size(); ++f) {
    std::vector<at::Tensor> flat;
    for (auto& one : all) flat.push_back(std::exchange(one.flat[f], at::Tensor()));
    auto mean = all_reduce(flat, Reduce::mean);
    for (size_t i = 0; i < all.size(); ++i) all[i].flat[f] = std::move(mean[i]);
  }
  at::Tensor loss;
  for (size_t i = 0; i < all.size(); ++i) {
    step::Around run{[&](FlatGradients& mean) { return step(i, mean); }};
    const at::Tensor of_one = step::typed_call(*step_[i], run, all[i]);
    if (i == 0) loss = of_one;
  }
  return loss;
}

int64_t CompiledReplicas::traced() const {
  int64_t n = 0;
  for (const auto* engines : {&backward_, &step_})
    for (const auto& e : *engines) n += e->traced();
  return n;
}

std::unique_ptr<CompiledReplicas> compiled_replicas(Replicas& replicas) {
  for (const auto& held : replicas.optimizers()) {
    auto& optimizer = *held;
    if (step::class_of(optimizer)) continue;
    log::warn("data_parallel.not_compiled",
              {{"reason", "the numbers of this optimizer's class are not known"},
               {"optimizer", c10::demangle(typeid(optimizer).name())}});
    return nullptr;
  }
  return std::make_unique<CompiledReplicas>(replicas);
}

}  // namespace tpubridge
