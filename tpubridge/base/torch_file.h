// Tensors that torch.save() wrote: a state_dict, or dicts and lists of tensors. Nothing is executed: a file
// that names anything but tensors is refused (unpickle.h).
#pragma once

#include "tpubridge/base/tensor_file.h"

namespace tpubridge {

// Tensors by their path: keys of dicts and places in lists, joined by dots ("model.layers.0.weight"). Numbers
// and texts beside them are left out. Tensors that lie dense and aligned in the file are mapped: it must not
// be shortened meanwhile. Throws FileError.
[[nodiscard]] TensorFile read_torch(const Path& path);

// Whether the file begins as such an archive does.
[[nodiscard]] bool is_zip(const Path& path);

}  // namespace tpubridge
