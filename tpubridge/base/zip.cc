// Reading: the directory at the end of the file, then the header of each entry.
#include "tpubridge/base/zip.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "tpubridge/base/fd.h"
#include "tpubridge/base/text.h"

namespace tpubridge {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr uint64_t kMaxEntries = 1'000'000;
constexpr uint32_t kSeeElsewhere = 0xFFFFFFFF;  // the true number stands in the zip64 part

[[noreturn]] void refuse_zip(const Path& path, std::string_view what) {
  throw FileError(fmt::format("{}: not a sound archive: {}", path.string(), what), {{"path", path.string()}},
                  "Was it copied or downloaded completely?", Code::data_loss);
}

// Little-endian numbers of a file, each checked against its end.
struct Bytes {
  std::span<const std::byte> all;
  const Path& path;

  template <class T>
  [[nodiscard]] T at(uint64_t offset) const {
    static_assert(std::is_unsigned_v<T>);
    if (offset > all.size() || all.size() - offset < sizeof(T))
      refuse_zip(path, fmt::format("it ends before byte {}", offset));
    T value;
    std::memcpy(&value, all.data() + offset, sizeof(T));
    return value;
  }
  [[nodiscard]] std::string_view text(uint64_t offset, uint64_t size) const {
    if (offset > all.size() || all.size() - offset < size)
      refuse_zip(path, fmt::format("it ends before byte {}", offset));
    return {reinterpret_cast<const char*>(all.data()) + offset, size};
  }
};

struct Directory {
  uint64_t offset, size, count;
};

uint64_t find_end(const Bytes& bytes) {
  constexpr uint64_t kEndSize = 22, kMaxComment = 0xFFFF;
  const uint64_t size = bytes.all.size();
  if (size < kEndSize) refuse_zip(bytes.path, "it is too short for one");
  const uint64_t lowest = size - kEndSize > kMaxComment ? size - kEndSize - kMaxComment : 0;
  for (uint64_t at = size - kEndSize;; --at) {
    if (bytes.at<uint32_t>(at) == kEnd && at + kEndSize + bytes.at<uint16_t>(at + 20) == size) return at;
    if (at == lowest) refuse_zip(bytes.path, "it has no directory at its end");
  }
}

Directory find_directory(const Bytes& bytes) {
  const uint64_t end = find_end(bytes);
  Directory d{bytes.at<uint32_t>(end + 16), bytes.at<uint32_t>(end + 12), bytes.at<uint16_t>(end + 10)};
  uint64_t limit = end;
  if (d.offset == kSeeElsewhere || d.size == kSeeElsewhere || d.count == 0xFFFF) {
    if (end < 20 || bytes.at<uint32_t>(end - 20) != kLocator64)
      refuse_zip(bytes.path, "its zip64 directory is missing");
    const uint64_t at = bytes.at<uint64_t>(end - 12);
    if (at > end || bytes.at<uint32_t>(at) != kEnd64)
      refuse_zip(bytes.path, "its zip64 directory is missing");
    d = {bytes.at<uint64_t>(at + 48), bytes.at<uint64_t>(at + 40), bytes.at<uint64_t>(at + 32)};
    limit = at;
  }
  if (d.offset > limit || d.size > limit - d.offset)
    refuse_zip(bytes.path, fmt::format("its directory would end at byte {}", d.offset + d.size));
  if (d.count > kMaxEntries || d.count > d.size / 46)
    refuse_zip(bytes.path, fmt::format("{} entries do not fit its directory", d.count));
  return d;
}

void check_name(const Path& path, std::string_view name) {
  bool bad =
      name.empty() || name.front() == '/' || name.find('\\') != name.npos || name.find('\0') != name.npos;
  for (size_t at = 0; !bad && at <= name.size();) {
    const size_t slash = std::min(name.find('/', at), name.size());
    const auto part = name.substr(at, slash - at);
    bad = part == ".." || part == "." || (part.empty() && slash != name.size());
    at = slash + 1;
  }
  if (bad) refuse_zip(path, fmt::format("an entry is named {}, which leads elsewhere", quote(name)));
}

struct Sizes {
  uint64_t whole, stored, header;
};

// The 64-bit numbers of an entry whose 32-bit ones say so; they stand in this order.
void read_zip64(const Bytes& bytes, uint64_t at, uint64_t size, Sizes& sizes) {
  for (const uint64_t end = at + size; at + 4 <= end;) {
    const uint64_t next = at + 4 + bytes.at<uint16_t>(at + 2);
    if (next > end) return;
    if (bytes.at<uint16_t>(at) == 1) {
      uint64_t field = at + 4;
      for (uint64_t* number : {&sizes.whole, &sizes.stored, &sizes.header})
        if (*number == kSeeElsewhere && field + 8 <= next) *number = bytes.at<uint64_t>(field), field += 8;
      return;
    }
    at = next;
  }
}

struct Place {
  uint64_t begin, end;  // header and data
  const std::string* name;
};

// One row of the directory; gives where the next begins.
uint64_t read_entry(const Bytes& bytes, uint64_t at, const Directory& d, ZipEntry& entry, Place& place) {
  if (bytes.at<uint32_t>(at) != kCentral) refuse_zip(bytes.path, fmt::format("byte {} of its directory", at));
  const uint64_t name_size = bytes.at<uint16_t>(at + 28), extra = bytes.at<uint16_t>(at + 30),
                 comment = bytes.at<uint16_t>(at + 32), next = at + 46 + name_size + extra + comment;
  if (next > d.offset + d.size) refuse_zip(bytes.path, "its directory is longer than it says");
  entry.name = bytes.text(at + 46, name_size);
  check_name(bytes.path, entry.name);
  const auto bad = [&](std::string_view what) {
    refuse_zip(bytes.path, fmt::format("the entry {} {}", quote(entry.name), what));
  };
  if (bytes.at<uint16_t>(at + 8) & 1) bad("is encrypted");
  if (bytes.at<uint16_t>(at + 10) != 0) bad("is compressed; only stored entries are read");
  entry.crc = bytes.at<uint32_t>(at + 16);
  Sizes sizes{bytes.at<uint32_t>(at + 24), bytes.at<uint32_t>(at + 20), bytes.at<uint32_t>(at + 42)};
  read_zip64(bytes, at + 46 + name_size, extra, sizes);
  if (sizes.whole != sizes.stored) bad("is stored, but of two sizes");
  if (sizes.header > d.offset || bytes.at<uint32_t>(sizes.header) != kLocal)
    bad("has no header where it should");
  const uint64_t local_name = bytes.at<uint16_t>(sizes.header + 26),
                 data = sizes.header + 30 + local_name + bytes.at<uint16_t>(sizes.header + 28);
  if (bytes.text(sizes.header + 30, local_name) != entry.name) bad("has another name in its header");
  if (bytes.at<uint16_t>(sizes.header + 8) != 0) bad("is compressed by its header");
  if (data > d.offset || sizes.whole > d.offset - data) bad("is longer than the file");
  entry.data = bytes.all.subspan(data, sizes.whole);
  place = {sizes.header, data + sizes.whole, nullptr};
  return next;
}

}  // namespace

ZipFile::ZipFile(const Path& path) : path_(path) {
  const OpenFile file = open_to_read(path);
  const auto size = static_cast<size_t>(file.info.st_size);
  if (size == 0) refuse_zip(path, "it is empty");
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.fd.get(), 0);
  if (memory == MAP_FAILED) throw file_error("map", path, errno);
  bytes_ = {static_cast<const std::byte*>(memory), size};
  try {
    read_directory();
  } catch (...) {
    ::munmap(memory, size);
    throw;
  }
}
ZipFile::~ZipFile() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

void ZipFile::read_directory() {
  const Bytes bytes{bytes_, path_};
  const Directory d = find_directory(bytes);
  entries_.resize(d.count);
  std::vector<Place> places(d.count);
  uint64_t at = d.offset;
  for (size_t i = 0; i < entries_.size(); ++i) {
    at = read_entry(bytes, at, d, entries_[i], places[i]);
    places[i].name = &entries_[i].name;
    if (!by_name_.emplace(entries_[i].name, i).second)
      refuse_zip(path_, fmt::format("two entries are named {}", quote(entries_[i].name)));
  }
  // Entries that share bytes are how a small file becomes a large one.
  std::ranges::sort(places, {}, &Place::begin);
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].begin < places[i - 1].end)
      refuse_zip(path_, fmt::format("the entries {} and {} share bytes", quote(*places[i - 1].name),
                                    quote(*places[i].name)));
}

const ZipEntry* ZipFile::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &entries_[at->second];
}

void ZipFile::check_frame() const {
  std::vector<ZipContent> contents;
  std::vector<uint32_t> checksums;
  for (const ZipEntry& e : entries_) {
    contents.push_back({e.name, {reinterpret_cast<const char*>(e.data.data()), e.data.size()}});
    checksums.push_back(e.crc);
  }
  const ZipFrame frame = zip_frame(contents, checksums);
  const std::string_view all(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  size_t at = 0;
  for (size_t i = 0; i < contents.size(); ++i) {
    const std::string& header = frame.headers[i];
    if (all.substr(at, header.size()) != header)
      refuse_zip(path_, fmt::format("the header of {} is not what was written", quote(contents[i].name)));
    at += header.size();
    if (contents[i].data.data() != all.data() + at)
      refuse_zip(path_, fmt::format("{} is not where it was written", quote(contents[i].name)));
    at += contents[i].data.size();
  }
  if (all.substr(at) != frame.directory) refuse_zip(path_, "its directory is not what was written");
}

void ZipFile::check(const ZipEntry& entry) const {
  if (crc32(entry.data) != entry.crc)
    refuse_zip(path_, fmt::format("the bytes of {} are not those that were written", quote(entry.name)));
}

}  // namespace tpubridge
