// An ordinary libtorch program on the device: the same lines run on a TPU, a GPU or, as here, the CPU plugin.
#include <tpubridge/tpubridge.h>

#include <cstdio>

int main() {
  const torch::Device tpu("tpu");
  torch::nn::Sequential model(torch::nn::Linear(2, 32), torch::nn::GELU(), torch::nn::Linear(32, 1));
  model->to(tpu);
  tpubridge::optim::AdamW optimizer(model->parameters(), 1e-2);
  const auto x = torch::rand({256, 2}, tpu) * 4 - 2;
  const auto y = (x.select(1, 0) * x.select(1, 1)).unsqueeze(1);  // learn a product
  for (int step = 0; step <= 300; ++step) {
    optimizer.zero_grad();
    const auto loss = torch::mse_loss(model->forward(x), y);
    loss.backward();
    optimizer.step();
    if (step % 100 == 0) std::printf("step %3d  loss %.4f\n", step, loss.item<float>());
    tpubridge::sync();
  }
  std::puts(tpubridge::report().c_str());
}
