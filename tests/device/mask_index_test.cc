// Elements that a mask chooses: written, and their gradients, on the device.
#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

int64_t put_on_the_cpu() {
  int64_t calls = 0;
  for (const auto& [op, fallen] : metrics().fallbacks)
    if (op.find("index_put") != std::string::npos) calls += fallen.calls;
  return calls;
}

std::vector<Tensor> masks_of(const std::vector<int64_t>& sizes) {
  std::vector<Tensor> out;
  for (size_t rank = 1; rank <= sizes.size(); ++rank) {
    const std::vector<int64_t> first(sizes.begin(), sizes.begin() + static_cast<int64_t>(rank));
    out.push_back(torch::rand(first) < 0.5);
    out.push_back(torch::zeros(first, torch::kBool));
    out.push_back(torch::ones(first, torch::kBool));
  }
  return out;
}

TEST(MaskIndex, Gradients) {
  torch::manual_seed(1);
  const int64_t before = put_on_the_cpu();
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{7}, {4, 3}, {2, 3, 4}, {3, 1, 2}})
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16})
      for (const Tensor& mask : masks_of(sizes)) {
        const Tensor x = torch::randn(sizes).to(type);
        const auto gradient = [&](torch::Device device) {
          const Tensor leaf = x.to(device).detach().requires_grad_();
          const Tensor y = leaf * 2 + 1, chosen = y.index({mask.to(device)});
          ((chosen * chosen).sum() + y.sum()).backward();
          return leaf.grad();
        };
        expect_close(gradient(tpu()), gradient(torch::kCPU));
      }
  EXPECT_EQ(put_on_the_cpu(), before);
}

// One value, or one row, for all that are chosen.
TEST(MaskIndex, Writes) {
  torch::manual_seed(2);
  const int64_t before = put_on_the_cpu();
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{6}, {4, 3}, {2, 3, 4}})
    for (const bool add : {false, true})
      for (const Tensor& mask : masks_of(sizes)) {
        const std::vector<int64_t> row(sizes.begin() + mask.dim(), sizes.end());
        std::vector<int64_t> one_row = row;
        one_row.insert(one_row.begin(), 1);
        for (const Tensor& value : {torch::full({}, 2.5), torch::randn(row), torch::randn(one_row)}) {
          Tensor host = torch::randn(sizes), there = host.to(tpu());
          host.index_put_({mask}, value, add);
          there.index_put_({mask.to(tpu())}, value.to(tpu()), add);
          expect_close(there, host);
        }
      }
  EXPECT_EQ(put_on_the_cpu(), before);
}

// As many as the mask has: more or fewer are torch's error.
TEST(MaskIndex, RowsOneByOne) {
  const Tensor mask = torch::tensor({true, false, true, true});
  for (const int64_t rows : {2, 3, 4}) {
    Tensor host = torch::zeros({4, 2}), there = host.to(tpu());
    const Tensor values = torch::randn({rows, 2});
    if (rows != 3) {
      EXPECT_ANY_THROW(host.index_put_({mask}, values));
      EXPECT_ANY_THROW(there.index_put_({mask.to(tpu())}, values.to(tpu())).cpu());
      continue;
    }
    host.index_put_({mask}, values);
    there.index_put_({mask.to(tpu())}, values.to(tpu()));
    expect_close(there, host);
  }
}

}  // namespace
}  // namespace tpubridge
