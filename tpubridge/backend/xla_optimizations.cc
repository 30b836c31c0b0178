#include "tpubridge/backend/xla_optimizations.h"

#include <torch/nn/module.h>

#include <mutex>

#include "tpubridge/backend/layer_sizes.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

double waste_of(const std::vector<int64_t>& now, const std::vector<int64_t>& padded) {
  double used = 1;
  for (size_t i = 0; i < now.size(); ++i)
    used *= static_cast<double>(now[i]) / static_cast<double>(padded[i]);
  return 1 - used;
}

LayerAdvice make(const std::string& layer, const char* kind, std::vector<int64_t> now) {
  LayerAdvice out{layer, kind, std::move(now), {}, 0, {}};
  for (const int64_t n : out.now) out.padded.push_back(padded_size(n));
  out.waste = waste_of(out.now, out.padded);
  return out;
}

bool fits(const LayerAdvice& a) { return a.now == a.padded; }

}  // namespace

struct XLAOptimizations::Compilers {
  std::mutex mutex;
  std::unique_ptr<XLACompiler> fixed, any;  // shapes
};

XLAOptimizations::XLAOptimizations(std::shared_ptr<XLADeviceManager> manager)
    : manager_(std::move(manager)), compilers_(std::make_shared<Compilers>()) {
  if (!manager_) throw ArgumentError("XLAOptimizations was given no device manager");
}

std::vector<LayerAdvice> XLAOptimizations::advice(const torch::nn::Module& model) const {
  std::vector<LayerAdvice> out;
  for (const auto& item : model.named_modules(std::string(), /*include_self=*/false)) {
    if (const auto sizes = sizes_of(*item.value()); sizes && !sizes->convolution) {
      LayerAdvice a = make(item.key(), "Linear", {sizes->in, sizes->out});
      if (fits(a)) continue;
      a.message = "Linear layer " + a.layer + " dimensions (" + std::to_string(a.now[0]) + "x" +
                  std::to_string(a.now[1]) + ") not optimal for TPU. Consider padding to multiples of 8: " +
                  std::to_string(a.padded[0]) + "x" + std::to_string(a.padded[1]) + ".";
      out.push_back(std::move(a));
    } else if (const auto head = head_size_of(*item.value())) {
      LayerAdvice a = make(item.key(), "Attention", {*head});
      if (fits(a)) continue;
      a.message =
          "Attention layer " + a.layer + " head dimension " + std::to_string(a.now[0]) +
          " not optimal for TPU. Consider using dimensions divisible by 8: " + std::to_string(a.padded[0]) +
          ".";
      out.push_back(std::move(a));
    }
  }
  return out;
}

void XLAOptimizations::optimize(torch::nn::Module* model) const {
  if (!model) throw ArgumentError("optimize_model_for_xla was given no model");
  for (const LayerAdvice& a : advice(*model))
    log::warn("xla.layer_size", {{"what", a.message}, {"waste", std::to_string(a.waste)}});
  model->to(manager_->device());
  for (const auto& p : model->parameters())
    if (!p.is_contiguous()) p.set_data(p.contiguous());
}

bool XLAOptimizations::shapes_may_vary() const {
  if (manager_->config().enable_xla_dynamic_shapes) return true;
  log::warn("xla.static_shapes",
            {{"what", "enable_xla_dynamic_shapes is off: the shapes of inputs stay fixed"},
             {"hint", "Set it in the configuration."}});
  return false;
}

XLACompiler& XLAOptimizations::compiler(bool dynamic_shapes) const {
  const std::lock_guard lock(compilers_->mutex);
  auto& place = dynamic_shapes ? compilers_->any : compilers_->fixed;
  if (!place) {
    TPUConfig config = manager_->config();
    config.enable_xla_dynamic_shapes = dynamic_shapes;
    place = std::make_unique<XLACompiler>(config);
  }
  return *place;
}

}  // namespace tpubridge
