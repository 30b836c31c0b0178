// One checkpoint on disk: a folder of .safetensors files and a manifest.json that names each file with its
// size and checksum, and holds the numbers. No torch in it.
//
// A checkpoint appears by one rename when everything in it is on the disk, so whoever sees the folder sees a
// whole one. Reading believes nothing: sizes, checksums and headers are verified, and what is wrong is a
// TPUCheckpointError with the file and, where it can be told, the tensor. Its code is data_loss or not_found
// where the checkpoint is damaged, another where it may be whole and cannot be read: a newer format
// (unsupported), no permission, too many open files, an error of the disk.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/files.h"
#include "tpubridge/base/host_tensor.h"

namespace tpubridge {

struct CheckpointData {
  std::map<std::string, std::vector<HostTensor>> files;  // "model" is stored as model.safetensors
  nlohmann::json numbers = nlohmann::json::object();     // stored in the manifest

  // The tensors of a file; throws TPUCheckpointError where the checkpoint has none of this name.
  [[nodiscard]] const std::vector<HostTensor>& file(const std::string& name, const Path& folder) const;
};

inline constexpr int kCheckpointVersion = 1;  // of the format; a newer one is refused, older ones are read

void write_checkpoint(const Path& folder, const CheckpointData& data);
[[nodiscard]] CheckpointData read_checkpoint(const Path& folder);
[[nodiscard]] bool is_damage(const TPUCheckpointError& e);

}  // namespace tpubridge
