// "TPBARCH1", u64 count, for each entry: u64 size, its bytes; then u64 × 2 the hash of all that.
#include "tpubridge/cache/archive.h"

#include <fmt/format.h>

#include <algorithm>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/cache/bytes.h"

namespace tpubridge::cache {
namespace {

constexpr std::string_view kMagic = "TPBARCH1";
constexpr size_t kHash = 16;

[[noreturn]] void damaged(const Path& file, const std::string& why) {
  throw FileError(fmt::format("{} cannot be imported: {}", file.string(), why), {{"path", file.string()}},
                  "Export it again, and compare the sizes after copying it.", Code::data_loss);
}

// What goes wrong with a file is an error of what was asked of the cache.
template <class F>
auto told(const char* operation, F&& f) {
  try {
    return f();
  } catch (const FileError& e) {
    throw cache_error(operation, e.message(), e.details(), e.hint(), e.code());
  }
}

std::string_view text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::vector<DiskCache::File> chosen(const DiskCache& cache, const std::vector<Hash128>& keys) {
  auto files = cache.verify();
  for (const auto& f : files)  // it may be sound: an export without it would be less than was asked for
    if (f.unreadable()) throw FileError(f.problem, {{"path", f.path.string()}}, "", Code::unavailable);
  std::erase_if(files, [&](const DiskCache::File& f) {
    return !f.info || (!keys.empty() && std::ranges::find(keys, f.key) == keys.end());
  });
  for (const auto& key : keys)
    if (std::ranges::find(files, key, &DiskCache::File::key) == files.end())
      throw ArgumentError(fmt::format("the cache holds no sound program {}", key.hex()), {{"key", key.hex()}},
                          "`tpubridge cache ls` lists them.", Code::not_found);
  return files;
}

// The entries of a file whose checksum holds.
std::vector<std::string_view> split(std::string_view bytes, const Path& file) {
  if (bytes.size() < kMagic.size() + 8 + kHash || !bytes.starts_with(kMagic))
    damaged(file, "it is no export of a cache, or it is cut off");
  const std::string_view body = bytes.substr(0, bytes.size() - kHash);
  if (hash128(body) != Hash128{get64(bytes, body.size()), get64(bytes, body.size() + 8)})
    damaged(file, "its checksum is wrong: it is cut off or was changed");
  std::vector<std::string_view> out;
  const uint64_t count = get64(body, kMagic.size());
  size_t at = kMagic.size() + 8;
  for (uint64_t i = 0; i < count; ++i) {
    if (body.size() - at < 8) damaged(file, "it ends inside an entry");
    const uint64_t size = get64(body, at);
    at += 8;
    if (size > body.size() - at) damaged(file, "it ends inside an entry");
    out.push_back(body.substr(at, size));
    at += size;
  }
  if (at != body.size()) damaged(file, "something stands behind its last entry");
  return out;
}

Exported write_archive(const DiskCache& cache, const Path& file, const std::vector<Hash128>& keys) {
  std::vector<MappedFile> entries;  // an entry is never changed, and one that is deleted now stays mapped
  for (const auto& f : chosen(cache, keys)) try {
      entries.emplace_back(f.path);
    } catch (const FileError& e) {
      if (e.code() != Code::not_found) throw;  // another process has just deleted it
    }
  std::vector<std::string> heads(1, std::string(kMagic));
  put64(heads[0], entries.size());
  for (const auto& e : entries) put64(heads.emplace_back(), text(e).size());

  std::vector<std::string_view> parts = {heads[0]};
  for (size_t i = 0; i < entries.size(); ++i) {
    parts.emplace_back(heads[i + 1]);
    parts.push_back(text(entries[i]));
  }
  Hasher hasher;
  Exported out{std::ssize(entries), kHash};
  for (const auto part : parts) {
    hasher.add(part);
    out.bytes += std::ssize(part);
  }
  std::string hash;
  put64(hash, hasher.digest().high);
  put64(hash, hasher.digest().low);
  parts.emplace_back(hash);
  write_file(file, parts);
  return out;
}

Imported read_archive(const DiskCache& cache, const Path& file) {
  const MappedFile mapped(file);
  const auto entries = split(text(mapped), file);
  std::vector<Hash128> keys;
  for (const auto bytes : entries) keys.push_back(decode(bytes, file).info.key);
  Imported out{std::ssize(entries), 0};
  for (size_t i = 0; i < entries.size(); ++i)
    if (cache.add(keys[i], entries[i])) ++out.added;
  return out;
}

}  // namespace

Exported export_to(const DiskCache& cache, const Path& file, const std::vector<Hash128>& keys) {
  return told("export", [&] { return write_archive(cache, file, keys); });
}

Imported import_from(const DiskCache& cache, const Path& file) {
  return told("import", [&] { return read_archive(cache, file); });
}

}  // namespace tpubridge::cache
