// One model in several processes, each with its part of the batch. Alone, or as a job:
//
//   build/bin/tpubridge launch -n 4 build/bin/example_processes
//   torchrun --no-python --nproc-per-node 4 build/bin/example_processes
//
// The losses are those of one process with the whole batch.
#include <tpubridge/distributed/distributed.h>
#include <tpubridge/tpubridge.h>

#include <cstdio>
#include <cstdlib>

namespace dist = tpubridge::distributed;

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 20;
  const auto& place = dist::init();
  const torch::Device tpu("tpu");
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(16, 64), torch::nn::GELU(), torch::nn::Linear(64, 1));
  model->to(tpu);
  dist::broadcast_parameters(*model);  // all begin with the weights of rank 0
  torch::optim::Adam optimizer(model->parameters(), 1e-2);

  auto step = tpubridge::compile(
      [&](const torch::Tensor& x, const torch::Tensor& y) {
        optimizer.zero_grad();
        auto loss = torch::mse_loss(model->forward(x), y);
        loss.backward();
        dist::average_gradients(*model);
        optimizer.step();
        return dist::all_reduce(loss.detach(), "mean");
      },
      {.optimizers = {&optimizer}});

  for (int i = 0; i < steps; ++i) {
    torch::manual_seed(static_cast<uint64_t>(i));  // the same batch everywhere, of which each takes its part
    const auto x = torch::randn({96, 16}), y = x.sin().sum(1, true);
    const auto part = [&](const torch::Tensor& t) {
      return t.tensor_split(place.world)[static_cast<size_t>(place.rank)].to(tpu);
    };
    const double loss = step(part(x), part(y)).item<double>();
    if (place.rank == 0 && (i % 5 == 4 || i == 0)) std::printf("step %2d  loss %.4f\n", i + 1, loss);
  }
  if (place.rank == 0)
    std::printf("%lld process(es), %lld of %d steps replayed\n", static_cast<long long>(place.world),
                static_cast<long long>(step.report().replayed), steps);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
