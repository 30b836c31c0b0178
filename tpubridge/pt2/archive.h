// A .pt2 file as torch.export.save writes it: the archive, and what stands in it. Pickles are never read.
#pragma once

#include <memory>

#include "tpubridge/base/zip.h"
#include "tpubridge/pt2/program.h"

namespace tpubridge::exported {

struct Archive {
  std::unique_ptr<ZipFile> zip;
  std::string folder;  // in which everything stands, with its slash; may be empty
  std::string model;   // the name of the model ("model")
  Program program;

  // The bytes of a weight or constant, and the tensor's place in them checked against their size.
  [[nodiscard]] std::span<const std::byte> bytes(const Payload& payload) const;
};

// Throws FileError for what is not sound, UnsupportedError for what another version wrote.
[[nodiscard]] Archive open_archive(const Path& path);

// Bytes of an element by the file's number of its type; 0 where it is not known.
[[nodiscard]] int64_t element_bytes(int64_t dtype);
[[nodiscard]] std::string dtype_name(int64_t dtype);

}  // namespace tpubridge::exported
