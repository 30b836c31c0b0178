// Files of torch.save(): the archive as a whole, or its pickle alone (where no checksum stops a change).
#include "tpubridge/base/torch_file.h"
#include "tests/fuzz/target.h"
#include "tpubridge/base/unpickle.h"
#include "tpubridge/base/zip.h"

namespace tpubridge::fuzz {
namespace {

void check_tensors(const Path& path) {
  for (const HostTensor& t : read_torch(path).tensors)
    require(static_cast<int64_t>(t.bytes().size()) == t.shape.bytes(), "a tensor of another size");
}

// An archive with this pickle, and data that it may speak of.
Path archive_of(std::string_view pickle) {
  static const TempFolder folder;
  static const std::string data(96, '\1');
  std::vector<std::string> names;
  for (int i = 0; i < 24; ++i) names.push_back("a/data/" + std::to_string(i));
  std::vector<ZipContent> entries{{"a/data.pkl", pickle}};
  for (const std::string& name : names) entries.push_back({name, data});
  Path path = folder.path() / "a.pt";
  write_zip(path, entries);
  return path;
}

void read_torch_file(std::string_view bytes) {
  if (bytes.starts_with("\x80")) {
    const auto pickle = pickled::unpickle(
        std::as_bytes(std::span(bytes)), "input",
        [](std::string_view name) { return name.starts_with("torch") || name.starts_with("collections"); });
    require(pickle.root < pickle.nodes.size(), "a root that is not there");
    for (const auto& node : pickle.nodes)
      for (const auto item : node.items) require(item < pickle.nodes.size(), "a value that is not there");
    return check_tensors(archive_of(bytes));
  }
  const AsFile file(bytes);
  check_tensors(file.path());
}
const Adds torch_file_target{"torch_file", read_torch_file};

}  // namespace
}  // namespace tpubridge::fuzz
