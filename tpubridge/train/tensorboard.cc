#include "tpubridge/train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <protozero/pbf_writer.hpp>

namespace tpubridge {
namespace {

// Fields of tensorflow.Event, Summary and Summary.Value.
enum : protozero::pbf_tag_type { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum : protozero::pbf_tag_type { kValue = 1, kTag = 1, kSimpleValue = 2 };

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

template <class T>
std::string bytes_of(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

}  // namespace

namespace train {

uint32_t crc32c(std::string_view data) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c >> 1) ^ ((c & 1) != 0 ? 0x82f63b78u : 0);  // Castagnoli, reflected
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (const char c : data) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view data) {
  const uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace train

EventFile::EventFile(const Path& folder) {
  static std::atomic<int> made{0};
  make_folder(folder);
  path_ = folder / ("events.out.tfevents." + std::to_string(static_cast<int64_t>(now())) + "." + host_name() +
                    "." + std::to_string(::getpid()) + "." + std::to_string(made++));
  fd_ = Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd_) throw file_error("write", path_, errno);
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, now());
  writer.add_string(kFileVersion, "brain.Event:2");
  record(event);
}

void EventFile::add(std::string_view tag, int64_t step, double value) {
  std::string item, summary, event;
  protozero::pbf_writer item_writer(item);
  item_writer.add_string(kTag, tag.data(), tag.size());
  item_writer.add_float(kSimpleValue, static_cast<float>(value));
  protozero::pbf_writer(summary).add_message(kValue, item);
  protozero::pbf_writer writer(event);
  writer.add_double(kWallTime, now());
  writer.add_int64(kStep, step);
  writer.add_message(kSummary, summary);
  record(event);
}

void EventFile::record(std::string_view event) {
  const std::string length = bytes_of(static_cast<uint64_t>(event.size()));
  std::string out = length + bytes_of(train::masked_crc32c(length));
  out.append(event);
  out += bytes_of(train::masked_crc32c(event));
  append_all(fd_, path_, out);
}

}  // namespace tpubridge
