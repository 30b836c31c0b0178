// A 2-D tensor as a picture: letters for the terminal, or a grey PGM file. The smallest value is black.
#pragma once

#include <string>
#include <vector>

#include "tpubridge/base/host_tensor.h"

namespace tpubridge::tools {

// The first tensor with two dimensions and real numbers. Throws ArgumentError, listing the shapes, where none
// is.
[[nodiscard]] const HostTensor& picture_of(const std::vector<HostTensor>& tensors);

// At most `columns` wide; a letter covers twice as many rows as columns, since letters are tall.
[[nodiscard]] std::vector<std::string> ascii_picture(const HostTensor& tensor, int columns);
[[nodiscard]] std::string pgm_picture(const HostTensor& tensor);

}  // namespace tpubridge::tools
