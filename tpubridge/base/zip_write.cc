// Writing: every entry stored, with the 64-bit numbers of zip64 throughout, so that one form does for all
// sizes.
#include <array>
#include <cstring>
#include <limits>

#include "tpubridge/base/zip.h"

namespace tpubridge {
namespace {

constexpr size_t kAlignment = 64;

template <class... T>
void put(std::string& out, T... numbers) {
  (out.append(reinterpret_cast<const char*>(&numbers), sizeof(T)), ...);
}

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Table k is for a byte that k more bytes follow: eight are taken in one step.
Tables make_tables() {
  Tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ (c & 1 ? 0xEDB88320U : 0U);
    t[0][i] = c;
  }
  for (uint32_t i = 0; i < 256; ++i)
    for (size_t k = 1; k < 8; ++k) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFF];
  return t;
}

// The header before an entry's data, filled up so that the data begin at a multiple of kAlignment.
std::string local_header(const ZipContent& entry, uint32_t crc, uint64_t offset) {
  constexpr uint16_t kPadding = 0x4254;  // a field of our own, which readers pass over
  const size_t before = offset + 30 + entry.name.size() + 20 + 4;
  const auto padding = static_cast<uint16_t>((kAlignment - before % kAlignment) % kAlignment);
  std::string out;
  put(out, uint32_t{0x04034b50}, uint16_t{45}, uint16_t{0x800}, uint16_t{0}, uint16_t{0}, uint16_t{0x21}, crc,
      uint32_t{0xFFFFFFFF}, uint32_t{0xFFFFFFFF}, static_cast<uint16_t>(entry.name.size()),
      static_cast<uint16_t>(20 + 4 + padding));
  out += entry.name;
  put(out, uint16_t{1}, uint16_t{16}, uint64_t{entry.data.size()}, uint64_t{entry.data.size()}, kPadding,
      padding);
  out.append(padding, '\0');
  return out;
}

void put_directory_row(std::string& out, const ZipContent& entry, uint32_t crc, uint64_t offset) {
  put(out, uint32_t{0x02014b50}, uint16_t{45}, uint16_t{45}, uint16_t{0x800}, uint16_t{0}, uint16_t{0},
      uint16_t{0x21}, crc, uint32_t{0xFFFFFFFF}, uint32_t{0xFFFFFFFF},
      static_cast<uint16_t>(entry.name.size()), uint16_t{28}, uint16_t{0}, uint16_t{0}, uint16_t{0},
      uint32_t{0}, uint32_t{0xFFFFFFFF});
  out += entry.name;
  put(out, uint16_t{1}, uint16_t{24}, uint64_t{entry.data.size()}, uint64_t{entry.data.size()}, offset);
}

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes) {
  static const Tables t = make_tables();
  uint32_t crc = 0xFFFFFFFF;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    uint32_t low, high;
    std::memcpy(&low, bytes.data(), 4);
    std::memcpy(&high, bytes.data() + 4, 4);
    low ^= crc;
    crc = t[7][low & 0xFF] ^ t[6][(low >> 8) & 0xFF] ^ t[5][(low >> 16) & 0xFF] ^ t[4][low >> 24] ^
          t[3][high & 0xFF] ^ t[2][(high >> 8) & 0xFF] ^ t[1][(high >> 16) & 0xFF] ^ t[0][high >> 24];
  }
  for (const std::byte b : bytes) crc = (crc >> 8) ^ t[0][(crc ^ static_cast<uint32_t>(b)) & 0xFF];
  return ~crc;
}

ZipFrame zip_frame(std::span<const ZipContent> entries, std::span<const uint32_t> checksums) {
  ZipFrame out;
  uint64_t offset = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const ZipContent& entry = entries[i];
    if (entry.name.size() > std::numeric_limits<uint16_t>::max() - 256)
      throw ArgumentError("an entry of an archive has a name of more than 65,000 bytes");
    out.headers.push_back(local_header(entry, checksums[i], offset));
    put_directory_row(out.directory, entry, checksums[i], offset);
    offset += out.headers.back().size() + entry.data.size();
  }
  const uint64_t count = entries.size(), size = out.directory.size(), end = offset + size;
  put(out.directory, uint32_t{0x06064b50}, uint64_t{44}, uint16_t{45}, uint16_t{45}, uint32_t{0}, uint32_t{0},
      count, count, size, offset);
  put(out.directory, uint32_t{0x07064b50}, uint32_t{0}, end, uint32_t{1});
  put(out.directory, uint32_t{0x06054b50}, uint16_t{0}, uint16_t{0}, uint16_t{0xFFFF}, uint16_t{0xFFFF},
      uint32_t{0xFFFFFFFF}, uint32_t{0xFFFFFFFF}, uint16_t{0});
  return out;
}

void write_zip(const Path& path, std::span<const ZipContent> entries) {
  std::vector<uint32_t> checksums;
  for (const auto& entry : entries) checksums.push_back(crc32(std::as_bytes(std::span(entry.data))));
  const ZipFrame frame = zip_frame(entries, checksums);
  std::vector<std::string_view> parts;
  for (size_t i = 0; i < entries.size(); ++i)
    parts.push_back(frame.headers[i]), parts.push_back(entries[i].data);
  parts.push_back(frame.directory);
  write_file(path, parts);
}

}  // namespace tpubridge
