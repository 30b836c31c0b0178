// The header of a .npy file: a Python dictionary with three keys. For the sources of base/ alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/shape.h"

namespace tpubridge {

struct NpyHeader {
  std::string descr;  // "<f4"
  bool fortran_order = false;
  std::vector<int64_t> dims;
};

// Nothing but the three keys, each once, in any order; otherwise `problem` says what is wrong and where.
[[nodiscard]] std::optional<NpyHeader> parse_npy_header(std::string_view text, std::string& problem);

struct NpyType {
  DType dtype;
  bool big_endian;
};
[[nodiscard]] std::optional<NpyType> npy_type(std::string_view descr);
[[nodiscard]] std::optional<std::string> npy_descr(
    DType t);  // little endian; nothing where numpy has no such type

}  // namespace tpubridge
