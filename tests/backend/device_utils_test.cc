// Devices by name, the CPU in their place, and the scopes of what runs on them.
#include "tpubridge/backend/device_utils.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/scoped_env.h"
#include "tests/device/check.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

TEST(DeviceUtils, NamesAndFallbacks) {
  EXPECT_EQ(device_named("xla:1"), torch::Device("tpu:1"));
  EXPECT_EQ(device_named("tpu"), torch::Device("tpu"));
  EXPECT_EQ(device_named("cpu"), torch::Device("cpu"));
  EXPECT_THROW((void)device_named("toaster"), ArgumentError);
  EXPECT_EQ(get_tpu_safe_device(), torch::Device("tpu:0"));
  const log::Capture logged;
  EXPECT_EQ(get_tpu_safe_device(9), torch::kCPU);
  EXPECT_EQ(get_device_with_fallback("toaster"), torch::kCPU);
  ASSERT_EQ(logged.records("device.cpu_instead").size(), 2u);
  EXPECT_THAT(logged.records("device.cpu_instead")[0].field("problem"),
              HasSubstr("there is no device tpu:9"));
  {
    const ScopedEnv env("TPUBRIDGE_DEVICE", "cpu");
    EXPECT_EQ(get_device_with_fallback("tpu"), torch::kCPU);
    EXPECT_EQ(get_tpu_safe_device(), torch::kCPU);
  }
  EXPECT_TRUE(ensure_tpu_initialization());
  EXPECT_FALSE(ensure_tpu_initialization(9));
}

TEST(DeviceUtils, Placement) {
  const Tensor t = torch::ones({2});
  EXPECT_EQ(safe_device_placement(t, tpu()).device(), torch::Device("tpu:0"));
  EXPECT_TRUE(safe_device_placement(t, torch::Device("tpu:9")).is_same(t));
  torch::nn::Linear model(2, 2);
  EXPECT_FALSE(safe_device_placement(*model, torch::Device("tpu:9")));
  EXPECT_TRUE(model->weight.device().is_cpu());
  EXPECT_TRUE(safe_device_placement(*model, tpu()));
  EXPECT_EQ(model->weight.device(), torch::Device("tpu:0"));
}

TEST(DeviceUtils, Autocast) {
  EXPECT_EQ(autocast_device_type(tpu()), torch::Device("tpu").type()) << "the TPU has lists of its own";
  EXPECT_EQ(autocast_device_type(torch::Device("cpu")), torch::kCPU);
  EXPECT_EQ(autocast_device_type(torch::Device("meta")), torch::kCPU);
  const Tensor x = torch::full({2, 3}, 1.00390625f), w = torch::ones({3, 4});  // 1 + 2^-8: 1 in bf16
  for (const torch::Device& device : {tpu(), torch::Device("cpu")}) {
    const Tensor a = x.to(device), b = w.to(device);
    {
      const AutocastScope narrow(device);
      EXPECT_EQ(a.mm(b).scalar_type(), torch::kBFloat16);
      EXPECT_EQ(a.mm(b).cpu().to(torch::kFloat)[0][0].item<float>(), 3);
      EXPECT_EQ(a.exp().scalar_type(), torch::kFloat) << "not in the lists";
      {
        const AutocastScope half(device, torch::kHalf);
        EXPECT_EQ(a.mm(b).scalar_type(), torch::kHalf);
      }
      EXPECT_EQ(a.mm(b).scalar_type(), torch::kBFloat16) << "as it was before";
    }
    EXPECT_EQ(a.mm(b).scalar_type(), torch::kFloat);
    EXPECT_EQ(a.mm(b).cpu()[0][0].item<float>(), 3.01171875f);
  }
  EXPECT_THROW(AutocastScope(tpu(), torch::kFloat), ArgumentError);
  EXPECT_EQ(x.mm(w).scalar_type(), torch::kFloat);
}

TEST(DeviceUtils, Inference) {
  torch::nn::Sequential model(torch::nn::Linear(3, 3), torch::nn::Dropout(0.9));
  model[0]->eval();
  model->to(tpu());
  const Tensor x = torch::ones({4, 3}, tpu());
  {
    const InferenceScope scope(*model);
    EXPECT_FALSE(model->is_training());
    const Tensor y = model->forward(x);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(torch::equal(y.cpu(), model->forward(x).cpu())) << "nothing is dropped";
  }
  EXPECT_TRUE(model->is_training());
  EXPECT_FALSE(model[0]->is_training()) << "each part as it was";
  EXPECT_TRUE(model->forward(x).requires_grad());
  {
    const InferenceScope scope;
    EXPECT_TRUE(model->is_training());
    EXPECT_FALSE(model->forward(x).requires_grad());
  }
  EXPECT_TRUE(torch::GradMode::is_enabled());
}

}  // namespace
}  // namespace tpubridge
