// How samples are made.
#include "tests/device/samples.h"

namespace tpubridge {

torch::Tensor make(torch::IntArrayRef sizes, torch::Dtype dtype, double low, double high) {
  if (dtype == torch::kBool) return torch::randint(0, 2, sizes).to(dtype);
  if (torch::isComplexType(dtype)) {
    const auto part = torch::toRealValueType(dtype);
    return torch::complex(make(sizes, part, low, high), make(sizes, part, low, high));
  }
  if (!torch::isFloatingType(dtype)) return torch::randint(-5, 6, sizes).to(dtype);
  return (torch::rand(sizes, torch::kDouble) * (high - low) + low).to(dtype);
}

torch::Tensor places(torch::IntArrayRef sizes, int64_t below) {
  return torch::randint(0, below, sizes, torch::kLong);
}

Sample sample(std::string row, Call f, Sizes sizes, std::string dtypes, double tolerance, bool gradient) {
  return {std::move(row),
          f,
          [sizes = std::move(sizes)](torch::Dtype d) {
            Tensors t;
            for (const auto& s : sizes) t.push_back(make(s, d));
            return t;
          },
          std::move(dtypes),
          gradient,
          tolerance};
}

Sample indexed_sample(std::string row, Call f, std::vector<int64_t> x, std::vector<int64_t> index,
                      int64_t below, std::vector<int64_t> source, std::string dtypes, bool gradient) {
  return {std::move(row),
          f,
          [=](torch::Dtype d) {
            Tensors t{make(x, d), places(index, below)};
            if (!source.empty()) t.push_back(make(source, d));
            return t;
          },
          std::move(dtypes),
          gradient,
          1};
}

std::vector<Sample> all_samples() {
  std::vector<Sample> all;
  for (const auto& family : {elementwise_samples(), reduction_samples(), network_samples(), index_samples(),
                             attention_samples(), resample_samples(), spatial_samples(), complex_samples(),
                             everyday_samples(), special_samples(), image_samples(), linalg_samples()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

}  // namespace tpubridge
