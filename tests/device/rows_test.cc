// Every row's samples on the device against CPU eager: values, and gradients of the floating-point inputs.
#include <gtest/gtest.h>

#include <set>

#include "tests/device/check.h"
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

torch::Dtype dtype_of(char c) {
  switch (c) {
    case 'f':
      return torch::kFloat;
    case 'd':
      return torch::kDouble;
    case 'b':
      return torch::kBFloat16;
    case 'h':
      return torch::kHalf;
    case 'i':
      return torch::kLong;
    case 'c':
      return torch::kComplexFloat;
    case 'z':
      return torch::kComplexDouble;
    default:
      return torch::kBool;
  }
}

Tensors gradients(const Tensors& outputs, const Tensors& inputs) {
  torch::Tensor loss;
  for (const auto& o : outputs) {
    if (!o.requires_grad()) continue;
    // Weights that tell the elements apart.
    const auto w =
        (torch::arange(1, o.numel() + 1, torch::kDouble) / (o.numel() + 1)).view(o.sizes()).to(o.options());
    const auto weighted = o * w;
    const auto term = (o.is_complex() ? torch::view_as_real(weighted) : weighted).sum();
    loss = loss.defined() ? loss + term : term;
  }
  if (!loss.defined()) return {};
  Tensors wanted;
  for (const auto& i : inputs)
    if (i.requires_grad()) wanted.push_back(i);
  return torch::autograd::grad({loss}, wanted, {}, false, false, /*allow_unused=*/true);
}

void check(const Sample& s, char type) {
  SCOPED_TRACE(s.row + " " + type);
  torch::manual_seed(7);
  Tensors host = s.inputs(dtype_of(type)), there;
  for (auto& t : host) {
    there.push_back(t.to(tpu()));
    if (!s.gradient || !(t.is_floating_point() || t.is_complex())) continue;
    t.requires_grad_();
    there.back().requires_grad_();
  }
  const auto want = s.call(host), got = s.call(there);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].device().type(), torch::kPrivateUse1);
    expect_close(got[i], want[i], s.tolerance);
  }
  if (!s.gradient) return;
  const auto want_grad = gradients(want, host), got_grad = gradients(got, there);
  ASSERT_EQ(want_grad.size(), got_grad.size());
  for (size_t i = 0; i < want_grad.size(); ++i) {
    ASSERT_EQ(want_grad[i].defined(), got_grad[i].defined());
    if (want_grad[i].defined()) expect_close(got_grad[i], want_grad[i], s.tolerance * 2);
  }
}

void run(const std::vector<Sample>& samples) {
  FallbackScope native(Fallback::error);
  for (const auto& s : samples)
    for (char type : s.dtypes) {
      try {
        check(s, type);
      } catch (const std::exception& e) {
        ADD_FAILURE() << s.row << " " << type << ": " << e.what();
      }
    }
}

TEST(Rows, ElementwiseLikeTheCpu) {
  run(elementwise_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, ReductionsAndProductsLikeTheCpu) {
  run(reduction_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, NetworkOpsLikeTheCpu) {
  run(network_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, AttentionLikeTheCpu) {
  run(attention_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, ResamplingBagsAndMarginsLikeTheCpu) {
  run(resample_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, SpatialOpsAndDistancesLikeTheCpu) {
  run(spatial_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, ImageOpsLikeTheCpu) {
  run(image_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, ComplexNumbersLikeTheCpu) {
  run(complex_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, EverydayOpsLikeTheCpu) {
  run(everyday_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, SpecialFunctionsLikeTheCpu) {
  run(special_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, LinearAlgebraLikeTheCpu) {
  run(linalg_samples());
  EXPECT_FALSE(HasFailure());
}
TEST(Rows, IndexingLikeTheCpu) {
  run(index_samples());
  EXPECT_FALSE(HasFailure());
}

}  // namespace
}  // namespace tpubridge
