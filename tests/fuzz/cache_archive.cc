// A file of exported cache entries; also with a checksum that holds.
#include "tests/fuzz/target.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/hash.h"
#include "tpubridge/cache/archive.h"
#include "tpubridge/cache/bytes.h"

namespace tpubridge::fuzz {
namespace {

void import_bytes(std::string_view bytes) {
  static const TempFolder folder;
  static const cache::DiskCache disk(folder.path() / "cache", 64 << 20);
  const AsFile file(bytes);
  if (cache::import_from(disk, file.path()).added > 0) (void)disk.clear();
}

void read_archive_bytes(std::string_view bytes) {
  try {
    import_bytes(bytes);
  } catch (const TPUCacheError&) {  // most likely: the checksum
  }
  if (bytes.size() < 16) return;
  std::string sound(bytes.substr(0, bytes.size() - 16));
  const Hash128 hash = hash128(sound);
  cache::put64(sound, hash.high);
  cache::put64(sound, hash.low);
  import_bytes(sound);
}
const Adds archive_target{"cache_archive", read_archive_bytes};

}  // namespace
}  // namespace tpubridge::fuzz
