// Programs that a child process has compiled without harm: an empty file KEY.checked for each.
#include "tpubridge/base/log.h"
#include "tpubridge/base/private_files.h"
#include "tpubridge/cache/disk.h"

namespace tpubridge::cache {
namespace {

Path mark_of(const Path& folder, const Hash128& key) { return folder / (key.hex() + ".checked"); }

}  // namespace

bool DiskCache::was_checked(const Hash128& key) const {
  try {
    check_private_folder(folder_);
    (void)open_private(mark_of(folder_, key));
    return true;
  } catch (const FileError&) {  // not there, or not ours: it is checked again
    return false;
  }
}

void DiskCache::note_checked(const Hash128& key) const {
  try {
    make_private_folder(folder_);
    write_private_file(mark_of(folder_, key), {});
  } catch (const FileError& e) {
    log::debug("cache.not_noted", {{"problem", e.what()}});
  }
}

}  // namespace tpubridge::cache
