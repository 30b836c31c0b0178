// An entry of the program cache; also with checksums that hold, which whoever writes one can compute too.
#include "tests/fuzz/target.h"
#include "tpubridge/base/hash.h"
#include "tpubridge/cache/entry.h"
#include "tpubridge/cache/key.h"

namespace tpubridge::fuzz {
namespace {

void put_number(std::string& bytes, size_t at, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

// The head as cache/entry.cc writes it, over what stands there.
std::string with_checksums(std::string_view bytes) {
  constexpr size_t kHead = 56;
  std::string out(bytes);
  if (out.size() < kHead) return out;
  out.replace(0, 8, "TPBENTRY");
  put_number(out, 8, cache::kFormatVersion, 4);
  const size_t left = out.size() - kHead;
  const size_t description =
      std::min<size_t>(left, static_cast<unsigned char>(out[12]) | static_cast<unsigned char>(out[13]) << 8);
  put_number(out, 12, description, 4);
  const std::string payload = out.substr(kHead + description);
  const Hash128 hash = hash128(payload);
  put_number(out, 16, payload.size(), 8);
  put_number(out, 32, hash.high, 8);
  put_number(out, 40, hash.low, 8);
  put_number(out, 48, hash64(out.substr(0, 48) + out.substr(kHead, description)), 8);
  return out;
}

void read_entry(std::string_view bytes) {
  try {
    (void)cache::decode(bytes, "input");
  } catch (const FileError&) {  // most likely: a checksum
  }
  const std::string sound = with_checksums(bytes);
  const cache::Entry entry = cache::decode(sound, "input");
  const cache::Encoded again = cache::encode(entry.info, entry.executable);
  require(cache::decode(again.head + again.payload, "again").executable == entry.executable,
          "an executable that differs when it is read again");
}
const Adds entry_target{"cache_entry", read_entry};

}  // namespace
}  // namespace tpubridge::fuzz
