// Files of torch.save(): the archive as a whole, or its pickle alone (where no checksum stops a change).
#include "tpubridge/base/torch_file.h"
#include "tests/fuzz/target.h"
#include "tpubridge/base/unpickle.h"

namespace tpubridge::fuzz {
namespace {

void read_torch_file(std::string_view bytes) {
  if (bytes.starts_with("\x80")) {
    const auto pickle = pickled::unpickle(
        std::as_bytes(std::span(bytes)), "input",
        [](std::string_view name) { return name.starts_with("torch") || name.starts_with("collections"); });
    require(pickle.root < pickle.nodes.size(), "a root that is not there");
    for (const auto& node : pickle.nodes)
      for (const auto item : node.items) require(item < pickle.nodes.size(), "a value that is not there");
    return;
  }
  const AsFile file(bytes);
  for (const HostTensor& t : read_torch(file.path()).tensors)
    require(static_cast<int64_t>(t.bytes().size()) == t.shape.bytes(), "a tensor of another size");
}
const Adds torch_file_target{"torch_file", read_torch_file};

}  // namespace
}  // namespace tpubridge::fuzz
