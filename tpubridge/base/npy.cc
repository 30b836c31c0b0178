// .npy: a magic word, a version, a header (npy_header.h) and the elements of one tensor.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/npy_header.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/base/tensor_io.h"
#include "tpubridge/base/text.h"

namespace tpubridge {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kVersion1Prefix = 10, kVersion2Prefix = 12;  // magic, version, and the header's length
constexpr uint64_t kMaxHeader = 1 << 20;

struct Head {
  NpyHeader header;
  uint64_t data_start;
};

Head read_head(const OpenFile& file, const Path& path) {
  const auto size = static_cast<uint64_t>(file.info.st_size);
  unsigned char prefix[kVersion2Prefix] = {};
  const size_t got = read_at(file.fd, path, std::as_writable_bytes(std::span(prefix)), 0);
  if (got < kVersion1Prefix || std::memcmp(prefix, kMagic.data(), kMagic.size()) != 0)
    corrupt(path, "", 0, "it does not begin as a .npy file does");
  const int version = prefix[6];
  if (version < 1 || version > 3 || prefix[7] != 0)
    corrupt(path, "", kMagic.size(),
            fmt::format("version {}.{} of the format is not known", version, prefix[7]));
  const size_t start = version == 1 ? kVersion1Prefix : kVersion2Prefix;
  uint64_t length = 0;
  for (size_t i = start; i-- > 8;) length = length << 8 | prefix[i];
  if (got < start || length > kMaxHeader || length > size - start)
    corrupt(path, "", 8, fmt::format("the header should have {} bytes, the file has {}", length, size));
  std::string text(length, '\0');
  read_exactly(file, path, "", std::as_writable_bytes(std::span(text)), start);
  std::string problem;
  auto header = parse_npy_header(text, problem);
  if (!header) corrupt(path, "", start, "the header is wrong: " + problem);
  return {*std::move(header), start + length};
}

void swap_bytes(std::span<std::byte> data, DType t) {
  const size_t width = static_cast<size_t>(bits(t)) / 8 / (is_complex(t) ? 2 : 1);
  if (width == 1) return;
  for (size_t i = 0; i + width <= data.size(); i += width) std::ranges::reverse(data.subspan(i, width));
}

// From column-major to row-major; a fixed width lets the compiler make the copy one move.
template <size_t kWidth>
void transpose(const std::byte* from, std::byte* to, std::span<const int64_t> dims) {
  const size_t rank = dims.size();
  std::vector<size_t> stride(rank, kWidth), index(rank, 0);
  for (size_t i = 1; i < rank; ++i) stride[i] = stride[i - 1] * static_cast<size_t>(dims[i - 1]);
  size_t at = 0;
  while (true) {
    const size_t step = stride[rank - 1];
    for (int64_t i = 0; i < dims[rank - 1]; ++i, to += kWidth)
      std::memcpy(to, from + at + static_cast<size_t>(i) * step, kWidth);
    size_t d = rank - 1;  // the next row: count up the outer indices, moving `at` along
    while (d-- > 0) {
      at += stride[d];
      if (++index[d] < static_cast<size_t>(dims[d])) break;
      at -= stride[d] * static_cast<size_t>(dims[d]);
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

void to_row_major(const std::byte* from, std::byte* to, const Shape& shape) {
  switch (bits(shape.dtype)) {
    case 8:
      return transpose<1>(from, to, shape.dims);
    case 16:
      return transpose<2>(from, to, shape.dims);
    case 32:
      return transpose<4>(from, to, shape.dims);
    case 64:
      return transpose<8>(from, to, shape.dims);
    default:
      return transpose<16>(from, to, shape.dims);
  }
}

}  // namespace

HostTensor read_npy(const Path& path) try {
  const OpenFile file = open_to_read(path);
  const auto [header, start] = read_head(file, path);
  const auto type = npy_type(header.descr);
  if (!type)
    throw FileError(fmt::format("{}: its type {} cannot be used", path.string(), quote(header.descr)),
                    {{"path", path.string()}, {"type", header.descr}},
                    "Save plain numbers or bools; for 8-bit floats and 4-bit numbers use .safetensors.",
                    Code::invalid_argument);
  HostTensor out{path.stem().string(), {type->dtype, header.dims}, nullptr};
  const uint64_t needed = checked_bytes(path, out.name, start, out.shape);
  const uint64_t there = static_cast<uint64_t>(file.info.st_size) - start;
  if (needed != there)
    corrupt(path, out.name, start,
            fmt::format("{} needs {} bytes, the file has {}", out.shape.str(), needed, there));
  auto data = aligned_bytes(needed);
  read_exactly(file, path, out.name, {data.get(), needed}, start);
  if (type->big_endian) swap_bytes({data.get(), needed}, type->dtype);
  if (header.fortran_order && out.shape.rank() > 1 && needed > 0) {
    auto rows = aligned_bytes(needed);
    to_row_major(data.get(), rows.get(), out.shape);
    data = std::move(rows);
  }
  out.data = std::move(data);
  check_bools(path, out, start);
  return out;
} catch (const std::bad_alloc&) {
  throw file_error("read", path, ENOMEM);
}

void write_npy(const Path& path, const HostTensor& tensor) {
  const auto descr = npy_descr(tensor.shape.dtype);
  if (!descr)
    throw ArgumentError(fmt::format("a .npy file cannot hold the tensor {} of type {}", quote(tensor.name),
                                    name(tensor.shape.dtype)),
                        {{"tensor", tensor.name}}, "Use .safetensors, or convert it.",
                        Code::invalid_argument);
  std::string dims;
  for (const int64_t d : tensor.shape.dims) dims += fmt::format("{}{}", dims.empty() ? "" : ", ", d);
  if (tensor.shape.rank() == 1) dims += ',';
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", *descr, dims);
  const bool short_header = text.size() < 60'000;
  const size_t prefix = short_header ? kVersion1Prefix : kVersion2Prefix;
  text.append(kTensorAlignment - 1 - (prefix + text.size()) % kTensorAlignment,
              ' ');  // then the data is aligned
  text += '\n';

  std::string head = std::string(kMagic) + (short_header ? '\1' : '\2') + '\0';
  for (size_t i = 8; i < prefix; ++i) head += static_cast<char>(text.size() >> (8 * (i - 8)));
  const auto bytes = tensor.bytes();
  const std::string_view parts[] = {head, text, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  write_file(path, parts);
}

}  // namespace tpubridge
