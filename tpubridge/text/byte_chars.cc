// Byte-level vocabularies write each byte as one printable character: itself where it is printable Latin-1,
// else the next free one from U+0100 on.
#include <array>

#include "tpubridge/text/normalizer.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::text {
namespace {

bool stands_for_itself(int b) {
  return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

struct ByteTable {
  std::array<std::string, 256> chars;
  std::array<int, 512> bytes;
  ByteTable() {
    bytes.fill(-1);
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const int c = stands_for_itself(b) ? b : next++;
      append(chars[static_cast<size_t>(b)], c);
      bytes[static_cast<size_t>(c)] = b;
    }
  }
};

const ByteTable& byte_table() {
  static const ByteTable table;
  return table;
}

}  // namespace

std::string bytes_to_chars(std::string_view text) {
  const ByteTable& table = byte_table();
  std::string out;
  out.reserve(text.size() * 2);
  for (const char c : text) out += table.chars[static_cast<uint8_t>(c)];
  return out;
}

int char_to_byte(int32_t c) { return c >= 0 && c < 512 ? byte_table().bytes[static_cast<size_t>(c)] : -1; }

}  // namespace tpubridge::text
