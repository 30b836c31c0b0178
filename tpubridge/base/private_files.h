// Files that hold what will be run, such as compiled programs: nobody but this user and root may have written
// them.
#pragma once

#include <sys/stat.h>

#include "tpubridge/base/fd.h"

namespace tpubridge {

TPUBRIDGE_ERROR(UntrustedFileError, public virtual FileError);

// Throws UntrustedFileError where another user owns it, or others may write to it.
void check_private(const Path& path, const struct stat& info);
// The same for a folder; nothing happens where it is not there.
void check_private_folder(const Path& path);

[[nodiscard]] OpenFile open_private(const Path& path);  // open_to_read, checked
[[nodiscard]] std::string read_private_file(const Path& path);

// Whatever the umask: 0700 for it and for each parent that was not there. Throws where it is there and not
// private.
void make_private_folder(const Path& path);
// write_file with 0600. Nothing is followed or kept of what stands at the path.
void write_private_file(const Path& path, std::span<const std::string_view> parts);

}  // namespace tpubridge
