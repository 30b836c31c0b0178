// What only compiling tells: whether it compiles, what falls back to the CPU, what it takes of the HBM.
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "tpubridge/backend/first_line.h"
#include "tpubridge/backend/model_findings.h"
#include "tpubridge/base/text.h"
#include "tpubridge/device/api.h"
#include "tpubridge/device/bytes.h"
#include "tpubridge/step/compile.h"
#include "tpubridge/train/eval_scope.h"

namespace tpubridge::detail {
namespace {

// While it lives the model's values are on the device; afterwards they are the ones they were before.
class OnDevice {
 public:
  OnDevice(torch::nn::Module& model, const c10::Device& device) {
    for (const auto& t : model.parameters()) keep(t);
    for (const auto& t : model.buffers()) keep(t);
    try {
      for (const auto& [tensor, values] : before_)
        if (values.device() != device) tensor.set_data(values.to(device));
    } catch (...) {
      go_back();
      throw;
    }
  }
  ~OnDevice() { go_back(); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  [[nodiscard]] int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& [tensor, values] : before_) sum += static_cast<int64_t>(values.nbytes());
    return sum;
  }

 private:
  void keep(const at::Tensor& t) {
    if (t.defined()) before_.emplace_back(t, t.variable_data());
  }
  void go_back() {
    for (const auto& [tensor, values] : before_) tensor.set_data(values);
  }
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;
};

void tell_fallbacks(ModelFindings& out, const Metrics& before, const Metrics& after) {
  std::string names;
  for (const auto& [op, fallen] : after.fallbacks) {
    const auto it = before.fallbacks.find(op);
    if (it != before.fallbacks.end() && it->second.calls == fallen.calls) continue;
    names += (names.empty() ? "" : ", ") + op;
  }
  if (names.empty())
    out.pass("every op runs on the device");
  else
    out.warn("ops that would run on the CPU: " + names,
             {{"ops", names}, {"recommendation", "Write them with ops of docs/ops.md."}});
}

void tell_memory(ModelFindings& out, int64_t held, int64_t temporaries, const TPUConfig& config) {
  const int64_t usable = usable_memory(config), needed = held + temporaries;
  const std::string text = "forward takes " + mb(needed) + " of the HBM (" + mb(temporaries) +
                           " of it while it runs), " + mb(usable) + " may be used";
  const ModelFindings::Metadata facts = {{"needed", std::to_string(needed)},
                                         {"temporaries", std::to_string(temporaries)},
                                         {"usable", std::to_string(usable)}};
  if (needed > usable)
    out.fail(text, facts);
  else if (static_cast<double>(needed) > 0.8 * static_cast<double>(usable))
    out.warn(text, facts);
  else
    out.pass(text, facts);
}

}  // namespace

void check_by_compiling(ModelFindings& out, torch::nn::Module& model, const TPUConfig& config,
                        const Sample& sample) {
  if (!sample) return out.skip("nothing was compiled: there are no sample inputs");
  try {
    const c10::Device device(c10::DeviceType::PrivateUse1, 0);
    const at::NoGradGuard quiet;
    const EvalScope scope(model);
    const FallbackScope silent(Fallback::allow);
    const OnDevice there(model, device);
    std::vector<at::Tensor> inputs;
    for (const auto& t : sample.inputs) inputs.push_back(t.defined() ? t.to(device) : t);
    const Metrics before = metrics();
    auto step = compile([&](const std::vector<at::Tensor>& x) { return sample.forward(x); },
                        {.host_reads = HostReads::trace, .name = "validation"});
    const auto results = step(inputs);
    sync(results);
    const Metrics after = metrics();
    out.pass("it compiles: " + std::to_string(after.compiles - before.compiles) + " programs",
             {{"compiles", std::to_string(after.compiles - before.compiles)},
              {"seconds", std::to_string(after.compile_seconds - before.compile_seconds)}});
    tell_fallbacks(out, before, after);
    tell_memory(out, there.bytes() + bytes_of(inputs) + bytes_of(results), step.report().temporary_bytes,
                config);
  } catch (const std::exception& e) {
    out.fail("it cannot be compiled: " + first_line(e), {});
  }
}

}  // namespace tpubridge::detail
