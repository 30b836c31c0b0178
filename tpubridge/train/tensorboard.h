// Event files that TensorBoard reads: numbers by tag and step.
//
// A file is a row of records (length, its checksum, data, its checksum); each record is an Event of
// TensorFlow's protobufs. Only what numbers need is written.
#pragma once

#include <cstdint>
#include <string_view>

#include "tpubridge/base/fd.h"
#include "tpubridge/base/files.h"

namespace tpubridge {

class EventFile {
 public:
  // Makes FOLDER/events.out.tfevents.SECONDS.HOST.PID.N, new at every construction. Throws FileError.
  explicit EventFile(const Path& folder);
  void add(std::string_view tag, int64_t step, double value);  // on the disk when it returns (not synced)
  [[nodiscard]] const Path& path() const { return path_; }

 private:
  void record(std::string_view event);
  Path path_;
  Fd fd_;
};

namespace train {
[[nodiscard]] uint32_t crc32c(std::string_view data);
[[nodiscard]] uint32_t masked_crc32c(std::string_view data);  // as record files hold it
}  // namespace train

}  // namespace tpubridge
