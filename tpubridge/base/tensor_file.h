// Tensors in files: .safetensors (many, named) and .npy (one).
//
// Nothing that a file says about itself is believed before it is checked against the file's real size: a
// damaged or hostile file gives a FileError with the path, the tensor and the byte offset, never a crash and
// never a large allocation. Writing is atomic (files.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/files.h"
#include "tpubridge/base/host_tensor.h"

namespace tpubridge {

struct TensorFile {
  std::vector<HostTensor> tensors;              // in the order of their data in the file
  std::map<std::string, std::string> metadata;  // free text of .safetensors

  [[nodiscard]] const HostTensor* find(std::string_view name) const;  // null where there is none
};

enum class Load {
  copy,  // into memory of our own
  map,   // the file itself as memory where it is aligned; it must not be shortened or rewritten meanwhile
};

// By the ending of the name: .safetensors or .npy. A tensor of a .npy file is named after the file.
[[nodiscard]] TensorFile read_tensors(const Path& path, Load load = Load::copy);
void write_tensors(const Path& path, std::span<const HostTensor> tensors);

// Every type of the format but the 6-bit floats. F4 is packed in the file (low half first), a byte each in
// memory. A type that the format does not have (c128, s4, …) throws ArgumentError when written.
[[nodiscard]] TensorFile read_safetensors(const Path& path, Load load = Load::copy);

// The same, one tensor at a time: nothing but the header is in memory, so files larger than it can be walked.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const Path& path);
  [[nodiscard]] const std::vector<std::string>& names() const;
  [[nodiscard]] const Shape* shape(std::string_view name) const;  // null where there is none
  [[nodiscard]] HostTensor read(std::string_view name) const;     // throws FileError where there is none

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

void write_safetensors(const Path& path, std::span<const HostTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// Versions 1 to 3; Fortran order and big-endian numbers are turned into ours. bf16 is the type V2, as
// ml_dtypes writes it (f1, its f8e5m2, is read as well); other 8-bit floats and 4-bit numbers have no name of
// their own here.
[[nodiscard]] HostTensor read_npy(const Path& path);
void write_npy(const Path& path, const HostTensor& tensor);

}  // namespace tpubridge
