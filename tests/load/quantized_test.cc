// An export whose weights are named to be quantised, beside the same export on the CPU with the weights that
// these stand for.
#include "tests/load/exports.h"

namespace tpubridge {
namespace {

TEST(QuantizedExport, GivesWhatTheRoundedWeightsGive) {
  for (const std::string name : {"mlp", "bert"}) {
    const Reference python(name);
    auto model = load(export_path(name)), cpu = load(export_path(name));
    model->to(tpu());
    QuantizeOptions options{.weights = QuantType::int8, .group = 0};
    for (const auto& p : model->named_parameters())
      if (p.value().dim() == 2) options.also.push_back(p.key());
    const auto report = quantize(*model, options);
    EXPECT_EQ(report.layers.size(), options.also.size());
    const at::NoGradGuard no_grad;
    auto rounded = model->named_parameters();
    for (auto& p : cpu->named_parameters()) p.value().copy_(rounded[p.key()].cpu());
    const auto got = model->call({}, python.with("in.", tpu()));
    const auto want = cpu->call({}, python.with("in."));
    for (const auto& [out, exact] : python.with("out.")) {
      EXPECT_LT(distance(got[out], want[out]), 1e-4) << out;
      EXPECT_GT(distance(got[out], exact.toTensor()), 0) << out;
    }
  }
}

}  // namespace
}  // namespace tpubridge
