// A model in one file (.tbp): programs for some shapes, executables for some machines, weights. Written
// once, run anywhere tpubridge::core is; no torch, no tracing. docs/packages.md
//
//   const auto package = std::make_shared<const package::Package>("model.tbp");
//   package::Runner model(package, pjrt::open());
//   const std::vector<HostTensor> out = model.run({x});
//
// It is a zip archive with stored entries. Whatever was changed in it since it was written is found when it
// is opened: the frame of the archive byte by byte, the entries by their hashes. That is against accidents,
// not against an attacker: an executable is machine code, so run packages of those alone whose programs you
// would run.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tpubridge/base/files.h"
#include "tpubridge/base/host_tensor.h"
#include "tpubridge/base/zip.h"
#include "tpubridge/package/manifest.h"

namespace tpubridge::package {

class Package {
 public:
  // Throws FileError for a file that is damaged or no package, UnsupportedError for another version.
  explicit Package(const Path& path);

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const Path& path() const { return zip_.path(); }
  [[nodiscard]] std::string_view bytes(const Entry& entry) const;
  // Of all that is in it: the manifest has hashes of the rest.
  [[nodiscard]] std::string digest() const;
  // Inputs and their shapes for each program, in words; of many programs the first.
  [[nodiscard]] std::string signature() const;

 private:
  void check_entry(const Entry& entry) const;
  ZipFile zip_;
  Manifest manifest_;
};

// Whether the file begins as a package does.
[[nodiscard]] bool is_package(const Path& path);

// What is to be written: entries of the manifest are named by the writer.
struct Contents {
  struct NewCode {
    std::string platform, text;
    pjrt::CompileOptions options = {};
  };
  struct NewExecutable {
    Machine machine;
    std::string bytes;
  };
  struct NewProgram {
    std::vector<Tensor> inputs, outputs;
    std::vector<Parameter> parameters;
    std::vector<NewCode> codes;
    std::vector<NewExecutable> executables = {};
  };
  std::string model;
  std::vector<std::pair<std::string, std::string>> made_with;
  std::vector<HostTensor> weights;
  std::vector<NewProgram> programs;
};
// Atomic (files.h): the old file or the new one, never a part.
void write_package(const Path& path, const Contents& contents);

}  // namespace tpubridge::package
