// The manifest of a checkpoint, beside files that are sound; also with a checksum that holds.
#include <fstream>

#include "tests/fuzz/target.h"
#include "tpubridge/base/hash.h"
#include "tpubridge/base/json.h"
#include "tpubridge/train/checkpoint_folder.h"

namespace tpubridge::fuzz {
namespace {

// As train/checkpoint_folder.cc makes it. What is no JSON stays as it is.
std::string with_checksum(std::string_view bytes) {
  try {
    nlohmann::json manifest = parse_json(bytes, "input");
    if (!manifest.is_object()) return std::string(bytes);
    manifest.erase("checksum");
    manifest["checksum"] = hash128(manifest.dump()).hex();
    return manifest.dump();
  } catch (const Error&) {
    return std::string(bytes);
  }
}

void read_manifest(std::string_view bytes) {
  static const TempFolder folder;
  static const bool copied = [] {
    for (const char* name : {"model.safetensors", "optimizer.safetensors"})
      std::filesystem::copy_file(Path(TEST_DATA) / "checkpoint_v1" / name, folder.path() / name);
    return true;
  }();
  require(copied, "the files are there");
  std::ofstream(folder.path() / "manifest.json", std::ios::binary) << with_checksum(bytes);  // need not last
  const CheckpointData data = read_checkpoint(folder.path());
  require(data.numbers.is_object(), "numbers that are no object");
  for (const auto& [name, tensors] : data.files)
    require(data.file(name, folder.path()).size() == tensors.size(), "");
}
const Adds checkpoint_target{"checkpoint", read_manifest};

}  // namespace
}  // namespace tpubridge::fuzz
