// Packages of exported programs: one for each set of shapes, with executables for the machines that are
// named.
//
//   tpubridge::PackageWriter package("my model");
//   package.add(tpubridge::export_program({{"x", x}}, forward, {.modules = {model.ptr()}}));
//   package.save("model.tbp", {.tpus = {"v6e:1x1"}});
//
// package/package.h and package/runner.h read and run it, without torch. docs/packages.md
#pragma once

#include <functional>

#include "tpubridge/export/export.h"

namespace tpubridge {

struct PackageTargets {
  bool this_machine = true;  // for the plugin of the device "tpu", as it is here
  std::vector<std::string> tpus =
      {};  // TPUs that are not here ("v6e:2x2"), compiled for by libtpu in a child
  std::function<void()> before_writing = {};  // all is compiled: who is interrupted from here on may wait
};

struct PackageReport {
  struct Executable {
    size_t program;
    std::string target;
    double compile_seconds;
    int64_t bytes;
  };
  std::vector<Executable> executables;
  int64_t weights = 0, weight_bytes = 0, bytes = 0;  // bytes: of the file
};

// The versions that made it: "tpubridge 0.1.0, torch 2.15.0".
[[nodiscard]] std::string made_with();

class PackageWriter {
 public:
  explicit PackageWriter(std::string model);  // what it is, in words: it stands in the manifest
  ~PackageWriter();
  PackageWriter(const PackageWriter&) = delete;
  PackageWriter& operator=(const PackageWriter&) = delete;

  // Weights that are the same are kept once. Throws ArgumentError for a signature of other names or types
  // than that of the programs before, and for the same shapes once more.
  void add(ExportedProgram program);
  // Atomic. Throws what the compilers throw; a TPU whose memory is too small is a TPUOutOfMemoryError.
  PackageReport save(const Path& path, const PackageTargets& targets = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tpubridge
