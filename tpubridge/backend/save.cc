// Models in files.
#include <torch/nn/module.h>

#include "tpubridge/backend/tpu_backend.h"
#include "tpubridge/train/state.h"

namespace tpubridge {

void TPUBackend::save_model(torch::nn::Module& model, const Path& folder,
                            torch::optim::Optimizer* optimizer) {
  synchronize();
  if (rank_ != 0) return;
  const auto config = nlohmann::json::parse(applied_.config.hardware.tpu.to_json());
  write_checkpoint(folder, capture({&model, optimizer, /*generators=*/false},
                                   {{"tpu_config", config}, {"world_size", world_size_}}));
}

void TPUBackend::load_model(torch::nn::Module& model, const Path& folder,
                            torch::optim::Optimizer* optimizer) {
  const CheckpointData data = read_checkpoint(folder);
  const bool has_optimizer = data.files.contains("optimizer");
  restore({&model, has_optimizer ? optimizer : nullptr, /*generators=*/false}, data, folder);
}

}  // namespace tpubridge
