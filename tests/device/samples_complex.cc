// Samples with complex numbers, and of Fourier transforms.
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

using torch::IntArrayRef;

const Sizes kOne{{3, 4}}, kTwo{{3, 4}, {3, 4}}, kFields{{2, 3, 4, 5}};

}  // namespace

std::vector<Sample> complex_samples() {
  return {
      SAMPLE("add.Tensor", t[0] + t[1] * 2, kTwo, "cz"),
      SAMPLE("sub.Tensor", torch::sub(t[0], t[1]), kTwo, "c"),
      SAMPLE("mul.Tensor", t[0] * t[1], kTwo, "cz"),
      SAMPLE("mul.Tensor", t[0] * torch::real(t[1]), kTwo, "c"),
      SAMPLE("mul.Tensor", t[0] * c10::complex<double>(0.5, -2), kOne, "c"),
      SAMPLE("div.Tensor", t[0] / (t[1] + 4), kTwo, "cz"),
      SAMPLE("neg", torch::neg(t[0]), kOne, "c"),
      SAMPLE("abs", torch::abs(t[0]), kOne, "cz"),
      SAMPLE("angle", torch::angle(t[0]), kOne, "fcz"),
      SAMPLE("conj_physical", torch::conj_physical(t[0]), kOne, "c"),
      SAMPLE("conj_physical", t[0].conj() * t[0] + 1, kOne, "cz"),
      SAMPLE("sgn", torch::sgn(t[0]), kOne, "c"),
      SAMPLE("reciprocal", torch::reciprocal(t[0] + 4), kOne, "c"),
      SAMPLE("exp", torch::exp(t[0]), kOne, "cz"),
      SAMPLE("log", torch::log(t[0]), kOne, "cz"),
      SAMPLE("sqrt", torch::sqrt(t[0]), kOne, "c"),
      SAMPLE("sin", torch::sin(t[0]), kOne, "c"),
      SAMPLE("cos", torch::cos(t[0]), kOne, "c"),
      SAMPLE("tanh", torch::tanh(t[0] * 0.3), kOne, "c"),
      SAMPLE("sigmoid", torch::sigmoid(t[0]), kOne, "c"),
      SAMPLE("isnan", torch::isnan(t[0]), kOne, "c", 1, false),
      SAMPLE("eq.Tensor", t[0] == t[1], kTwo, "c", 1, false),
      SAMPLE("sum.dim_IntList", t[0].sum(1), kOne, "cz"),
      SAMPLE("mean.dim", t[0].mean(IntArrayRef{0}), kOne, "c"),
      SAMPLE("linalg_vector_norm", torch::linalg_vector_norm(t[0], 2, IntArrayRef{1}), kOne, "c"),
      SAMPLE("mm", t[0].mm(t[1].t()), kTwo, "cz"),
      SAMPLE("mm", t[0].conj().mm(t[1].mH()), kTwo, "c"),
      SAMPLE("bmm", t[0].bmm(t[1].mH()), Sizes({{2, 3, 4}, {2, 3, 4}}), "c"),
      SAMPLE("where.self", torch::where(torch::real(t[0]) > 0, t[0], t[1]), kTwo, "c"),
      SAMPLE("cat", torch::cat({t[0], t[1]}, 1), kTwo, "c"),
      SAMPLE("add.Tensor", torch::real(t[0]) + torch::imag(t[0]), kOne, "c"),
      SAMPLE("_fft_c2c", torch::fft_fft(t[0]), kOne, "cz"),
      SAMPLE("_fft_c2c", torch::fft_ifftn(t[0], {}, IntArrayRef({1, 2, 3})), kFields, "c"),
      SAMPLE("_fft_c2c", torch::fft_fft2(t[0], {}, IntArrayRef({0, 2}), "ortho"), kFields, "c"),
      SAMPLE("_fft_r2c", torch::fft_rfft(t[0], {}, 1), kFields, "fd"),
      SAMPLE("_fft_r2c", torch::fft_rfft2(t[0], {}, IntArrayRef({1, 3})), kFields, "f"),
      SAMPLE("_fft_r2c", torch::fft_fft(t[0]), kFields, "f"),
      SAMPLE("_fft_c2r", torch::fft_irfft(t[0], 7), kOne, "cz"),
      SAMPLE("_fft_c2r", torch::fft_irfft2(t[0], {}, IntArrayRef({1, 3})), kFields, "c"),
  };
}

}  // namespace tpubridge
