// Packages: the archive as a whole, or its manifest alone (where no checksum stops a change).
#include "tpubridge/package/package.h"
#include "tests/fuzz/target.h"

namespace tpubridge::fuzz {
namespace {

void check_manifest(const package::Manifest& manifest) {
  require(!manifest.programs.empty(), "a package without a program");
  for (const auto& program : manifest.programs) {
    require(!program.codes.empty(), "a program without code");
    for (const auto& p : program.parameters)
      require(p.index < (p.is_weight ? manifest.weights.size() : program.inputs.size()),
              "a parameter that is none");
  }
  for (const auto& w : manifest.weights) (void)w.tensor.shape.bytes();
  const std::string text = package::to_json(manifest);
  require(package::to_json(package::read_manifest(text, "again")) == text, "a manifest that changes");
}

void read_package(std::string_view bytes) {
  if (bytes.starts_with("{")) return check_manifest(package::read_manifest(bytes, "input"));
  const AsFile file(bytes);
  const package::Package opened(file.path());
  check_manifest(opened.manifest());
  for (const auto& w : opened.manifest().weights)
    require(opened.bytes(w.entry).size() == static_cast<size_t>(w.tensor.shape.bytes()),
            "a weight of no size");
}
const Adds package_target{"package", read_package};

}  // namespace
}  // namespace tpubridge::fuzz
