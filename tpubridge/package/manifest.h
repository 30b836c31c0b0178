// What a package says of itself: signature, programs, what each executable was made for, weights, hashes.
// Its entry in the archive is JSON; docs/packages.md lists the keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/capi/compile_options.h"
#include "tpubridge/package/machine.h"

namespace tpubridge::package {

inline constexpr int kVersion = 1;                                            // of the format
inline constexpr std::string_view kManifestEntry = "tpubridge-package.json";  // the first of the archive

struct Tensor {
  std::string name;
  Shape shape;
};

// A part of the archive.
struct Entry {
  std::string name, hash;  // hash128 of its bytes
};

// Where a parameter of the program comes from.
struct Parameter {
  bool is_weight = false;
  size_t index = 0;  // in Manifest::weights, or in Program::inputs
};

// StableHLO of a program, as one platform wants it. "any" is for those that have none of their own.
struct ProgramCode {
  std::string platform;
  Entry entry;
  pjrt::CompileOptions options;  // overrides and the optimization level
};

struct Executable {
  Machine machine;
  Entry entry;
};

struct Program {
  std::vector<Tensor> inputs, outputs;
  std::vector<Parameter> parameters;
  std::vector<ProgramCode> codes;
  std::vector<Executable> executables;
};

struct Weight {
  Tensor tensor;
  Entry entry;
};

struct Manifest {
  std::string model;                                           // where it comes from, in words
  std::vector<std::pair<std::string, std::string>> made_with;  // versions
  std::vector<Weight> weights;
  std::vector<Program> programs;  // same inputs and outputs, by name and type; different shapes
};

[[nodiscard]] std::string to_json(const Manifest& manifest);
// Throws FileError for what is no manifest or does not fit together, UnsupportedError for another version.
[[nodiscard]] Manifest read_manifest(std::string_view text, const std::string& source);

}  // namespace tpubridge::package
